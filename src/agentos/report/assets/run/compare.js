// This run beside another one: totals, and every item whose result or figures differ.

const CHANGES = { changed: "changed", added: "only in this run", gone: "only in the other run", same: "same result", settled: "approved before, skipped now" };

function signed(value, text) {
  if (value === null || value === undefined) return "unknown";
  return value === 0 ? "±0" : (value > 0 ? "+" : "−") + text(Math.abs(value));
}

const Compare = (Base) => class extends Base {
  comparePart() {
    if (!this.options.compare) return null;
    this.compareWith = h("select", { class: "ar-select", "aria-label": "Compare with", onchange: () => this.loadComparison() });
    this.compared = h("div", { class: "ar-compared", "aria-live": "polite" });
    return h("section", { class: "ar-panel ar-compare" },
      h("div", { class: "ar-bar" }, h("h2", {}, "Compare"), h("label", { class: "ar-muted" }, "with an earlier or later run ", this.compareWith)), this.compared);
  }

  drawCompareChoices() {
    if (!this.options.compare) return;
    const runs = this.options.compare.runs();
    const chosen = this.compareWith.value;
    this.section("compare-choices", runs.map((run) => [run.run_id, run.workflow, run.started_at]), () => {
      this.compareWith.replaceChildren(h("option", { value: "" }, runs.length ? "Choose a run" : "There is no other run"),
        ...runs.map((run) => h("option", { value: run.run_id }, [run.workflow || "run", date(run.started_at) || run.run_id].join(" · "))));
      this.compareWith.value = runs.some((run) => run.run_id === chosen) ? chosen : "";
      this.compareWith.disabled = !runs.length;
    });
  }

  loadComparison() {
    const other = this.compareWith.value;
    this.compared.replaceChildren(...(other ? [h("p", { class: "ar-muted ar-pad" }, "Loading…")] : []));
    if (!other) return;
    this.options.compare.load(other).then((found) => { if (this.compareWith.value === other) this.drawComparison(found); },
      (error) => this.compared.replaceChildren(h("p", { class: "ar-muted ar-pad", role: "alert" }, error.message)));
  }

  drawComparison({ before, after, difference, counts, items }) {
    const total = (name, value, more) => h("tr", {}, h("th", { scope: "row" }, name), [value(before), value(after), more].map((text) => h("td", { class: "ar-num" }, text)));
    const plain = (value) => String(Math.round(value));
    const rows = [
      ...Object.entries(difference.totals).map(([name, more]) => total(statusOf(name).word, (run) => String(run.totals[name] || 0), signed(more, plain))),
      total("Wall time", (run) => seconds(run.wall_seconds), signed(difference.wall_seconds, seconds)),
      total("Reviews", (run) => String(run.reviews), signed(difference.reviews, plain)),
      total("Tokens in", (run) => tokens(run.tokens_in), signed(difference.tokens_in, tokens)),
      total("Tokens from a cache", (run) => tokens(run.tokens_cached), signed(difference.tokens_cached, tokens)),
      total("Tokens out", (run) => tokens(run.tokens_out), signed(difference.tokens_out, tokens)),
      total("Cost", (run) => money(run.cost_usd) + (run.pretended ? " (mock)" : ""), signed(difference.cost_usd, money)),
    ];
    const side = (one) => (one ? [badge(one.status), h("span", { class: "ar-sub" }, one.reviews ? counted(one.reviews, "review") + (one.verdict ? ", " + one.verdict : "") : one.verdict || "")] : h("span", { class: "ar-muted" }, "not in it"));
    const listed = items.filter((item) => item.change !== "settled");
    const heads = ["Item", "Change", "Other run", "This run", "Time", "Tokens", "Cost"];
    this.compared.replaceChildren(
      h("div", { class: "ar-scroll", tabindex: "0", role: "region", "aria-label": "Totals of both runs" },
        h("table", { class: "ar-table ar-compare-totals" }, h("caption", { class: "ar-sr" }, "Totals of both runs"),
          h("thead", {}, h("tr", {}, ["", "Other run", "This run", "Difference"].map((text, n) => (text ? h("th", { scope: "col", class: n ? "ar-num" : null }, text) : h("td"))))), h("tbody", {}, rows))),
      listed.length ? h("div", { class: "ar-scroll ar-compare-items", tabindex: "0", role: "region", "aria-label": "Items of both runs" },
        h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Items of both runs"),
          h("thead", {}, h("tr", {}, heads.map((text, n) => h("th", { scope: "col", class: n > 3 ? "ar-num" : null }, text)))),
          h("tbody", {}, listed.map((item) => h("tr", { class: "ar-change-" + item.change },
            h("th", { scope: "row" }, this.items.has(item.label) ? h("button", { type: "button", class: "ar-open", onclick: () => this.open(item.label) }, item.label) : item.label),
            h("td", {}, CHANGES[item.change]), h("td", {}, side(item.before)), h("td", {}, side(item.after)),
            [signed(item.difference.seconds, seconds), signed(item.before && item.after ? item.difference.tokens_in + item.difference.tokens_out : null, tokens), signed(item.difference.cost_usd, money)]
              .map((text) => h("td", { class: "ar-num" }, item.before && item.after ? text : "–"))))))) : "",
      counts.settled ? h("p", { class: "ar-muted ar-pad" }, counted(counts.settled, "item") + " approved before and skipped in this run.") : "");
  }
};
