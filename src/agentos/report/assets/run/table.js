// Items as a table. With many items, only the visible rows are in the document, as in the timeline.

const VIRTUAL_FROM = 120; // rows
const ITEM_ROW = 57; // pixels; run.css gives every row of a long table this height
const BEYOND = 10; // rows above and below the visible ones

// Takes the place of rows that are not in the document.
function gap(where, rows) {
  if (!rows) return [];
  const cell = h("td", { colspan: "9" });
  cell.style.height = rows * ITEM_ROW + "px";
  return [h("tr", { class: "ar-gap", "aria-hidden": "true", "data-where": where }, cell)];
}

const Table = (Base) => class extends Base {
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
    const first = (item) => (this.pinned && sort.by === "order" && item.status === "running" ? 0 : 1);
    const items = [...this.visible].sort((a, b) => first(a) - first(b) || (sort.down ? by(b) - by(a) : by(a) - by(b)) || natural(a.label, b.label));
    if (!this.tbody) {
      this.sorters = new Map();
      this.tbody = h("tbody");
      this.table.addEventListener("scroll", () => this.drawItemRows());
      this.table.append(h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Items of the run"),
        h("thead", {}, h("tr", {}, columns.map(([name, text, value]) => {
          const head = h("th", { scope: "col", class: "ar-c-" + name, title: name === "waited" ? "For keys, overloaded models, providers that were down, and the budget" : null }, value ? h("button", {
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
    this.sorted = items;
    const virtual = items.length > VIRTUAL_FROM;
    this.table.classList.toggle("ar-virtual", virtual);
    this.tbody.parentElement.setAttribute("aria-rowcount", items.length + 1);
    this.drawItemRows();
  }

  // The rows of the table that can be seen, or all of them for printing.
  drawItemRows() {
    const virtual = this.sorted.length > VIRTUAL_FROM && !this.everything;
    const [first, last] = virtual ? this.itemRange() : [0, this.sorted.length];
    const held = document.activeElement && this.tbody.contains(document.activeElement) ? document.activeElement.getAttribute("data-focus") : null;
    const rows = this.sorted.slice(first, last).map((item, n) => {
      const row = this.itemRow(item);
      row.setAttribute("aria-rowindex", first + n + 2);
      return row;
    });
    const all = [...gap("above", first), ...rows, ...gap("below", this.sorted.length - last)];
    const same = all.length === this.tbody.childElementCount && all.every((row, n) => this.tbody.children[n] === row || (row.className === "ar-gap" && row.isEqualNode(this.tbody.children[n])));
    if (!same) this.tbody.replaceChildren(...all);
    if (held && document.activeElement === document.body) {
      const again = rows.map((row) => row.querySelector("[data-focus]")).find((node) => node.getAttribute("data-focus") === held);
      (again || this.table).focus({ preventScroll: true });
    }
  }

  itemRange() {
    const top = Math.floor(this.table.scrollTop / ITEM_ROW), seen = Math.ceil((this.table.clientHeight || 720) / ITEM_ROW);
    const first = Math.max(0, Math.min(top, this.sorted.length - seen) - BEYOND);
    return [first, Math.min(this.sorted.length, first + seen + 2 * BEYOND)];
  }

  // Puts every row of table and timeline into the document, for printing; or only the visible ones again.
  expandAll(everything = true) {
    this.everything = everything;
    this.drawn = null;
    this.drawRows();
    this.drawItemRows();
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
};
