/* Draws one run: headline, timeline, items, keys, overlaps, last runs. Plain JavaScript, no network.

   AgentosRun.mount(element, data, options) renders the data of `agentos report --json` into the element and
   returns {update(data), open(label), destroy()}. update keeps the filters, the open item and the scroll positions.
   options.links: false hides links to files; a function maps a file name to its address.
   options.hash: true keeps the open item in the page's address.
   options.tools: a function that returns extra elements for the panel of an item.

   Every text is set as text, never as markup. Styles are set only through classes and the CSSOM. */
(function () {
"use strict";

const SVG = "http://www.w3.org/2000/svg";

// ---- Words and formats -----------------------------------------------------------------------------------

const STATUSES = {
  running: { word: "running", path: "M5 3.5v9l7.5-4.5z", fill: true },
  approved: { word: "approved", path: "M3 8.5l3.2 3.2L13 4.8" },
  needs_revision: { word: "needs revision", path: "M12.7 6A5.2 5.2 0 1 0 13.2 9M13.2 2.6V6H9.8" },
  discuss: { word: "discuss", path: "M2.8 3.5h10.4v7H8l-3 2.8v-2.8H2.8zM5.5 7h.01M8 7h.01M10.5 7h.01" },
  failed: { word: "failed", path: "M4 4l8 8M12 4l-8 8" },
  timed_out: { word: "timed out", path: "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2.2 1.6" },
  interrupted: { word: "interrupted", path: "M4 4h8v8H4z" },
  paused: { word: "paused", path: "M5.5 3.5v9M10.5 3.5v9" },
  cut_off: { word: "cut off", path: "M3 13L13 3M2.5 8h3M10.5 8h3" },
  pending: { word: "not started", path: "M8 3a5 5 0 1 0 .01 0", dash: true },
  skipped: { word: "skipped", path: "M3 4l4.5 4L3 12M8.5 4L13 8l-4.5 4" },
};
const STATUS_ORDER = Object.keys(STATUSES);
const VERDICTS = { APPROVED: "approved", REVISE: "needs_revision", DISCUSS: "discuss", UNREADABLE: "failed" };
const TIERS = { 1: "Tier 1 · blocking", 2: "Tier 2 · high priority", 3: "Tier 3 · suggestions" };
const STATES = {
  resolved: { word: "resolved", path: "M3 8.5l3.2 3.2L13 4.8" },
  open: { word: "open", path: "M8 3a5 5 0 1 0 .01 0" },
  again: { word: "came back", path: "M12.7 6A5.2 5.2 0 1 0 13.2 9M13.2 2.6V6H9.8" },
  accepted: { word: "accepted", path: "M3 8h10" },
};
const BANDS = ["pause", "outage"]; // marks over the whole height, for as long as they last
const KEY_STATES = {
  available: "available", reserved: "in use", rate_limited: "rate limited",
  quota_exhausted: "quota exhausted", disabled: "disabled",
};
const ERRORS = {
  rate_limited: "429: rate limited", quota_exhausted: "quota exhausted", capacity: "model overloaded",
  key_rejected: "key rejected", bad_request: "request rejected", transient: "temporary error",
  dropped: "connection closed", unreachable: "provider unreachable", no_credit: "out of credit",
  no_model: "model does not exist", wrong_endpoint: "wrong address", untrusted: "certificate not trusted",
};
const FILINGS = { wanted: "not yet", unknown: "unknown; check on GitHub" };
const GROUP_FROM = 40; // from this many rows on, items without problems are grouped
const TIGHT_FROM = 24; // from this many rows on, rows are thin

function statusOf(name) {
  return STATUSES[name] || { word: String(name), path: "M8 3a5 5 0 1 0 .01 0" };
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.01) return value > 0 ? "<10 ms" : "0 s";
  if (value < 1) return Math.round(value * 1000) + " ms";
  if (value < 10) return value.toFixed(1) + " s";
  if (value < 60) return Math.round(value) + " s";
  const whole = Math.round(value);
  const h = Math.floor(whole / 3600), m = Math.floor((whole % 3600) / 60), s = whole % 60;
  if (h) return h + " h " + String(m).padStart(2, "0") + " min";
  return m + " min" + (s ? " " + String(s).padStart(2, "0") + " s" : "");
}

function clock(value, step) {
  if (value === 0) return "0";
  if (step < 1) return value.toFixed(step < 0.1 ? 2 : 1) + " s";
  const whole = Math.round(value);
  if (whole < 60 && step < 60) return whole + " s";
  const h = Math.floor(whole / 3600), m = Math.floor((whole % 3600) / 60), s = whole % 60;
  const two = (n) => String(n).padStart(2, "0");
  return h ? h + ":" + two(m) + (step < 60 ? ":" + two(s) : " h") : step < 60 ? m + ":" + two(s) : m + " min";
}

function moment(value) {
  return value < 60 ? value.toFixed(2) + " s" : clock(value, 1) + (value < 600 ? "." + Math.floor((value % 1) * 10) : "");
}

function tokens(value) {
  if (value < 1000) return String(value);
  if (value < 1e6) return (value / 1000).toFixed(value < 1e4 ? 1 : 0) + "k";
  return (value / 1e6).toFixed(value < 1e7 ? 2 : 1) + "M";
}

function cachedPart(used) {
  return used.tokens_cached ? " (" + tokens(used.tokens_cached) + " cached)" : "";
}

function tokensIn(used) {
  return tokens(used.tokens_in) + cachedPart(used);
}

function money(value) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "$0";
  if (value < 0.01) return "$" + value.toFixed(4);
  return "$" + value.toFixed(value < 1000 ? 2 : 0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function percent(value) {
  if (value === null || value === undefined) return "–";
  return (Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value)) + " %";
}

function counted(number, noun) {
  return number + " " + noun + (number === 1 ? "" : "s");
}

function date(text) {
  const at = new Date(text || "");
  if (isNaN(at)) return "";
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.getUTCMonth()];
  const two = (n) => String(n).padStart(2, "0");
  return at.getUTCDate() + " " + month + " " + at.getUTCFullYear() + ", " +
    two(at.getUTCHours()) + ":" + two(at.getUTCMinutes()) + ":" + two(at.getUTCSeconds()) + " UTC";
}

// ---- Making elements -------------------------------------------------------------------------------------

// Characters that change the text direction are shown as codes, never applied: they can make a text look like another one.
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function visible(text) {
  return String(text).replace(TURNS, (mark) => "[U+" + mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "]");
}

function attribute(node, name, value) {
  node.setAttribute(name, name === "title" || name.startsWith("aria-") ? visible(value) : value);
}

function fill(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) fill(node, child);
    else node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else attribute(node, name, value === true ? "" : value);
  }
  return fill(node, children);
}

function s(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) attribute(node, name, value);
  }
  return fill(node, children);
}

function icon(shape, cls) {
  return s("svg", { class: "ar-icon " + (cls || ""), viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: shape.path, class: (shape.fill ? "ar-solid" : "") + (shape.dash ? " ar-dash" : "") }));
}

function statusIcon(name) {
  return icon(statusOf(name), "ar-s-" + name);
}

function badge(name, text) {
  return h("span", { class: "ar-badge ar-s-" + name }, statusIcon(name), text || statusOf(name).word);
}

function nodeClass(name) {
  const known = { draft: 0, review: 1, load: 5, gate: 5, judge: 5, finalize: 5, hold: 5 };
  if (name in known) return "ar-n" + known[name];
  let sum = 0;
  for (const mark of String(name || "")) sum = (sum * 31 + mark.codePointAt(0)) % 997;
  return "ar-n" + (2 + (sum % 3));
}

function natural(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}

// ---- Scales ----------------------------------------------------------------------------------------------

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

function ticks(from, to, width) {
  const least = (to - from) / Math.max(1, Math.floor(width / 92));
  const step = STEPS.find((one) => one >= least) || Math.ceil(least / 86400) * 86400;
  const found = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + 1e-9; n++) found.push(n * step);
  return { step, at: found };
}

function Scale(from, to, width) {
  const factor = width / Math.max(1e-6, to - from);
  const x = (t) => (t - from) * factor;
  x.from = from; x.to = to; x.width = width; x.ticks = ticks(from, to, width);
  x.time = (px) => from + px / factor;
  return x;
}

// ---- Items without problems ------------------------------------------------------------------------------

function calm(item) {
  return ["approved", "skipped", "pending"].includes(item.status) && item.attempts <= 1 && !["wanted", "unknown"].includes(item.filing) &&
    !item.spans.some((span) => span.error || span.kind === "retry");
}

// ---- The page --------------------------------------------------------------------------------------------

class Page {
  constructor(element, data, options) {
    this.options = Object.assign({ links: true, hash: false }, options);
    this.state = {
      view: "items", statuses: new Set(), query: "", density: null, group: null, expanded: false,
      window: null, sort: { by: "order", down: false }, open: null, active: null, span: -1,
    };
    this.signatures = new Map();
    this.rowCache = new Map();
    this.opener = null;
    this.build(element);
    this.update(data);
    if (this.options.hash && location.hash.length > 1) {
      const wanted = decode(location.hash.slice(1));
      if (this.items.has(wanted)) this.open(wanted);
    }
  }

  // Built once; the sections are drawn into it.
  build(element) {
    this.root = h("div", { class: "ar" });
    this.head = h("header", { class: "ar-head" });
    this.notice = h("p", { class: "ar-notice", role: "status", hidden: true });
    this.stats = h("dl", { class: "ar-stats" });
    this.chips = h("div", { class: "ar-chips", role: "group", "aria-label": "Filter by status" });
    this.search = h("input", {
      class: "ar-search", type: "search", placeholder: "Search label, title, error…", "aria-label": "Find items by text",
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
    this.panel = h("aside", {
      class: "ar-detail", role: "dialog", "aria-label": "Item", tabindex: "-1", hidden: true,
      onkeydown: (event) => { if (event.key === "Escape") { event.stopPropagation(); this.close(); } },
    });
    this.root.append(
      hatches(), this.head, this.notice, this.stats,
      h("div", { class: "ar-filter" }, this.search, this.chips, this.shown),
      h("section", { class: "ar-panel ar-timeline", "aria-labelledby": "ar-timeline-title" },
        h("div", { class: "ar-bar" }, h("h2", { id: "ar-timeline-title" }, "Timeline"), this.views.node,
          h("span", { class: "ar-grow" }), this.group, this.densities.node,
          h("span", { class: "ar-zoom", role: "group", "aria-label": "Zoom" }, this.zoomOut, this.zoomIn, this.zoomAll)),
        this.plotHead, this.body, this.pan, this.legend,
        h("p", { class: "ar-sr", id: "ar-keys-help" },
          "Up and down select a row. Left and right step through what happened in it. Enter opens the item. Plus and minus zoom. " +
          "The table of items below has the same facts as text.")),
      h("section", { class: "ar-panel" }, h("div", { class: "ar-bar" }, h("h2", {}, "Items")), this.table),
      h("div", { class: "ar-columns" }, this.keys, h("div", { class: "ar-stack" }, this.trend, this.overlaps)),
      this.foot, this.tip, this.panel);
    element.replaceChildren(this.root);
    this.dragging();
    this.resize = new ResizeObserver(() => { if (this.data) this.drawTimeline(); });
    this.resize.observe(this.body);
    this.escape = (event) => {
      if (event.key === "Escape" && !this.tip.hidden) this.hideTip();
      else if (event.key === "Escape" && this.state.open) this.close();
    };
    document.addEventListener("keydown", this.escape);
  }

  destroy() {
    this.resize.disconnect();
    document.removeEventListener("keydown", this.escape);
    this.root.remove();
  }

  update(data) {
    this.data = data;
    callsOfKeys(data);
    this.items = new Map(data.items.map((item, order) => [item.label, Object.assign(item, { order, calm: calm(item) })]));
    this.ends = Math.max(data.run.wall_seconds || 0, 0.001,
      ...data.items.map((item) => item.spans.reduce((last, span) => Math.max(last, span.end), 0)));
    this.refresh();
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
    this.section("head", [data.run, data.trend], () => { this.drawHead(); this.drawNotice(); this.drawStats(); });
    this.section("chips", [data.run.totals, [...state.statuses]], () => this.drawChips());
    const all = this.visible.length === data.items.length;
    this.shown.textContent = all ? "" : this.visible.length + " of " + data.items.length + " shown";
    this.drawTimeline();
    this.drawItems();
    this.section("keys", data.keys.map((key) => [key.id, key.state, key.calls, key.rate_limited, key.errors, key.tokens_in, key.busy_seconds]), () => this.drawKeys());
    this.section("overlaps", [data.overlaps, noOverlap(data.run)], () => this.drawOverlaps());
    this.section("trend", data.trend, () => this.drawTrend());
    this.section("foot", [data.run.run_id, data.run.live, data.run.files, data.left_out], () => this.drawFoot());
    if (state.open) {
      const item = this.items.get(state.open);
      if (item) this.section("detail", item, () => this.drawDetail(item)); else this.close();
    }
  }

  matches(item) {
    const { statuses, query } = this.state;
    if (statuses.size && !statuses.has(item.status)) return false;
    if (!query.trim()) return true;
    const hay = [item.label, item.title, item.status, item.verdict, item.error, item.reason, item.output, item.node]
      .filter(Boolean).join(" ").toLowerCase();
    return query.toLowerCase().split(/\s+/).every((word) => hay.includes(word));
  }

  href(name) {
    if (!name || this.options.links === false) return null;
    return typeof this.options.links === "function" ? this.options.links(name) : encodeURIComponent(name);
  }

  fileLink(name, text) {
    const href = this.href(name);
    return href ? h("a", { href, rel: "noopener" }, text || name) : null;
  }

  // ---- Headline ------------------------------------------------------------------------------------------

  drawHead() {
    const run = this.data.run;
    const total = run.expected || this.data.items.length;
    const good = run.totals.approved || 0, skipped = run.totals.skipped || 0;
    const ended = run.live ? badge("running", "live")
      : run.cut_off ? badge("cut_off", "cut off: the run was killed. Run the same command to resume.")
      : badge(run.exit_code === 0 ? "approved" : run.exit_code === 1 ? "failed" : run.exit_code === 3 ? "needs_revision" : "paused",
          "exit " + run.exit_code + (run.meaning ? " · " + run.meaning : ""));
    const bar = s("svg", { class: "ar-share", viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    let at = 0;
    for (const name of STATUS_ORDER) {
      const part = (run.totals[name] || 0) / Math.max(1, total) * 1000;
      if (part) bar.append(s("rect", { x: at, y: 0, width: Math.max(1, part - 3), height: 8, class: "ar-fill ar-s-" + name }));
      at += part;
    }
    this.head.replaceChildren(
      h("div", { class: "ar-title" },
        h("p", { class: "ar-over" }, "agentos", h("span", { "aria-hidden": "true" }, " / "), run.workflow, h("span", { "aria-hidden": "true" }, " / "), h("code", {}, run.run_id)),
        h("h1", {}, skipped && skipped === total ? "Nothing to do: " + counted(total, "item") + " skipped" : good + " of " + counted(total - skipped, "item") + " approved"),
        h("p", { class: "ar-muted" }, [date(run.started_at), run.parallel ? run.parallel + " in parallel" : null,
          run.stopped ? "stopped: " + run.stopped.replace(/_/g, " ") : null].filter(Boolean).join(" · "))),
      h("div", { class: "ar-ended" }, ended), bar);
  }

  drawNotice() {
    const { paused } = this.data.run;
    this.notice.hidden = !paused;
    const left = paused && paused.seconds_left;
    if (paused) this.notice.replaceChildren(statusIcon("paused"), h("span", {}, h("b", {}, "Paused: "), paused.reason,
      left === null ? "" : left > 0 ? "; resuming in about " + seconds(left) : "; resuming any moment"));
  }

  drawStats() {
    const { run, trend, parallelism } = this.data;
    const stat = (name, value, note, extra) => h("div", { class: "ar-stat" }, h("dt", {}, name), h("dd", {}, h("span", { class: "ar-value" }, value), note ? h("span", { class: "ar-note" }, note) : null, extra));
    const cost = run.cost_usd === null && run.cost_known_usd > 0 ? "≥ " + money(run.cost_known_usd) : money(run.cost_usd);
    this.stats.replaceChildren(
      stat("Wall time", seconds(run.wall_seconds), run.live ? "so far" : null),
      stat("Avg. items running", parallelism.mean_items.toFixed(1), run.parallel ? "of " + run.parallel : null),
      stat("Avg. calls in flight", parallelism.mean_calls.toFixed(1), null),
      stat("Waited for keys", seconds(run.waited_seconds), "all items"),
      stat("Overhead", percent(run.coordination_overhead_percent), null, spark(trend.map((one) => one.overhead), "Overhead of the last runs")),
      stat("Tokens", tokens(run.tokens_in + run.tokens_out), tokensIn(run) + " in, " + tokens(run.tokens_out) + " out"),
      stat("Cost", cost, [run.pretended ? "simulated (mock)" : null, run.cost_usd === null && run.cost_known_usd > 0 ? "some prices unknown" : null].filter(Boolean).join(", "), spark(trend.map((one) => one.cost_usd), "Cost of the last runs")));
  }

  drawChips() {
    const { totals } = this.data.run;
    const names = [...STATUS_ORDER.filter((name) => totals[name]), ...Object.keys(totals).filter((name) => !STATUSES[name])];
    this.chips.replaceChildren(...names.map((name) => h("button", {
      class: "ar-chip ar-s-" + name, type: "button", "aria-pressed": String(this.state.statuses.has(name)), "data-focus": "chip-" + name,
      onclick: () => {
        if (!this.state.statuses.delete(name)) this.state.statuses.add(name);
        this.body.scrollTop = 0; this.refresh();
      },
    }, statusIcon(name), h("b", {}, totals[name]), " " + statusOf(name).word)),
    ...(this.state.statuses.size ? [h("button", { class: "ar-link", type: "button", "data-focus": "chip-all", onclick: () => { this.state.statuses.clear(); this.refresh(); } }, "show all")] : []));
  }

  // ---- Timeline ------------------------------------------------------------------------------------------

  get tight() {
    const rows = this.state.view === "keys" ? this.data.keys.length : this.visible.length;
    return (this.state.density || (rows > TIGHT_FROM ? "tight" : "roomy")) === "tight";
  }

  get grouping() {
    return this.state.group === null ? this.visible.length > GROUP_FROM : this.state.group;
  }

  rows() {
    const rows = [];
    let y = 0;
    const add = (row, height) => { rows.push(Object.assign(row, { y, height })); y += height; };
    if (this.state.view === "keys") {
      const shown = new Set(this.visible.map((item) => item.label));
      const all = shown.size === this.data.items.length;
      for (const key of this.data.keys) {
        const lanes = packed(key.spans.filter((span) => span.kind === "call"));
        const lane = this.tight ? 6 : 12;
        add({ type: "key", id: key.id, key, lanes, lane, shown: all ? null : shown }, Math.max(this.tight ? 40 : 48, lanes.length * lane + 16));
      }
    } else {
      const height = this.tight ? 20 : 34;
      const items = this.grouping ? this.visible.filter((item) => !item.calm) : this.visible;
      const quiet = this.grouping ? this.visible.filter((item) => item.calm) : [];
      if (quiet.length) {
        add({ type: "group", id: "\u0000calm", items: quiet }, 44);
        if (this.state.expanded) for (const item of quiet) add({ type: "item", id: item.label, item }, height);
      }
      for (const item of items) add({ type: "item", id: item.label, item }, height);
    }
    this.total = y;
    return rows;
  }

  scale() {
    const styles = getComputedStyle(this.root);
    this.label = parseFloat(styles.getPropertyValue("--ar-label")) || 200;
    const width = Math.max(60, this.body.clientWidth - this.label - 26);
    const [from, to] = this.state.window || [0, this.ends];
    return Scale(from, to, width);
  }

  drawTimeline() {
    const { state } = this;
    this.views.set(state.view);
    this.densities.set(this.tight ? "tight" : "roomy");
    const check = this.group.firstChild;
    check.checked = this.grouping;
    this.group.hidden = state.view === "keys" || !this.visible.some((item) => item.calm);
    this.list = this.rows();
    this.space.style.height = Math.max(this.total, 40) + "px";
    this.x = this.scale();
    const zoomed = state.window !== null;
    this.zoomAll.disabled = this.zoomOut.disabled = !zoomed;
    this.pan.hidden = !zoomed;
    if (zoomed) {
      const room = this.ends - (state.window[1] - state.window[0]);
      this.pan.value = String(room > 0 ? Math.round(state.window[0] / room * 1000) : 0);
      this.pan.setAttribute("aria-valuetext", "from " + moment(state.window[0]) + " to " + moment(state.window[1]));
    }
    this.drawPlotHead();
    this.drawLegend();
    this.drawn = null;
    this.drawRows();
  }

  // How many items are running and how many calls are in flight, on the same time axis as the rows.
  drawPlotHead() {
    const { x, data } = this;
    const { parallelism, run } = data;
    const height = 60, top = 6;
    const most = Math.max(run.parallel || 1, ...parallelism.items.map((step) => step[1]), ...parallelism.calls.map((step) => step[1]), 1);
    const y = (n) => top + (height - top) * (1 - n / most);
    const chart = s("svg", { class: "ar-plot", width: x.width + 26, height: height + 24, role: "img",
      "aria-label": "Parallelism: " + parallelism.mean_items.toFixed(1) + " items running on average, at most " + Math.max(0, ...parallelism.items.map((one) => one[1])) + (run.parallel ? " of " + run.parallel : "") });
    chart.append(...gridlines(x, height), ...this.bands(x, height));
    chart.append(s("path", { class: "ar-area", d: stepPath(parallelism.items, x, y, this.ends, height) }));
    chart.append(s("path", { class: "ar-line ar-line-items", d: stepPath(parallelism.items, x, y, this.ends) }));
    chart.append(s("path", { class: "ar-line ar-line-calls", d: stepPath(parallelism.calls, x, y, this.ends) }));
    if (run.parallel) {
      const allowed = [[0, run.parallel], ...parallelism.allowed];
      chart.append(s("path", { class: "ar-line ar-line-limit", d: stepPath(allowed, x, y, this.ends) }));
    }
    for (const at of x.ticks.at) {
      chart.append(s("text", { class: "ar-tick", x: x(at), y: height + 17, "text-anchor": at <= x.from ? "start" : x(at) > x.width - 14 ? "end" : "middle" }, clock(at, x.ticks.step)));
    }
    this.brush = s("rect", { class: "ar-brush", y: 0, height, x: 0, width: 0 });
    chart.append(this.brush);
    this.plotHead.replaceChildren(
      h("div", { class: "ar-plot-label" },
        h("span", { class: "ar-key" }, swatch("ar-area-swatch"), "running"),
        h("span", { class: "ar-key" }, swatch("ar-calls-swatch"), "in a call"),
        h("span", { class: "ar-scale-top" }, most), h("span", { class: "ar-scale-zero" }, "0")),
      chart);
  }

  bands(x, height) {
    return this.data.marks.filter((mark) => BANDS.includes(mark.kind) || mark.kind === "stopping").map((mark) => {
      const left = Math.max(0, x(mark.start));
      if (x(mark.end) < 0 || left > x.width) return null;
      return BANDS.includes(mark.kind)
        ? s("rect", { class: "ar-pause", x: left, y: 0, width: Math.max(1.5, Math.min(x.width, x(mark.end)) - left), height })
        : s("line", { class: "ar-stopping", x1: left, x2: left, y1: 0, y2: height });
    }).filter(Boolean);
  }

  drawLegend() {
    const used = { nodes: new Map() };
    for (const item of this.data.items) for (const span of item.spans) {
      used[span.kind] = true;
      if (span.kind === "call" && span.node) used.nodes.set(span.node, nodeClass(span.node));
      if (span.error) used.error = true;
      if (span.ended === "crashed") used.crashed = true;
    }
    for (const key of this.data.keys) for (const span of key.spans) used[span.kind] = true;
    for (const mark of this.data.marks) used["mark-" + mark.kind] = true;
    const by = this.state.view;
    const entry = (cls, text) => h("li", {}, swatch(cls), text);
    this.section("legend", [[...used.nodes], Object.keys(used), by], () => this.legend.replaceChildren(...[
      ...[...used.nodes].sort().slice(0, 6).map(([name, cls]) => entry("ar-call " + cls, name + " call")),
      used.error && entry("ar-call ar-bad", "failed call"),
      by === "items" && used.life && entry("ar-life", "worker running"),
      by === "items" && used.wait && entry("ar-wait", "waiting for a key"),
      by === "items" && used.retry && entry("ar-retry", "waiting to retry"),
      by === "items" && used.crashed && h("li", {}, mark("crash"), "worker crashed"),
      by === "keys" && used.limited && h("li", {}, mark("limited"), "429"),
      by === "keys" && used.rest && entry("ar-rest", "rate limited"),
      by === "keys" && used.disabled && entry("ar-disabled", "key disabled"),
      used["mark-pause"] && entry("ar-pause", "run paused"),
      used["mark-outage"] && entry("ar-pause", "provider down"),
      used["mark-stopping"] && entry("ar-stopping-swatch", "run stopping"),
    ].filter(Boolean)));
  }

  // Only the visible rows are in the document.
  drawRows() {
    const top = this.body.scrollTop, bottom = top + this.body.clientHeight;
    const first = this.list.findIndex((row) => row.y + row.height >= top - 120);
    let last = this.list.length;
    while (last > 0 && this.list[last - 1].y > bottom + 120) last--;
    const range = first + "-" + last + "-" + this.state.active;
    if (this.drawn === range) return;
    this.drawn = range;
    const nodes = first < 0 ? [] : this.list.slice(first, last).map((row, n) => this.drawRow(row, first + n));
    if (!this.list.length) nodes.push(h("p", { class: "ar-empty" }, this.data.items.length ? "No items match the filter." : "No items have started yet."));
    this.space.replaceChildren(...nodes);
    const active = this.list.findIndex((row) => row.id === this.state.active);
    if (active >= 0) this.body.setAttribute("aria-activedescendant", "ar-row-" + active);
    else this.body.removeAttribute("aria-activedescendant");
  }

  drawRow(row, number) {
    const { x } = this;
    const plot = s("svg", { class: "ar-plot", width: x.width + 26, height: row.height, "aria-hidden": "true" });
    plot.append(...gridlines(x, row.height), ...this.bands(x, row.height));
    let label, spoken;
    if (row.type === "item") {
      const { item } = row;
      drawItem(plot, item, x, row.height, !this.tight);
      label = [statusIcon(item.status), h("span", { class: "ar-name" }, item.label), this.tight && !item.title ? null : h("span", { class: "ar-sub" }, item.title || "")];
      spoken = [item.label, item.title, statusOf(item.status).word, counted(item.reviews, "review"), seconds(item.seconds)].filter(Boolean).join(", ");
    } else if (row.type === "group") {
      drawGroup(plot, row.items, x, row.height, this.ends);
      label = [h("span", { class: "ar-twist" + (this.state.expanded ? " ar-open" : ""), "aria-hidden": "true" }), h("span", { class: "ar-name" }, row.items.length + " without problems"), h("span", { class: "ar-sub" }, "no error, retry or crash")];
      spoken = row.items.length + " items without problems, " + (this.state.expanded ? "shown below" : "hidden; press Enter to show them");
    } else {
      const { key } = row;
      drawKey(plot, row, x, row.height);
      label = [h("span", { class: "ar-dot ar-k-" + key.state, "aria-hidden": "true" }), h("span", { class: "ar-name" }, key.id), h("span", { class: "ar-sub" }, counted(key.calls, "call") + (key.rate_limited ? ", " + key.rate_limited + " × 429" : ""))];
      spoken = [key.id, KEY_STATES[key.state] || key.state, counted(key.calls, "call"), key.rate_limited + " × 429", "rate limited for " + seconds(key.rested_seconds)].join(", ");
    }
    const node = h("div", {
      class: "ar-row ar-row-" + row.type + (row.height < 26 ? " ar-thin" : "") + (row.id === this.state.active ? " ar-active" : ""),
      role: "option", id: "ar-row-" + number, "aria-label": spoken, "aria-selected": String(row.id === this.state.active),
      "aria-posinset": number + 1, "aria-setsize": this.list.length,
    }, h("div", { class: "ar-row-label" }, label), plot);
    node.style.top = row.y + "px";
    node.style.height = row.height + "px";
    return node;
  }

  rowAt(clientY) {
    const y = clientY - this.space.getBoundingClientRect().top;
    return this.list.find((row) => y >= row.y && y < row.y + row.height);
  }

  spanAt(row, clientX, clientY) {
    const box = this.space.getBoundingClientRect();
    const px = clientX - box.left - this.label;
    if (px < -4) return null;
    const pause = this.data.marks.find((one) => [...BANDS, "stopping"].includes(one.kind) && near(one, px, this.x) < 3);
    if (row.type === "group") return pause || null;
    const lane = row.type === "key" ? Math.floor((clientY - box.top - row.y - laneTop(row)) / row.lane) : -1;
    const rank = { limited: 0, filing: 1, call: 1, wait: 2, retry: 2, rest: 3, disabled: 3, node: 4, life: 5 };
    let best = null, least = Infinity;
    const spans = row.type === "key" ? row.key.spans : row.item.spans;
    for (const span of spans) {
      const away = near(span, px, this.x);
      if (away > (span.start === span.end ? 7 : 3)) continue;
      const far = row.type === "key" && span.kind === "call" && row.lanes[lane] && !row.lanes[lane].includes(span) ? 6 : 0;
      const score = away + (rank[span.kind] || 0) * 4 + far;
      if (score < least) { least = score; best = span; }
    }
    return best || pause || null;
  }

  hover(event) {
    const row = this.rowAt(event.clientY);
    if (!row) return this.hideTip();
    this.showTip(row, this.spanAt(row, event.clientX, event.clientY), event.clientX, event.clientY);
  }

  click(event) {
    const row = this.rowAt(event.clientY);
    if (!row) return;
    this.state.active = row.id;
    this.state.span = -1;
    const span = this.spanAt(row, event.clientX, event.clientY);
    this.act(row, span);
  }

  act(row, span) {
    if (row.type === "group") { this.state.expanded = !this.state.expanded; this.drawTimeline(); }
    else if (row.type === "item") this.open(row.item.label);
    else { this.drawRows(); if (span && span.item && this.items.has(span.item)) this.open(span.item); }
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.list.length) return;
    const at = this.list.findIndex((row) => row.id === this.state.active);
    const page = Math.max(1, Math.floor(this.body.clientHeight / 34) - 1);
    const moves = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, Home: 0, End: this.list.length - 1, PageDown: at + page, PageUp: at - page };
    const row = this.list[at];
    if (event.key in moves) {
      const next = this.list[Math.min(this.list.length - 1, Math.max(0, moves[event.key]))];
      this.state.active = next.id;
      this.state.span = -1;
      this.reveal(next);
      this.tipFor(next, null);
    } else if (row && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const spans = stops(row);
      if (!spans.length) return;
      const step = event.key === "ArrowRight" ? 1 : -1;
      this.state.span = Math.min(spans.length - 1, Math.max(0, this.state.span + step));
      this.tipFor(row, spans[this.state.span]);
    } else if (row && (event.key === "Enter" || event.key === " ")) {
      this.act(row, stops(row)[this.state.span]);
    } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") { this.state.window = null; this.refresh(); }
    else return;
    event.preventDefault();
  }

  reveal(row) {
    if (row.y < this.body.scrollTop) this.body.scrollTop = row.y;
    else if (row.y + row.height > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = row.y + row.height - this.body.clientHeight;
    this.drawRows();
  }

  tipFor(row, span) {
    const box = this.space.getBoundingClientRect();
    const px = span ? Math.min(this.x.width, Math.max(0, this.x((span.start + span.end) / 2))) : 8;
    this.showTip(row, span, box.left + this.label + px, box.top + row.y + row.height - 4);
  }

  showTip(row, span, clientX, clientY) {
    const lines = span ? spanLines(span, row) : rowLines(row);
    const text = JSON.stringify([row.id, lines]);
    if (this.tipText !== text) {
      this.tipText = text;
      this.tip.replaceChildren(h("strong", {}, lines[0]), h("dl", {}, lines.slice(1).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
    }
    this.tip.hidden = false;
    const width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    const left = clientX + 16 + width > innerWidth - 8 ? Math.max(8, clientX - width - 12) : clientX + 16;
    const top = clientY + 18 + height > innerHeight - 8 ? Math.max(8, clientY - height - 12) : clientY + 18;
    this.tip.style.left = Math.min(left, innerWidth - width - 8) + "px";
    this.tip.style.top = top + "px";
  }

  hideTip() {
    this.tip.hidden = true;
    this.tipText = null;
  }

  // Dragging over the parallelism chart zooms in on that time.
  dragging() {
    let from = null;
    const at = (event) => {
      const box = this.plotHead.querySelector("svg").getBoundingClientRect();
      return Math.min(this.x.width, Math.max(0, event.clientX - box.left));
    };
    this.plotHead.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !event.target.closest("svg") || event.pointerType === "touch") return;
      from = at(event);
      this.plotHead.setPointerCapture(event.pointerId);
    });
    this.plotHead.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = at(event);
      this.brush.setAttribute("x", Math.min(from, to));
      this.brush.setAttribute("width", Math.abs(to - from));
    });
    this.plotHead.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = at(event), [a, b] = [Math.min(from, to), Math.max(from, to)];
      from = null;
      if (b - a > 8) { this.state.window = [this.x.time(a), this.x.time(b)]; this.refresh(); }
      else this.brush.setAttribute("width", 0);
    });
  }

  zoom(factor) {
    const [from, to] = this.state.window || [0, this.ends];
    const row = this.list.find((one) => one.id === this.state.active);
    const span = row && stops(row)[this.state.span];
    const middle = span ? (span.start + span.end) / 2 : (from + to) / 2;
    const width = Math.max(0.02, (to - from) * factor);
    if (width >= this.ends) this.state.window = null;
    else {
      const start = Math.min(this.ends - width, Math.max(0, middle - width / 2));
      this.state.window = [start, start + width];
    }
    this.refresh();
  }

  panTo(part) {
    if (!this.state.window) return;
    const width = this.state.window[1] - this.state.window[0];
    const start = part * Math.max(0, this.ends - width);
    this.state.window = [start, start + width];
    this.drawTimeline();
  }

  // ---- Items as a table ----------------------------------------------------------------------------------

  drawItems() {
    const { sort } = this.state;
    const columns = [
      ["order", "Item", (item) => item.order],
      ["status", "Status", (item) => STATUS_ORDER.indexOf(item.status)],
      ["reviews", "Reviews", (item) => item.reviews],
      ["attempts", "Attempts", (item) => item.attempts],
      ["seconds", "Time", (item) => item.seconds],
      ["waited", "Waited", (item) => item.waited_seconds],
      ["tokens", "Tokens", (item) => item.tokens_in + item.tokens_out],
      ["cost", "Cost", (item) => (item.cost_usd === null ? -1 : item.cost_usd)],
      ["told", "Result or reason", null],
    ];
    const by = columns.find((column) => column[0] === sort.by)[2];
    const items = [...this.visible].sort((a, b) => (sort.down ? by(b) - by(a) : by(a) - by(b)) || natural(a.label, b.label));
    if (!this.tbody) {
      this.sorters = new Map();
      this.tbody = h("tbody");
      this.table.append(h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Items of the run"),
        h("thead", {}, h("tr", {}, columns.map(([name, text, value]) => {
          const head = h("th", { scope: "col", class: "ar-c-" + name }, value ? h("button", {
            type: "button", class: "ar-sort", onclick: () => {
              this.state.sort = { by: name, down: this.state.sort.by === name ? !this.state.sort.down : !["order", "status"].includes(name) };
              this.drawItems();
            } }, text) : text);
          if (value) this.sorters.set(name, head);
          return head;
        }))), this.tbody));
    }
    for (const [name, head] of this.sorters) {
      if (name === sort.by) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    }
    const held = document.activeElement && this.tbody.contains(document.activeElement) ? document.activeElement.getAttribute("data-focus") : null;
    const rows = items.map((item) => this.itemRow(item));
    const same = rows.length === this.tbody.childElementCount && rows.every((row, n) => this.tbody.children[n] === row);
    if (!same) this.tbody.replaceChildren(...rows);
    if (held && document.activeElement === document.body) {
      const again = rows.map((row) => row.querySelector("[data-focus]")).find((node) => node.getAttribute("data-focus") === held);
      if (again) again.focus({ preventScroll: true });
    }
  }

  itemRow(item) {
    const text = item.output || item.error || item.reason || waitingFor(item) || (item.node ? "at " + item.node : "");
    const signature = JSON.stringify([item.status, item.title, item.rounds.map((one) => one.verdict), item.reviews, item.attempts, item.seconds, item.waited_seconds, item.tokens_in, item.tokens_out, item.cost_usd, item.cost_known_usd, text]);
    const kept = this.rowCache.get(item.label);
    if (kept && kept.signature === signature) return kept.row;
    const row = h("tr", { onclick: (event) => { if (!event.target.closest("a,button") && !String(getSelection())) this.open(item.label); } },
      h("th", { scope: "row" }, h("button", { type: "button", class: "ar-open", "data-focus": "row-" + item.label, onclick: () => this.open(item.label) }, item.label), item.title ? h("span", { class: "ar-sub" }, item.title) : null),
      h("td", {}, badge(item.status)),
      h("td", {}, h("span", { class: "ar-verdicts" }, item.reviews ? h("span", { class: "ar-count" }, item.reviews) : "–", item.rounds.filter((one) => one.verdict).slice(-8).map((one) => h("span", { class: "ar-pip ar-s-" + (VERDICTS[one.verdict] || "pending"), title: "Round " + one.review + ": " + one.verdict }, h("span", { "aria-hidden": "true" }, one.verdict.slice(0, 1)), h("span", { class: "ar-sr" }, " " + one.verdict + " "))))),
      h("td", { class: "ar-num" + (item.attempts > 1 ? " ar-warn" : "") }, item.attempts || "–"),
      h("td", { class: "ar-num" }, item.seconds ? seconds(item.seconds) : "–"),
      h("td", { class: "ar-num" }, item.waited_seconds >= 0.005 ? seconds(item.waited_seconds) : "–"),
      h("td", { class: "ar-num" }, item.tokens_in + item.tokens_out ? tokens(item.tokens_in + item.tokens_out) : "–"),
      h("td", { class: "ar-num" }, costOf(item) || "–"),
      h("td", { class: "ar-c-told" }, h("span", { class: "ar-clip", title: text }, text)));
    this.rowCache.set(item.label, { signature, row });
    return row;
  }

  // ---- One item ------------------------------------------------------------------------------------------

  open(label) {
    const item = this.items.get(label);
    if (!item) return;
    this.hideTip();
    this.opener = this.state.open ? this.opener : document.activeElement;
    this.state.open = label;
    this.signatures.delete("detail");
    this.panel.hidden = false;
    this.root.classList.add("ar-with-detail");
    this.section("detail", item, () => this.drawDetail(item));
    this.panel.scrollTop = 0;
    this.panel.focus({ preventScroll: true });
    this.address("#" + encodeURIComponent(label));
    this.drawTimeline();
  }

  close() {
    const label = this.state.open;
    this.state.open = null;
    this.panel.hidden = true;
    this.panel.replaceChildren();
    this.root.classList.remove("ar-with-detail");
    this.address(location.pathname + location.search);
    this.drawTimeline();
    if (this.opener && this.opener.isConnected && this.opener !== document.body) this.opener.focus({ preventScroll: true });
    else if (label) this.body.focus({ preventScroll: true });
  }

  address(to) {
    if (!this.options.hash) return;
    try { history.replaceState(null, "", to); } catch { /* not allowed in a page from disk */ }
  }

  drawDetail(item) {
    const kept = this.panel.scrollTop;
    const opened = new Set([...this.panel.querySelectorAll("details[open]")].map((node) => node.dataset.name));
    const fact = (name, value) => (value === null || value === undefined || value === "" ? null : [h("dt", {}, name), h("dd", {}, value)]);
    const lives = item.spans.filter((span) => span.kind === "life");
    attribute(this.panel, "aria-label", item.label);
    const neighbours = this.visible.map((one) => one.label);
    const at = neighbours.indexOf(item.label);
    const step = (by, text, name) => h("button", { class: "ar-button ar-square", type: "button", "aria-label": name, "data-focus": "step" + by, disabled: !neighbours[at + by], onclick: () => this.open(neighbours[at + by]) }, text);
    this.panel.replaceChildren(...[
      h("div", { class: "ar-detail-head" },
        h("div", {}, h("h2", {}, item.label), item.title ? h("p", { class: "ar-muted" }, item.title) : null),
        h("div", { class: "ar-detail-tools" }, step(-1, "↑", "Previous item"), step(1, "↓", "Next item"),
          h("button", { class: "ar-button ar-square", type: "button", "aria-label": "Close", "data-focus": "close", onclick: () => this.close() }, "×"))),
      h("p", { class: "ar-detail-status" }, badge(item.status), item.node ? h("span", { class: "ar-muted" }, "at " + item.node) : null, item.waiting ? h("span", { class: "ar-muted" }, waitingFor(item)) : null),
      item.error && item.error !== (item.rounds.at(-1) || {}).reason ? h("p", { class: "ar-callout ar-s-" + item.status }, item.error) : null,
      item.reason ? h("p", { class: "ar-callout" }, item.reason) : null,
      lives.length ? this.miniature(item, lives) : null,
      h("dl", { class: "ar-facts" },
        fact("Time", item.seconds ? seconds(item.seconds) : null), fact("Waited", item.waited_seconds >= 0.005 ? seconds(item.waited_seconds) : null),
        fact("Reviews", item.reviews || null), fact("Attempts", item.attempts || null),
        fact("Tokens", item.tokens_in + item.tokens_out ? tokensIn(item) + " in, " + tokens(item.tokens_out) + " out" : null),
        fact("Cost", costOf(item)),
        fact("Output", item.output && !item.filed ? h("code", {}, item.output) : null),
        fact("Filed", item.filed ? filedLink(item.filed) : item.filing ? FILINGS[item.filing] || item.filing : null),
        fact("Log", item.log ? this.fileLink(item.log) || h("code", {}, item.log) : null),
        fact("Checkpoint", item.checkpoint ? h("code", {}, item.checkpoint) : null),
        fact("Lineage", item.trail ? h("code", {}, item.trail) : null)),
      lives.length > 1 ? h("section", {}, h("h3", {}, "Workers"), h("ol", { class: "ar-lives" }, lives.map((life) => h("li", {},
        "Attempt " + life.attempt + " at " + moment(life.start) + (life.resumed ? ", resumed from its checkpoint" : "") + ": " + (life.error || (life.ended ? statusOf(life.ended).word : "running")))))) : null,
      this.options.tools ? this.options.tools(item) : null,
      contextPart(item.context || []),
      this.history(item),
    ].filter(Boolean));
    for (const node of this.panel.querySelectorAll("details")) if (opened.has(node.dataset.name)) node.open = true;
    this.panel.scrollTop = kept;
  }

  miniature(item, lives) {
    const from = lives[0].start, to = Math.max(from + 0.01, ...lives.map((life) => life.end));
    const width = Math.max(200, this.panel.clientWidth - 48), pad = (to - from) * 0.01;
    const x = Scale(from - pad, to + pad, width);
    const plot = s("svg", { class: "ar-plot ar-mini", width, height: 56, role: "img", "aria-label": item.label + " from " + moment(from) + " to " + moment(to) });
    plot.append(...gridlines(x, 34));
    drawItem(plot, item, x, 34, true, true);
    for (const at of x.ticks.at) if (x(at) > 12 && x(at) < width - 12) plot.append(s("text", { class: "ar-tick", x: x(at), y: 50, "text-anchor": "middle" }, clock(at, x.ticks.step)));
    return plot;
  }

  // Drafts and reviews, oldest first.
  history(item) {
    const parts = [];
    const drafts = new Map(item.drafts.map((draft) => [draft.number, draft]));
    const gates = new Map();
    for (const gate of item.gates) gates.set(gate.draft, gate);
    const done = new Set();
    const draftPart = (number) => {
      if (done.has(number) || (!drafts.has(number) && !gates.has(number))) return;
      done.add(number);
      parts.push(this.draftPart(number, drafts.get(number), gates.get(number)));
    };
    const numbers = [...new Set([...drafts.keys(), ...gates.keys()])].sort((a, b) => a - b);
    for (const round of item.rounds) {
      // A round without a draft number reviewed a draft of an earlier run.
      const upto = round.draft ?? (round === item.rounds.at(-1) ? Infinity : round.review);
      for (const number of numbers) if (number <= upto) draftPart(number);
      parts.push(this.roundPart(round, round !== item.rounds.at(-1)));
    }
    for (const number of numbers) draftPart(number);
    return parts.length ? h("section", { class: "ar-history" }, h("h3", {}, "Drafts and reviews"), h("ol", {}, parts)) : null;
  }

  draftPart(number, draft, gate) {
    const missing = gate && gate.missing.length ? h("p", { class: "ar-callout ar-s-needs_revision" }, "Sent back by the gate; missing: " + gate.missing.join(", ")) : null;
    const notes = gate ? gate.notes.map((note) => h("p", { class: "ar-muted" }, note)) : [];
    let change = null;
    if (draft && draft.left_out) change = h("p", { class: "ar-muted" }, "Changes left out to keep the page small; see " + draft.file + ".");
    else if (draft && draft.diff) {
      change = h("details", { "data-name": "draft-" + number, ontoggle: (event) => {
        const node = event.target;
        if (node.open && !node.querySelector("pre")) node.append(diffBlock(draft));
      } }, h("summary", {}, "Changes since draft " + (number - 1) + " ", h("span", { class: "ar-plus" }, "+" + draft.added), " ", h("span", { class: "ar-minus" }, "−" + draft.removed)));
    } else if (draft && draft.diff === "") change = h("p", { class: "ar-muted" }, "Same as the previous draft.");
    return h("li", { class: "ar-part ar-part-draft" },
      h("h4", {}, "Draft " + number, draft ? h("span", { class: "ar-muted" }, " " + counted(draft.lines, "line") + " · " + draft.file) : null), missing, notes, change);
  }

  roundPart(round, followed) {
    const findings = round.findings || [];
    const state = VERDICTS[round.verdict] || "pending";
    const facts = [round.model, round.key, round.seconds ? seconds(round.seconds) : null,
      round.tokens_in ? tokens(round.tokens_in + round.tokens_out) + " tokens" : null,
      round.cost_usd !== null && round.cost_usd !== undefined ? money(round.cost_usd) : null,
      round.run_id ? "in run " + round.run_id : null].filter(Boolean).join(" · ");
    const tiers = [1, 2, 3].map((tier) => [tier, findings.filter((one) => one.tier === tier)]).filter(([, some]) => some.length);
    return h("li", { class: "ar-part ar-part-round" },
      round.verdict ? h("h4", {}, "Review " + round.review + " ", badge(state, round.verdict)) : null,
      facts ? h("p", { class: "ar-muted" }, facts) : null,
      round.reason ? h("p", { class: "ar-callout ar-s-failed" }, round.reason) : null,
      tiers.map(([tier, some]) => h("div", { class: "ar-tier ar-tier-" + tier }, h("h5", {}, TIERS[tier]), h("ul", {}, some.map((one) => findingPart(one, followed))))),
      (round.questions || []).length ? h("div", { class: "ar-tier" }, h("h5", {}, "Questions"), h("ul", {}, round.questions.map((one) => h("li", { class: "ar-question" }, one)))) : null,
      round.decision ? h("p", { class: "ar-callout ar-s-discuss" }, h("b", {}, "Decided: " + round.decision.answer), round.decision.by ? " by " + round.decision.by : "", round.decision.at ? ", " + (date(round.decision.at) || round.decision.at) : "", round.decision.note ? h("span", { class: "ar-said" }, round.decision.note) : null) : null);
  }

  // ---- Keys, overlaps, last runs -------------------------------------------------------------------------

  drawKeys() {
    const { keys } = this.data;
    const most = Math.max(0.001, ...keys.map((key) => key.busy_seconds));
    this.keys.replaceChildren(h("div", { class: "ar-bar" }, h("h2", {}, "Keys")),
      keys.length ? h("div", { class: "ar-scroll", tabindex: "0", role: "region", "aria-label": "Table of keys" }, h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Keys of the run"),
        h("thead", {}, h("tr", {}, ["Key", "State", "Calls", "429s", "Other errors", "In calls", "Rate limited", "Tokens"].map((text, n) => h("th", { scope: "col", class: n > 1 ? "ar-num" : null }, text)))),
        h("tbody", {}, keys.map((key) => {
          const bar = s("svg", { class: "ar-meter", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: "ar-meter-back", width: 100, height: 4, rx: 2 }), s("rect", { class: "ar-meter-fill", width: key.busy_seconds / most * 100, height: 4, rx: 2 }));
          return h("tr", {}, h("th", { scope: "row" }, h("span", { class: "ar-keyname" }, key.id), h("span", { class: "ar-sub" }, [key.provider, key.group && key.group !== key.id ? "group " + key.group : null].filter(Boolean).join(", "))),
            h("td", {}, h("span", { class: "ar-state" }, h("span", { class: "ar-dot ar-k-" + key.state, "aria-hidden": "true" }), KEY_STATES[key.state] || key.state)),
            h("td", { class: "ar-num" }, key.calls), h("td", { class: "ar-num" + (key.rate_limited ? " ar-warn" : "") }, key.rate_limited || "–"), h("td", { class: "ar-num" }, key.errors || "–"),
            h("td", { class: "ar-num" }, seconds(key.busy_seconds), bar), h("td", { class: "ar-num" }, key.rested_seconds ? seconds(key.rested_seconds) : "–"), h("td", { class: "ar-num" }, tokens(key.tokens_in + key.tokens_out)));
        })))) : h("p", { class: "ar-muted ar-pad" }, "No keys were used."));
  }

  drawOverlaps() {
    const { overlaps } = this.data;
    this.overlaps.replaceChildren(h("div", { class: "ar-bar" }, h("h2", {}, "Overlaps"), overlaps.length ? h("span", { class: "ar-muted" }, "designs that change the same files") : null),
      overlaps.length ? h("ul", { class: "ar-overlaps" }, overlaps.map((one) => h("li", {},
        h("p", {}, one.items.map((label) => this.items.has(label)
          ? h("button", { type: "button", class: "ar-link", "data-focus": "overlap-" + label + one.files[0], onclick: () => this.open(label) }, label) : h("span", {}, label))),
        h("ul", {}, one.files.map((file) => h("li", {}, h("code", {}, file)))))))
        : h("p", { class: "ar-muted ar-pad" }, noOverlap(this.data.run)));
  }

  drawTrend() {
    const trend = this.data.trend.slice(-12);
    const chart = (title, values, show) => {
      const known = values.filter((value) => value !== null);
      if (!known.length) return null;
      const most = Math.max(...known, 1e-9), width = 100 / Math.max(8, values.length);
      return h("figure", { class: "ar-trend" },
        h("figcaption", {}, title, h("b", {}, values.at(-1) === null ? "unknown" : show(values.at(-1)))),
        s("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": title + ", oldest run first: " + values.map((value) => (value === null ? "unknown" : show(value))).join(", ") },
          values.map((value, n) => s("rect", { class: "ar-col" + (n === values.length - 1 ? " ar-now" : ""), x: n * width + width * 0.12, width: width * 0.76, y: value === null ? 39 : 40 - Math.max(1, value / most * 38), height: value === null ? 1 : Math.max(1, value / most * 38) }, s("title", {}, trend[n].run_id + ": " + (value === null ? "unknown" : show(value) + (show === money && trend[n].pretended ? ", simulated" : "")))))));
    };
    this.trend.replaceChildren(h("div", { class: "ar-bar" }, h("h2", {}, "Last runs"), h("span", { class: "ar-muted" }, trend.length > 1 ? counted(trend.length, "run") + ", latest on the right" : !trend.length ? "no finished run yet" : trend[0].run_id === this.data.run.run_id ? "this is the first" : "one earlier run")),
      h("div", { class: "ar-trends" }, chart("Overhead", trend.map((one) => one.overhead), percent), chart("Cost", trend.map((one) => one.cost_usd), money), chart("Wall time", trend.map((one) => one.wall_seconds), seconds), chart("Approved", trend.map((one) => one.approved), String)));
  }

  drawFoot() {
    const { left_out: out } = this.data;
    const links = (this.data.run.files || []).map((name) => this.fileLink(name)).filter(Boolean);
    this.foot.replaceChildren(...[
      out.diffs ? h("p", {}, counted(out.diffs, "diff") + " left out to keep the page small; the drafts are in the lineage.") : null,
      out.texts ? h("p", {}, counted(out.texts, "text") + " of findings shortened to keep the page small; the full texts are in the audit trails.") : null,
      this.data.run.begun && this.data.run.begun.command ? h("p", {}, "Command: ", h("code", {}, this.data.run.begun.command), startedWith(this.data.run.begun)) : null,
      this.data.run.trace_id ? h("p", {}, "Trace: ", h("code", {}, this.data.run.trace_id)) : null,
      links.length && !this.data.run.live ? h("p", {}, "Files of this run: ", links.map((link, n) => [n ? ", " : "", link])) : null,
    ].filter(Boolean));
  }
}

// ---- Parts of the page -----------------------------------------------------------------------------------

const WAITS = { key: "waiting for a key", overloaded: "waiting for an overloaded model", outage: "waiting for a provider that is down", budget: "waiting for the budget", backoff: "waiting to retry" };

function waitingFor(item) {
  if (!item.waiting) return "";
  const { reason, seconds_left: left, of = "key" } = item.waiting;
  return (WAITS[of] || "waiting") + (reason ? ": " + reason : "") + (left ? ", about " + seconds(left) + " left" : "");
}

function startedWith(run) {
  const facts = [run.drafter ? "drafter " + run.drafter : "", run.reviewer ? "reviewer " + run.reviewer : "", run.budget === null ? "" : "budget " + money(run.budget), run.item_budget === null ? "" : money(run.item_budget) + " per item", run.version ? "agentos " + run.version : ""];
  return " · " + facts.filter(Boolean).join(" · ");
}

function costOf(item) {
  if (item.cost_usd === null && item.cost_known_usd > 0) return "≥ " + money(item.cost_known_usd);
  return item.tokens_in + item.tokens_out || item.cost_usd ? money(item.cost_usd) : null;
}

function noOverlap(run) {
  if (run.compared === null || run.compared === undefined) return "No two designs of this run change the same file.";
  if (run.compared < (run.totals.approved || 0) || !run.compared) return run.live ? "Overlaps are listed when the run is finished." : "Overlaps were not checked: the run was cut off.";
  return "None among the " + counted(run.compared, "design") + " approved " + (run.live ? "so far." : "before the run was cut off.");
}

// Fills in the calls of each key from the calls of the items.
function callsOfKeys(data) {
  const made = new Map(data.keys.map((key) => [key.id, []]));
  for (const item of data.items) for (const span of item.spans) {
    if (span.kind === "call" && made.has(span.key)) made.get(span.key).push(Object.assign({}, span, { item: item.label }));
  }
  for (const key of data.keys) {
    key.spans = [...key.spans.filter((span) => span.kind !== "call"), ...made.get(key.id)].sort((a, b) => a.start - b.start);
  }
}

// Reverses `packed` of page.py.
function unpacked({ texts, shapes, data }) {
  const unpack = (value) => {
    if (typeof value === "string" && value[0] === "~") return value[1] === "~" ? value.slice(1) : texts[value.slice(1)];
    if (!Array.isArray(value)) return value;
    if (value[0] === 0) return value.slice(1).map(unpack);
    return Object.fromEntries(shapes[value[0] - 1].map((name, n) => [name, unpack(value[n + 1])]));
  };
  return unpack(data);
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function segmented(name, choices, choose) {
  const buttons = new Map();
  const node = h("span", { class: "ar-segments", role: "group", "aria-label": name }, choices.map(([value, text]) => {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(value) }, text);
    buttons.set(value, button);
    return button;
  }));
  return { node, set(value) { for (const [one, button] of buttons) button.setAttribute("aria-pressed", String(one === value)); } };
}

function filedLink(filed) {
  const name = filed.number ? "#" + filed.number : filed.url || "yes";
  return filed.url && /^https?:\/\//.test(filed.url) ? h("a", { href: filed.url, rel: "noopener noreferrer", target: "_blank" }, name) : h("span", {}, name);
}

// What both models got to know about the repository.
function contextPart(parts) {
  if (!parts.length) return null;
  const total = parts.reduce((sum, part) => sum + part.tokens, 0);
  return h("section", {}, h("h3", {}, "Repository map"),
    h("details", { "data-name": "context" }, h("summary", {}, counted(parts.length, "part") + ", " + tokens(total) + " tokens in each call"),
      h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Parts of the repository map"),
        h("thead", {}, h("tr", {}, ["Path", "Kind", "Tokens"].map((text, n) => h("th", { scope: "col", class: n > 1 ? "ar-num" : null }, text)))),
        h("tbody", {}, parts.map((part) => h("tr", {}, h("td", {}, h("code", {}, part.path)), h("td", {}, part.kind), h("td", { class: "ar-num" }, tokens(part.tokens))))))));
}

function findingPart(finding, followed) {
  const state = followed && finding.state === "open" ? STATES.again : STATES[finding.state] || STATES.open;
  return h("li", { class: "ar-finding ar-f-" + finding.state },
    h("p", { class: "ar-finding-head" }, h("span", { class: "ar-mark" }, icon(state), state.word),
      finding.category && finding.category !== "Suggestion" ? h("span", { class: "ar-tag" }, finding.category) : null, finding.title ? h("b", {}, finding.title) : null),
    finding.text ? h("p", { class: "ar-said" }, finding.text) : null,
    finding.recommendation ? h("p", { class: "ar-said ar-advice" }, finding.recommendation) : null);
}

function diffBlock(draft) {
  const block = h("pre", { class: "ar-diff", tabindex: "0", "aria-label": "Changes in " + draft.file });
  for (const line of draft.diff.split("\n")) {
    const kind = line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "same";
    block.append(h("span", { class: "ar-d-" + kind }, line || " "));
  }
  if (draft.cut) block.append(h("span", { class: "ar-d-hunk" }, "… more changes; see " + draft.file));
  return block;
}

function spark(values, title) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const most = Math.max(...known, 1e-9), least = Math.min(...known, 0);
  const points = values.map((value, n) => (value === null ? null : [n / (values.length - 1) * 68 + 4, 20 - (value - least) / (most - least || 1) * 16]));
  const drawn = points.filter(Boolean);
  return s("svg", { class: "ar-spark", width: 76, height: 24, role: "img", "aria-label": title },
    s("title", {}, title),
    s("polyline", { points: drawn.map((one) => one.map((n) => n.toFixed(1)).join(",")).join(" ") }),
    s("circle", { cx: drawn.at(-1)[0], cy: drawn.at(-1)[1], r: 2.5 }));
}

function swatch(cls) {
  return s("svg", { class: "ar-swatch", width: 16, height: 10, "aria-hidden": "true" }, s("rect", { class: cls, x: 0.5, y: 0.5, width: 15, height: 9, rx: 2 }));
}

function mark(kind) {
  const node = s("svg", { class: "ar-swatch", width: 16, height: 12, "aria-hidden": "true" });
  node.append(kind === "limited" ? diamond(8, 6) : crash(8, 6));
  return node;
}

function diamond(x, y) {
  return s("path", { class: "ar-limited", d: "M" + x + " " + (y - 5) + "l5 5l-5 5l-5 -5z" });
}

function crash(x, y) {
  return s("path", { class: "ar-crash", d: "M" + (x - 3.5) + " " + (y - 3.5) + "l7 7m0 -7l-7 7" });
}

function hatches() {
  const pattern = (id, cls, gap) => s("pattern", { id, width: gap, height: gap, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: gap, height: gap, class: cls + "-back" }), s("line", { x1: 0, y1: 0, x2: 0, y2: gap, class: cls + "-line" }));
  return s("svg", { class: "ar-defs", width: 0, height: 0, "aria-hidden": "true" }, s("defs", {},
    pattern("ar-hatch-wait", "ar-h-wait", 5), pattern("ar-hatch-rest", "ar-h-rest", 6), pattern("ar-hatch-pause", "ar-h-pause", 9), pattern("ar-hatch-off", "ar-h-off", 4), pattern("ar-hatch-bad", "ar-h-bad", 4)));
}

function gridlines(x, height) {
  return x.ticks.at.map((at) => s("line", { class: "ar-grid", x1: Math.round(x(at)) + 0.5, x2: Math.round(x(at)) + 0.5, y1: 0, y2: height }));
}

function stepPath(series, x, y, ends, base) {
  if (!series.length) return "";
  let level = 0, d = "";
  const put = (t, n) => { d += (d ? "L" : "M") + Math.min(x.width, Math.max(0, x(t))).toFixed(1) + " " + y(n).toFixed(1); };
  for (const [t, n] of series) {
    if (t > x.to) break;
    if (t >= x.from) { if (!d) put(Math.min(Math.max(x.from, 0), t), level); put(t, level); put(t, n); }
    level = n;
  }
  if (!d) put(x.from, level);
  put(Math.min(x.to, ends), level);
  return base === undefined ? d : d + "L" + Math.min(x.width, x(Math.min(x.to, ends))).toFixed(1) + " " + base + "L" + Math.max(0, x(Math.max(x.from, series[0][0]))).toFixed(1) + " " + base + "Z";
}

function box(span, x, y, height, cls, least) {
  const left = Math.max(-2, x(span.start)), right = Math.min(x.width + 2, x(span.end));
  if (right < -2 || left > x.width + 2) return null;
  const width = Math.max(least || 1.5, right - left);
  return s("rect", { class: cls, x: left.toFixed(1), y, width: width.toFixed(1), height, rx: Math.min(2.5, width / 2) });
}

const DRAWN = ["life", "node", "wait", "retry", "filing", "call"];

function drawItem(plot, item, x, height, roomy, plain) {
  const pad = roomy ? 8 : 4, tall = height - 2 * pad;
  const parts = [];
  for (const kind of DRAWN) for (const span of item.spans) {
    if (span.kind !== kind) continue;
    if (kind === "life") {
      parts.push(box(span, x, pad, tall, "ar-life" + (span.open ? " ar-alive" : ""), 2));
      if (span.ready > span.start && x(span.ready) - x(span.start) > 2) parts.push(box({ start: span.start, end: span.ready }, x, pad, tall, "ar-boot"));
    } else if (kind === "node") parts.push(box(span, x, pad, tall, "ar-node " + nodeClass(span.node), 0.5));
    else if (kind === "call") parts.push(box(span, x, pad, tall, "ar-call " + (span.error ? "ar-bad" : nodeClass(span.node)) + (span.open ? " ar-alive" : ""), span.error ? 3 : 1.5));
    else parts.push(box(span, x, pad, tall, "ar-" + kind + (span.open ? " ar-alive" : "")));
  }
  let last = null;
  for (const span of item.spans) if (span.kind === "life") {
    if (span.ended === "crashed" && x(span.end) >= 0 && x(span.end) <= x.width) parts.push(crash(x(span.end), height / 2));
    last = span;
  }
  if (last && last.ended && !plain && x(last.end) >= 0 && x(last.end) <= x.width) {
    const size = roomy ? 13 : 11;
    const shape = statusOf(item.status);
    parts.push(s("svg", { class: "ar-end ar-s-" + item.status, x: x(last.end) + 5, y: (height - size) / 2, width: size, height: size, viewBox: "0 0 16 16" }, s("path", { d: shape.path, class: shape.fill ? "ar-solid" : "" })));
  }
  plot.append(...parts.filter(Boolean));
}

function drawGroup(plot, items, x, height, ends) {
  const changes = new Map();
  for (const item of items) for (const span of item.spans) if (span.kind === "life") {
    changes.set(span.start, (changes.get(span.start) || 0) + 1);
    changes.set(span.end, (changes.get(span.end) || 0) - 1);
  }
  let level = 0, most = 1;
  const series = [...changes.keys()].sort((a, b) => a - b).map((at) => { level += changes.get(at); most = Math.max(most, level); return [at, level]; });
  const y = (n) => 7 + (height - 12) * (1 - n / most);
  plot.append(s("path", { class: "ar-area ar-area-calm", d: stepPath(series, x, y, ends, height - 5) }));
}

function packed(calls) {
  const lanes = [], free = [];
  for (const call of calls) {
    let lane = free.findIndex((end) => end <= call.start);
    if (lane < 0) { lane = lanes.length; lanes.push([]); }
    lanes[lane].push(call);
    free[lane] = call.end;
  }
  return lanes;
}

function laneTop(row) {
  return Math.max(8, (row.height - row.lanes.length * row.lane) / 2);
}

function drawKey(plot, row, x, height) {
  const { key, lanes, lane, shown } = row;
  const parts = [];
  for (const span of key.spans) {
    if (span.kind === "rest") parts.push(box(span, x, 3, height - 6, "ar-rest"));
    else if (span.kind === "disabled") parts.push(box(span, x, 3, height - 6, "ar-disabled"));
  }
  const top = laneTop(row);
  lanes.forEach((calls, n) => {
    // Calls that touch on the screen become one shape: nobody could see them apart, and the page stays fast.
    let run = null;
    const flush = () => { if (run) parts.push(box(run, x, top + n * lane + 1, lane - 2, run.cls, run.bad ? 3 : 1.5)); };
    for (const call of calls) {
      const dim = shown && !shown.has(call.item);
      const cls = "ar-call " + (call.error ? "ar-bad" : nodeClass(call.node)) + (dim ? " ar-dim" : "") + (call.open ? " ar-alive" : "");
      if (run && run.cls === cls && x(call.start) - x(run.end) < 0.6 && x(call.end) - x(call.start) < 3) run.end = call.end;
      else { flush(); run = { start: call.start, end: call.end, cls, bad: Boolean(call.error) }; }
    }
    flush();
  });
  for (const span of key.spans) if (span.kind === "limited" && x(span.start) >= 0 && x(span.start) <= x.width) parts.push(diamond(x(span.start), 7));
  plot.append(...parts.filter(Boolean));
}

function near(span, px, x) {
  const left = x(span.start), right = Math.max(x(span.end), left + 1.5);
  return px < left ? left - px : px > right ? px - right : 0;
}

function stops(row) {
  if (row.type === "item") return row.item.spans;
  return row.type === "key" ? row.key.spans : [];
}

// The lines of a tooltip: a title, then [name, value] pairs.
function rowLines(row) {
  if (row.type === "group") return [row.items.length + " items without problems", ["what", "approved, skipped or not started; no error, retry or crash"], ["show them", "click the row or press Enter"]];
  if (row.type === "key") {
    const { key } = row;
    return [key.id, ["state", KEY_STATES[key.state] || key.state], ["calls", counted(key.calls, "call")], ["429s", key.rate_limited], ["rate limited", seconds(key.rested_seconds)]];
  }
  const { item } = row;
  return [item.label + (item.title ? " " + item.title : ""), ["status", statusOf(item.status).word], ["reviews", item.reviews], ["time", seconds(item.seconds)],
    ...(item.waited_seconds >= 0.005 ? [["waited", seconds(item.waited_seconds)]] : []), ...(item.waiting ? [["now", waitingFor(item)]] : []), ...(item.tokens_in ? [["tokens", tokensIn(item) + " in, " + tokens(item.tokens_out) + " out"]] : []), ...(item.error ? [["reason", clipped(item.error)]] : [])];
}

function clipped(text) {
  return text.length > 240 ? text.slice(0, 240) + " …" : text;
}

function spanLines(span, row) {
  const when = ["when", moment(span.start) + (span.end > span.start ? " – " + moment(span.end) : "")];
  const long = span.end > span.start ? [["duration", seconds(span.end - span.start) + (span.open ? " so far" : "")]] : [];
  const item = span.item || (row.item && row.item.label);
  const of = item ? [["item", item]] : [];
  switch (span.kind) {
    case "call":
      return [(span.node || "model") + " call" + (span.open ? ", in flight" : ""), ...of, when, ...long, ["key", span.key || row.id], ["model", span.served || span.model || "?"],
        ...(span.tokens_in || span.tokens_out ? [["tokens", (span.tokens_in || 0) + " in" + cachedPart(span) + ", " + (span.tokens_out || 0) + " out"]] : []),
        ...(span.cost_usd !== undefined ? [["cost", money(span.cost_usd)]] : []), ...(span.error ? [["error", ERRORS[span.error] || span.error]] : [])];
    case "life":
      return ["Worker, attempt " + span.attempt, ...of, when, ...long, ...(span.ready !== undefined ? [["ready after", seconds(span.ready - span.start)]] : []), ...(span.resumed ? [["resumed", "from its checkpoint"]] : []),
        ...(span.ended ? [["ended", span.ended === "crashed" ? "worker crashed" : statusOf(span.ended).word]] : []), ...(span.error ? [["reason", clipped(span.error)]] : [])];
    case "node":
      return ["Node " + (span.node || "?"), ...of, ["round", span.round], when, ...long];
    case "wait":
      return [(WAITS[span.of || "key"] || "waiting").replace("w", "W"), ...of, when, ...long, ...(span.reason ? [["reason", clipped(span.reason)]] : []), ...(span.model ? [["model", span.model]] : [])];
    case "retry":
      return ["Waiting to retry", ...of, when, ...long, ...(span.reason ? [["reason", clipped(span.reason)]] : [])];
    case "filing":
      return ["Filing the issue", ...of, when, ...long];
    case "limited":
      return [span.reason === "quota_exhausted" ? "Quota exhausted" : "429: rate limited", ["key", row.id], when];
    case "rest":
      return [span.reason === "quota_exhausted" ? "Quota exhausted" : "Rate limited", ["key", row.id], when, ["duration", seconds(span.seconds) + (span.told ? ", set by the provider" : ", backoff by agentos")], ...(span.model ? [["model", span.model]] : []), ["reason", (ERRORS[span.reason] || span.reason)]];
    case "disabled":
      return ["Key disabled", ["key", row.id], when, ...(span.reason ? [["reason", clipped(span.reason)]] : [])];
    case "pause":
      return ["Run paused", when, ...long, ["reason", clipped(span.text)]];
    case "outage":
      return ["Provider down", when, ...long, ["reason", clipped(span.text)]];
    case "stopping":
      return ["Run stopping", when, ["reason", clipped(span.text)]];
    default:
      return [span.kind, when, ...long];
  }
}

// ---- Entry point -----------------------------------------------------------------------------------------

window.AgentosRun = {
  visible,
  unpacked,
  mount(element, data, options) {
    const page = new Page(element, data, options);
    return { update: (next) => page.update(next), open: (label) => page.open(label), destroy: () => page.destroy() };
  },
};

const embedded = document.getElementById("agentos-run-data");
if (embedded) {
  window.AgentosRun.mount(document.getElementById("agentos-run"), unpacked(JSON.parse(embedded.textContent)), { hash: true });
  performance.mark("agentos-run-ready");
}
})();
