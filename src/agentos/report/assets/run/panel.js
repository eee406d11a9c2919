// The panel of one item.

const Panel = (Base) => class extends Base {
  open(label, file) {
    const item = this.items.get(label);
    if (!item) return false;
    this.hideTip();
    this.opener = this.state.open ? this.opener : document.activeElement;
    this.state.open = label;
    this.state.file = file && this.documentsOf(item).some((one) => one.file === file) ? file : null;
    this.signatures.delete("detail");
    this.panel.hidden = false;
    this.root.classList.add("ar-with-detail");
    this.section("detail", this.detailMark(item), () => this.drawDetail(item));
    this.panel.scrollTop = 0;
    this.panel.focus({ preventScroll: true });
    this.address("#" + [label, this.state.file].filter(Boolean).map(encodeURIComponent).join("/"));
    this.drawTimeline();
    if (this.options.opened) this.options.opened(label, this.state.file);
    return true;
  }

  // What the panel shows, without what only grows with time: `tick` updates that in place.
  detailMark(item) {
    const spans = item.spans.map((span) => (span.open ? { ...span, end: null } : span));
    const waiting = item.waiting && { ...item.waiting, seconds_left: null };
    return [{ ...item, spans, waiting, seconds: 0, waited_seconds: 0 }, this.options.mark ? this.options.mark(item) : null];
  }

  close() {
    const label = this.state.open;
    this.state.open = this.state.file = null;
    this.panel.hidden = true;
    this.panel.replaceChildren();
    this.root.classList.remove("ar-with-detail");
    this.address(location.pathname + location.search);
    this.drawTimeline();
    if (this.options.opened) this.options.opened(null, null);
    if (this.opener && this.opener.isConnected && this.opener !== document.body) this.opener.focus({ preventScroll: true });
    else if (label) this.body.focus({ preventScroll: true });
  }

  address(to) {
    if (!this.options.hash) return;
    try { history.replaceState(null, "", to); } catch { /* not allowed in a page from disk */ }
  }

  drawDetail(item) {
    const kept = this.panel.scrollTop;
    const shown = this.state.file && this.documentsOf(item).find((one) => one.file === this.state.file);
    this.panel.classList.toggle("ar-wide", Boolean(shown));
    if (shown) {
      this.drawReader(item, shown);
      this.panel.scrollTop = kept;
      return;
    }
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
      h("p", { class: "ar-detail-status" }, badge(item.status, this.options.status ? this.options.status(item) : null), item.node ? h("span", { class: "ar-muted" }, "at " + item.node) : null, item.waiting ? h("span", { class: "ar-muted", "data-tick": "waiting" }, waitingFor(item)) : null),
      item.error && item.error !== (item.rounds.at(-1) || {}).reason ? h("p", { class: "ar-callout ar-s-" + item.status }, item.error) : null,
      item.reason ? h("p", { class: "ar-callout" }, item.reason) : null,
      item.status === "discuss" ? null : questionsPart(item.questions),
      item.dropped.length ? h("div", { class: "ar-tier" }, h("h5", {}, "Lines that you added and this version lacks"), h("ul", {}, item.dropped.map((line) => h("li", { class: "ar-dropped" }, line)))) : null,
      lives.length ? this.miniature(item, lives) : null,
      h("dl", { class: "ar-facts" },
        fact("Time", item.seconds ? h("span", { "data-tick": "time" }, seconds(item.seconds)) : null), fact("Waited", item.waited_seconds >= 0.005 ? h("span", { "data-tick": "waited" }, seconds(item.waited_seconds)) : null),
        fact("Reviews", item.reviews || null), fact("Attempts", item.attempts || null),
        fact("Tokens", item.tokens_in + item.tokens_out ? tokensIn(item) + " in, " + tokensOut(item) + " out" : null),
        fact("Cost", costOf(item)),
        fact("Output", item.output && !item.filed ? h("code", {}, item.output) : null),
        fact("Filed", item.filed ? filedLink(item.filed) : item.filing ? FILINGS[item.filing] || item.filing : null),
        fact("Log", item.log ? this.fileLink(item.log) || h("code", {}, item.log) : null),
        fact("Checkpoint", item.checkpoint ? h("code", {}, item.checkpoint) : null),
        fact("Lineage", item.trail ? h("code", {}, item.trail) : null)),
      lives.length > 1 ? h("section", {}, h("h3", {}, "Workers"), h("ol", { class: "ar-lives" }, lives.map((life) => h("li", {},
        "Attempt " + life.attempt + " at " + moment(life.start) + (life.resumed ? ", resumed from its checkpoint" : "") + ": " + (life.error || (life.ended ? statusOf(life.ended).word : "running")))))) : null,
      this.options.tools ? this.options.tools(item) : null,
      this.documentsPart(item),
      this.callsPart(item),
      contextPart(item.context || []),
      looksPart(item.looks || []),
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
      parts.push(this.draftPart(item, number, drafts.get(number), gates.get(number)));
    };
    const numbers = [...new Set([...drafts.keys(), ...gates.keys()])].sort((a, b) => a - b);
    for (const round of item.rounds) {
      // A round without a draft number reviewed a draft of an earlier run.
      const upto = round.draft ?? (round === item.rounds.at(-1) ? Infinity : round.review);
      for (const number of numbers) if (number <= upto) draftPart(number);
      parts.push(this.roundPart(item, round, round !== item.rounds.at(-1)));
    }
    for (const number of numbers) draftPart(number);
    return parts.length ? h("section", { class: "ar-history" }, h("h3", {}, "Drafts and reviews"), h("ol", {}, parts)) : null;
  }

  draftPart(item, number, draft, gate) {
    const missing = gate && gate.missing.length ? h("p", { class: "ar-callout ar-s-needs_revision" }, "Sent back by the gate; missing: " + gate.missing.join(", ")) : null;
    const paths = gate && (gate.paths || []).length ? h("p", { class: "ar-callout ar-s-needs_revision" }, "Paths that do not fit the repository: " + gate.paths.join(", ")) : null;
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
      h("h4", {}, "Draft " + number, draft ? h("span", { class: "ar-muted" }, " " + counted(draft.lines, "line") + " · " + draft.file) : null), missing, paths, notes, change, this.documentPart(item, this.documentFor(item, "draft", number), "Read draft " + number));
  }

  roundPart(item, round, followed) {
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
      (round.unread || []).map((reason) => h("p", { class: "ar-callout ar-s-failed" }, "Asked again; a reply could not be read: " + reason)),
      round.reason ? h("p", { class: "ar-callout ar-s-failed" }, round.reason) : null,
      tiers.map(([tier, some]) => h("div", { class: "ar-tier ar-tier-" + tier }, h("h5", {}, TIERS[tier]), h("ul", {}, some.map((one) => findingPart(one, followed))))),
      (round.earlier || []).length ? h("div", { class: "ar-tier" }, h("h5", {}, "Earlier findings"), h("ul", {}, round.earlier.map((one) => h("li", { class: "ar-finding-head ar-f-" + one.state }, h("b", {}, "F" + one.number), h("span", { class: "ar-mark" }, icon(STATES[one.state] || STATES.open), one.state), h("span", { class: "ar-muted" }, [one.title, one.where].filter(Boolean).join(": ")))))) : null,
      questionsPart(round.questions || []),
      round.decision ? h("p", { class: "ar-callout ar-s-discuss" }, h("b", {}, "Decided: " + round.decision.answer), round.decision.by ? " by " + round.decision.by : "", round.decision.at ? [", ", date(round.decision.at) ? when(round.decision.at) : round.decision.at] : "", round.decision.note ? h("span", { class: "ar-said" }, round.decision.note) : null) : null,
      this.documentPart(item, this.documentFor(item, "verdict", round.review), "Read review " + round.review));
  }
};
