// Every call of an item, with the tries that failed and the waits before them.

// A call and its failed tries: an item makes one call at a time, so what failed before an answer belongs to it.
function callsOf(item) {
  const calls = item.spans.filter((span) => span.kind === "call");
  const waits = item.spans.filter((span) => span.kind === "wait" || span.kind === "retry");
  const found = [];
  let tries = [], from = 0;
  for (const call of calls) {
    const before = waits.filter((wait) => wait.end > from && wait.start < call.start);
    if (tries.length && tries[0].call.node !== call.node) {
      found.push(tries);
      tries = [];
    }
    tries.push({ call, waits: before, waited: before.reduce((sum, wait) => sum + Math.max(0, Math.min(wait.end, call.start) - Math.max(wait.start, from)), 0) });
    from = call.end;
    if (!call.error && !call.cut) {
      found.push(tries);
      tries = [];
    }
  }
  return tries.length ? [...found, tries] : found;
}

function tryText(one, number, of) {
  const { call, waits, waited } = one;
  const why = [...new Set(waits.map((wait) => wait.reason || WAITS[wait.of || (wait.kind === "retry" ? "backoff" : "key")]).filter(Boolean))].join("; ");
  return [of > 1 ? "Try " + number : null, waited >= 0.01 ? "waited " + seconds(waited) + (why ? " (" + why + ")" : "") : null,
    of > 1 || call.error ? call.key : null,
    call.cut ? "cut short: " + call.cut : null,
    call.error ? (ERRORS[call.error] || call.error.replace(/_/g, " ")) + " after " + seconds(call.end - call.start) : of > 1 && !call.cut ? (call.open ? "in flight" : "answered") : null].filter(Boolean).join(" · ");
}

const Calls = (Base) => class extends Base {
  callsPart(item) {
    const calls = callsOf(item);
    if (!calls.length) return null;
    const failed = calls.flat().filter((one) => one.call.error).length;
    const heads = ["At", "Node", "Model", "Key", "In", "Cached", "Out", "Cost", "Took"];
    return h("section", { class: "ar-calls" }, h("h3", {}, "Calls"),
      h("details", { "data-name": "calls" },
        h("summary", {}, counted(calls.length, "call") + (failed ? ", " + (failed === 1 ? "1 failed try" : failed + " failed tries") : "") + (calls.at(-1).at(-1).call.open ? ", one in flight" : "")),
        h("div", { class: "ar-scroll", tabindex: "0", role: "region", "aria-label": "Calls of " + item.label },
          h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Calls of " + item.label),
            h("thead", {}, h("tr", {}, heads.map((text, n) => h("th", { scope: "col", class: n > 3 ? "ar-num" : null }, text)))),
            h("tbody", {}, calls.map((tries) => this.callRows(item, tries, heads.length))))),
        h("p", { class: "ar-muted" }, this.promptsNote(item))));
  }

  callRows(item, tries, width) {
    const { call } = tries.at(-1);
    const of = tries.length;
    const notes = tries.map((one, n) => tryText(one, n + 1, of)).filter(Boolean);
    const count = (value) => (call.error || call.cut || call.open ? "–" : tokens(value || 0));
    const cells = [h("td", {}, moment(call.start)), h("td", {}, call.node || "–"), h("td", {}, call.served || call.model || "–"), h("td", {}, call.key),
      ...[count(call.tokens_in), count(call.tokens_cached), count(call.tokens_out) + (call.error || call.cut ? "" : reasoningPart(call)), call.error || call.cut || call.open ? "–" : money(call.cost_usd), seconds(call.end - call.start)].map((text) => h("td", { class: "ar-num" }, text))];
    const more = notes.length || call.error || (call.kept && this.options.prompt);
    return [h("tr", { class: more ? "ar-call-head" : null }, cells),
      more ? h("tr", { class: "ar-call-more" }, h("td", { colspan: String(width) }, notes.map((text) => h("p", { class: "ar-muted" }, text)), this.promptPart(item, call))) : null];
  }

  // Prompt and answer, fetched when they are opened.
  promptPart(item, call) {
    if (!call.kept || !this.options.prompt) return null;
    return h("details", { "data-name": "prompt-" + call.kept, ontoggle: (event) => {
      const node = event.target;
      if (!node.open || node.querySelector("div")) return;
      const body = h("div", {}, h("p", { class: "ar-muted" }, "Loading…"));
      node.append(body);
      const name = item.label + " " + call.kept;
      const show = (texts) => body.replaceChildren(...[["system", "System prompt"], ["prompt", "Prompt"], ["answer", "Answer"]].filter(([part]) => texts[part]).flatMap(([part, title]) => [
        h("h4", {}, title), h("pre", { class: "ar-md-code ar-prompt", tabindex: "0", role: "group", "aria-label": title + " of " + call.kept }, texts[part])]));
      if (this.texts.has(name)) show(this.texts.get(name));
      else {
        this.options.prompt(item, call.kept).then((texts) => { this.texts.set(name, texts); show(texts); },
          (error) => body.replaceChildren(h("p", { class: "ar-muted", role: "alert" }, error.message)));
      }
    } }, h("summary", {}, "Prompt and answer"));
  }

  promptsNote(item) {
    if (item.prompts && this.options.prompt) return "Prompts and answers are kept in " + item.prompts + ".";
    if (item.prompts) return ["Prompts and answers are kept in ", this.fileLink(item.prompts) || h("code", {}, item.prompts), "; 'agentos view' shows them here."];
    if ((this.data.run.begun || {}).keep_prompts) return "No prompt of this item was kept.";
    return "Prompts and answers were not kept. keep_prompts = true in your configuration file keeps them.";
  }
};
