// Keys, overlaps, last runs and the files of a run.

const Keys = (Base) => class extends Base {
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
      this.data.run.trace_id ? h("p", {}, "Trace: ", h("code", {}, this.data.run.trace_id)) : null,
      links.length && !this.data.run.live ? h("p", {}, "Files of this run: ", links.map((link, n) => [n ? ", " : "", link])) : null,
    ].filter(Boolean));
  }
};
