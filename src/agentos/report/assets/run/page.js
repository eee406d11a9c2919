/* The page of one run: built once, then each section is drawn into it. Plain JavaScript, no network.

   AgentosRun.mount(element, data, options) renders the data of `agentos report --json` into the element and
   returns {update(data), refresh(), open(label), close(), opened(), destroy()}. update keeps the filters, the open item and the scroll positions.
   options.links: false hides links to files; a function maps a file name to its address.
   options.hash: true keeps the open item, and the open document, in the page's address.
   options.opened: called with the label of the item that is opened and the file of its open document, or with nulls.
   options.document: a function of item and file that returns a promise of a document's text, where the data has none.
   options.tools: a function that returns extra elements for the panel of an item.
   options.status: a function that returns the words for the status of an item in its panel, or null for the usual ones.
   options.mark: a function that returns what else the panel of an item depends on.
   options.frame: true if the page around it has the theme switch.
   options.search: called for the key "/"; without it, the search of the items gets the focus.
   options.shortcuts: more keys for the help, each with its meaning.
   options.prompt: a function of item and call that returns a promise of {system, prompt, answer}.
   options.compare: {runs(), load(id)}: the rows of other runs, and a promise of the comparison with one of them.
   options.answer: a function that leads to the question of an item, given its label.

   Every text is set as text, never as markup. Styles are set only through classes and the CSSOM. */

class Page extends Keyboard(Clock(Paper(Headline(Timeline(Table(Panel(Documents(Compare(Calls(Keys(Object))))))))))) {
  constructor(element, data, options) {
    super();
    this.options = Object.assign({ links: true, hash: false }, options);
    this.state = {
      view: "items", statuses: new Set(), query: "", density: null, group: null, expanded: new Set(),
      window: null, sort: { by: "order", down: false }, open: null, file: null, active: null, span: -1,
    };
    this.signatures = new Map();
    this.rowCache = new Map();
    this.texts = new Map(); // of documents
    this.opener = null;
    this.build(element);
    this.update(data);
    if (this.options.hash && location.hash.length > 1) {
      const [wanted, file] = location.hash.slice(1).split("/").map(decode);
      if (this.items.has(wanted)) this.open(wanted, file);
    }
  }

  // Built once; the sections are drawn into it.
  build(element) {
    this.root = h("div", { class: "ar" });
    this.chips = h("div", { class: "ar-chips", role: "group", "aria-label": "Filter by status" });
    this.search = h("input", {
      class: "ar-search", type: "search", placeholder: "Search title, error, finding, file…", "aria-label": "Find items by text",
      autocomplete: "off", spellcheck: "false",
      oninput: () => { this.state.query = this.search.value; this.refresh(); },
    });
    this.shown = h("span", { class: "ar-muted ar-shown", "aria-live": "polite" });
    this.views = segmented("Timeline rows", [["items", "By item"], ["keys", "By key"]], (value) => {
      this.state.view = value; this.state.active = null; this.state.span = -1; this.body.scrollTop = 0; this.refresh();
    });
    this.densities = segmented("Row height", [["roomy", "Roomy"], ["tight", "Dense"]], (value) => {
      this.state.density = value; this.refresh();
    });
    this.group = h("label", { class: "ar-check" }, h("input", {
      type: "checkbox", onchange: (event) => { this.state.group = event.target.checked; this.refresh(); },
    }), "Group items without problems");
    this.zoomOut = h("button", { class: "ar-button ar-square", type: "button", "aria-label": "Zoom out", onclick: () => this.zoom(2) }, "−");
    this.zoomIn = h("button", { class: "ar-button ar-square", type: "button", "aria-label": "Zoom in", onclick: () => this.zoom(0.5) }, "+");
    this.zoomAll = h("button", { class: "ar-button", type: "button", onclick: () => { this.state.window = null; this.refresh(); } }, "Whole run");
    this.pan = h("input", {
      class: "ar-pan", type: "range", min: "0", max: "1000", value: "0", "aria-label": "Move the time window",
      oninput: () => this.panTo(Number(this.pan.value) / 1000),
    });
    this.plotHead = h("div", { class: "ar-plot-head" });
    this.space = h("div", { class: "ar-space" });
    this.body = h("div", {
      class: "ar-rows", tabindex: "0", role: "listbox", "aria-label": "Timeline", "aria-describedby": "ar-keys-help",
      onscroll: () => this.drawRows(), onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.hover(event), onpointerleave: () => this.hideTip(),
      onclick: (event) => this.click(event), onblur: () => this.hideTip(),
    }, this.space);
    this.legend = h("ul", { class: "ar-legend", "aria-label": "Legend" });
    this.tip = h("div", { class: "ar-tip", role: "status", hidden: true });
    this.table = h("div", { class: "ar-scroll ar-items", tabindex: "0", role: "region", "aria-label": "Table of items" });
    this.keys = h("section", { class: "ar-panel" });
    this.overlaps = h("section", { class: "ar-panel" });
    this.trend = h("section", { class: "ar-panel" });
    this.foot = h("footer", { class: "ar-foot" });
    this.panel = h("div", {
      class: "ar-detail", role: "dialog", "aria-label": "Item", tabindex: "-1", hidden: true,
      onkeydown: (event) => { if (event.key === "Escape") { event.stopPropagation(); this.close(); } },
    });
    this.root.append(
      hatches(), ...this.top(),
      h("div", { class: "ar-filter" }, this.search, this.chips, this.shown),
      h("section", { class: "ar-panel ar-timeline", "aria-labelledby": "ar-timeline-title" },
        h("div", { class: "ar-bar" }, h("h2", { id: "ar-timeline-title" }, "Timeline"), this.views.node,
          h("span", { class: "ar-grow" }), this.group, this.densities.node,
          h("span", { class: "ar-zoom", role: "group", "aria-label": "Zoom" }, this.zoomOut, this.zoomIn, this.zoomAll)),
        this.plotHead, this.body, this.pan, this.legend, h("p", { class: "ar-hint" }, "Drag across the chart to zoom."),
        h("p", { class: "ar-sr", id: "ar-keys-help" },
          "Up and down select a row. Left and right step through what happened in it. Enter opens the item. Plus and minus zoom. " +
          "The table of items below has the same facts as text.")),
      h("section", { class: "ar-panel" }, h("div", { class: "ar-bar" }, h("h2", {}, "Items"), h("span", { class: "ar-grow" }), csvButton(this)), this.table),
      h("div", { class: "ar-columns" }, this.keys, h("div", { class: "ar-stack" }, this.trend, this.overlaps)),
      ...[this.comparePart(), this.foot,
        this.options.frame ? null : h("div", { class: "ar-page-tools" }, themeSwitch(), h("button", { type: "button", class: "ar-button", onclick: () => showShortcuts() }, "Keyboard: ?")),
        this.tip, this.panel].filter(Boolean));
    element.replaceChildren(this.root);
    this.dragging();
    this.resize = new ResizeObserver(() => { if (this.data) this.drawTimeline(); });
    this.resize.observe(this.body);
    this.escape = (event) => {
      if (event.key === "Escape" && !this.tip.hidden) this.hideTip();
      else if (event.key === "Escape" && this.state.open) this.close();
    };
    document.addEventListener("keydown", this.escape);
    this.beforePrint = () => this.toPaper(true);
    this.afterPrint = () => this.toPaper(false);
    addEventListener("beforeprint", this.beforePrint);
    addEventListener("afterprint", this.afterPrint);
    this.shortcuts = (event) => this.shortcut(event);
    document.addEventListener("keydown", this.shortcuts);
  }

  destroy() {
    this.stopClock();
    this.resize.disconnect();
    document.removeEventListener("keydown", this.escape);
    removeEventListener("beforeprint", this.beforePrint);
    removeEventListener("afterprint", this.afterPrint);
    document.removeEventListener("keydown", this.shortcuts);
    this.root.remove();
  }

  update(given) {
    const data = this.data = this.startClock(given);
    callsOfKeys(data);
    this.items = new Map(data.items.map((item, order) => [item.label, Object.assign(item, { order, calm: calm(item) })]));
    this.measure();
    this.refresh();
    if (data.run.live) this.tickDetail();
  }

  measure() {
    const { run, items } = this.data;
    this.ends = Math.max(run.wall_seconds || 0, 0.001,
      ...items.map((item) => item.spans.reduce((last, span) => Math.max(last, span.end), 0)));
  }

  // Draws a section only if its content changed, and keeps the focus where it was.
  section(name, signature, draw) {
    const text = JSON.stringify(signature);
    if (this.signatures.get(name) === text) return;
    this.signatures.set(name, text);
    const held = document.activeElement && this.root.contains(document.activeElement)
      ? document.activeElement.getAttribute("data-focus") : null;
    draw();
    if (held && !document.activeElement.getAttribute("data-focus")) {
      const again = [...this.root.querySelectorAll("[data-focus]")].find((node) => node.getAttribute("data-focus") === held);
      if (again) again.focus({ preventScroll: true });
    }
  }

  refresh() {
    const { data, state } = this;
    this.visible = data.items.filter((item) => this.matches(item));
    this.drawTop();
    this.section("chips", [data.run.totals, [...state.statuses]], () => this.drawChips());
    const all = this.visible.length === data.items.length;
    this.shown.textContent = all ? "" : this.visible.length + " of " + data.items.length + " shown";
    this.drawTimeline();
    this.drawItems();
    this.section("keys", data.keys.map((key) => [key.id, key.state, key.calls, key.rate_limited, key.errors, key.tokens_in, key.busy_seconds]), () => this.drawKeys());
    this.section("overlaps", [data.overlaps, noOverlap(data.run)], () => this.drawOverlaps());
    this.section("trend", data.trend, () => this.drawTrend());
    this.drawCompareChoices();
    this.section("foot", [data.run.run_id, data.run.live, data.run.files, data.left_out], () => this.drawFoot());
    if (state.open) {
      const item = this.items.get(state.open);
      if (item) this.section("detail", this.detailMark(item), () => this.drawDetail(item)); else this.close();
    }
  }

  matches(item) {
    const { statuses, query } = this.state;
    if (statuses.size && !statuses.has(item.status)) return false;
    if (!query.trim()) return true;
    const hay = this.searchText(item);
    return query.toLowerCase().split(/\s+/).every((word) => hay.includes(word));
  }

  // All texts of an item that can be searched; made once for each version of the item.
  searchText(item) {
    if (!item.searchText) {
      const findings = item.rounds.flatMap((round) => [...(round.findings || []).flatMap((one) => [one.category, one.title, one.text, one.recommendation]), ...(round.questions || [])]);
      const files = [item.output, item.log, item.trail, ...item.drafts.map((draft) => draft.file)];
      const text = [item.label, item.title, statusOf(item.status).word, item.status, item.verdict, item.error, item.reason, item.node, ...files, ...findings].filter(Boolean).join(" ").toLowerCase();
      Object.defineProperty(item, "searchText", { value: text, configurable: true }); // not copied with the item
    }
    return item.searchText;
  }

  href(name) {
    if (!name || this.options.links === false) return null;
    return typeof this.options.links === "function" ? this.options.links(name) : encodeURIComponent(name);
  }

  fileLink(name, text) {
    const href = this.href(name);
    return href ? h("a", { href, rel: "noopener" }, text || name) : null;
  }
}

window.AgentosRun = {
  visible,
  local,
  utc: date,
  unpacked,
  embedded: embeddedData,
  themeSwitch,
  askInWindow,
  showShortcuts,
  isTyping,
  markdown,
  mount(element, data, options) {
    const page = new Page(element, data, options);
    return {
      update: (next) => page.update(next), refresh: () => page.refresh(), open: (label, file) => page.open(label, file),
      close: () => page.close(), opened: () => page.state.open, destroy: () => page.destroy(),
    };
  },
};

const embedded = document.getElementById("agentos-run-data");
if (embedded) {
  embeddedData(embedded).then((data) => {
    window.AgentosRun.mount(document.getElementById("agentos-run"), unpacked(data), { hash: true });
    performance.mark("agentos-run-ready");
  });
}
