// The search: runs by name and state, items by title, error, finding, question and file.

let searching = null;

async function search() {
  const text = $("search").value.trim();
  if (state.place.page !== "runs" || !text) {
    state.found = null;
    return drawList();
  }
  try {
    const answer = await ask(`/api/search?q=${encodeURIComponent(text)}`);
    if (text !== $("search").value.trim() || state.place.page !== "runs") return;
    state.found = { runs: new Set(answer.runs), items: answer.found, left: answer.of - answer.read };
    if (state.found.left > 0) searchSoon(AT_MOST.pause); // each request reads only for a short time
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    problem(error.message);
  }
  drawList();
}

function searchSoon(pause) {
  clearTimeout(searching);
  searching = setTimeout(search, pause);
}

function isFound(run) {
  return !state.found || state.found.runs.has(run.run_id) || run.run_id in state.found.items;
}

// The items of a run that were found, below the run.
function hits(run) {
  const found = state.found && !namesRun(run) ? state.found.items[run.run_id] : null;
  if (!found) return null;
  return element("ul", { class: "v-hits", "aria-label": "Items found" },
    ...found.items.map((one) => element("li", {}, element("a", { href: address({ page: "runs", run: run.run_id, open: one.label }) },
      element("span", { class: "v-row-name", text: one.label }), " ",
      element("span", { class: "v-row-facts", text: one.title }),
      one.text ? element("span", { class: "v-row-time", text: `${one.where}: ${one.text}` }) : null))),
    found.more ? element("li", { class: "v-note", text: `and ${counted(found.more, "more item")}` }) : null);
}

// Whether every word is about the run itself, so that the items would only repeat it.
function namesRun(run) {
  const facts = `${run.run_id} ${run.workflow || ""} ${run.live ? "live" : "over"} exit ${run.exit_code} ${Object.keys(run.totals).map(words).join(" ")}`.toLowerCase();
  return $("search").value.trim().toLowerCase().split(/\s+/).every((word) => facts.includes(word));
}

function inboxText(one) {
  const findings = one.findings.map((each) => `${each.category} ${each.title} ${each.text} ${each.recommendation}`);
  return [one.label, one.title, one.question, ...one.questions, ...findings, one.draft && one.draft.path, one.decided && one.decided.note]
    .filter(Boolean).join(" ").toLowerCase();
}
