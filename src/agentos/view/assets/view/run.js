// The run.

let mounted = null;
let mountedRun = null;
let readRun = null; // reads the mounted run
let shownData = null; // of the mounted run
let labels = new Set(); // of the run's items

function unmount() {
  mounted.destroy();
  mounted = mountedRun = null;
}

const refreshRun = oneAtATime(async () => {
  const run = chosenRun();
  if (!run || state.place.page !== "runs") return;
  // Never show the data of one run under the name, or the error, of another.
  if (mountedRun !== null && mountedRun !== run) unmount();
  if (readRun === null || readRun.run !== run) readRun = { run, read: versioned(`/api/runs/${encodeURIComponent(run)}`) };
  const data = await readRun.read();
  if (run !== chosenRun() || state.place.page !== "runs") return;
  problem("");
  labels = new Set(data.items.map((item) => item.label));
  const unchanged = data === shownData; // drawing it again would set its clock back
  shownData = data;
  if (mountedRun === run) {
    if (!unchanged) mounted.update(data);
  } else {
    const logs = (name) => {
      const label = name.slice(0, -4);
      return name.endsWith(".log") ? address({ page: "runs", run, open: labels.has(label) ? label : null, log: label }) : null;
    };
    const text = (item, file) => ask(`/api/runs/${encodeURIComponent(run)}/document/${encodeURIComponent(item.label)}?file=${encodeURIComponent(file)}`);
    const prompt = (item, call) => ask(`/api/runs/${encodeURIComponent(run)}/prompt/${encodeURIComponent(item.label)}?call=${encodeURIComponent(call)}`);
    const compare = {
      runs: () => (state.runs || []).filter((one) => one.run_id !== run),
      load: (other) => ask(`/api/compare?before=${encodeURIComponent(other)}&after=${encodeURIComponent(run)}`),
    };
    const answer = (label) => { location.hash = address({ page: "inbox", item: label }); };
    mountedRun = run;
    mounted = window.AgentosRun.mount($("run"), data, { links: logs, tools: itemTools, status: decidedWords, mark: questionMark, opened: itemOpened, document: text, prompt, compare, answer, frame: true, search: focusSearch, shortcuts: INBOX_KEYS });
  }
  followPlace();
});

// The address has the open item and document, so that they can be bookmarked and the back button closes them.
function itemOpened(open, file = null) {
  const { place } = state;
  if (place.page !== "runs" || (place.open === open && place.file === file && (!open || place.run === mountedRun))) return;
  const next = { ...place, run: mountedRun, open, file };
  if (open && place.open) {
    state.place = next; // from one item to the next: one step back leads out of all of them
    history.replaceState(null, "", address(next));
  } else location.hash = address(next);
}

// Opens the item that the address names, or closes the open one.
function followPlace() {
  if (!mounted || state.place.page !== "runs" || mountedRun !== chosenRun() || mounted.opened() === state.place.open) return;
  if (!state.place.open) mounted.close();
  else if (!mounted.open(state.place.open, state.place.file)) problem(`There is no item ${state.place.open} in this run.`);
}

const readRuns = versioned("/api/runs");

const refreshRuns = oneAtATime(async () => {
  const before = new Map((state.runs || []).map((run) => [run.run_id, run]));
  const first = state.runs === null;
  const answer = await readRuns();
  state.runs = answer.runs;
  state.project = answer.project;
  for (const run of first ? [] : answer.runs) {
    const known = before.get(run.run_id);
    if (!known) announce(`New run: ${run.workflow || ""} ${counted(run.items, "item")}`);
    else if (known.live && !run.live) announce(`Run finished: ${totalsText(run.totals)}`);
  }
  draw();
  refreshCommands();
  if (mountedRun !== chosenRun()) await refreshRun();
});
