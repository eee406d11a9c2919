// Starting and stopping runs, if `agentos view --allow-run` allows it. Each asks first.

const control = { allowed: false, started: [], commands: [], of: null, stopping: new Set() };

const refreshStarted = oneAtATime(async () => {
  const answer = await ask("/api/started");
  const ended = answer.started.find((one) => one.exit_code !== null && control.started.some((old) => old.number === one.number && old.exit_code === null));
  if (ended) announce(`${ended.command}: ended with exit code ${ended.exit_code}`);
  control.allowed = answer.allowed;
  control.started = answer.started;
  drawStarted();
  draw();
  if (mounted) mounted.refresh();
  await refreshCommands();
});

// What can be started for the run that is shown.
const refreshCommands = oneAtATime(async () => {
  const run = chosenRun();
  const row = (state.runs || []).find((one) => one.run_id === run);
  const mark = JSON.stringify([run, row && [row.live, row.exit_code, row.totals], control.started.map((one) => [one.number, one.exit_code])]);
  if (!control.allowed || !row || control.of === mark) return drawActions();
  control.commands = row.live ? [] : (await ask(`/api/runs/${encodeURIComponent(run)}/commands`)).commands;
  control.of = mark;
  drawActions();
});

function drawActions() {
  const row = (state.runs || []).find((one) => one.run_id === chosenRun());
  const shown = control.allowed && state.place.page === "runs" && Boolean(row);
  const mark = shown ? JSON.stringify([row.run_id, row.live, control.commands, control.stopping.has(row.run_id), control.started.map((one) => one.exit_code)]) : "";
  if ($("actions").dataset.mark === mark) return;
  $("actions").dataset.mark = mark;
  const busy = (command) => control.started.some((one) => one.command === command && one.exit_code === null);
  const buttons = !shown ? [] : row.live
    ? [element("button", { type: "button", class: "v-button", text: control.stopping.has(row.run_id) ? "Stopping …" : "Stop the run", disabled: control.stopping.has(row.run_id), on: { click: () => stopRun(row.run_id) } })]
    : control.commands.map((one) => element("button", { type: "button", class: "v-button", text: one.action === "resume" ? "Resume" : "Retry failed", disabled: busy(one.command), on: { click: () => startCommand(one, { run: row.run_id }) } }));
  $("actions").replaceChildren(...buttons);
  $("actions").hidden = !buttons.length;
}

function drawStarted() {
  $("started").hidden = !control.started.length;
  const open = new Set([...$("started").querySelectorAll("details[open]")].map((one) => one.dataset.number));
  $("started").replaceChildren(...control.started.slice(0, 5).map((one) => element("div", { class: "v-started", data: { state: one.exit_code === null ? "running" : one.exit_code === 0 ? "good" : "ended" } },
    element("p", {}, element("code", { text: one.command }), " ",
      element("span", { class: "v-note", text: one.exit_code === null ? "running, started from this page" : one.exit_code < 0 ? `killed by signal ${-one.exit_code}` : `ended with exit code ${one.exit_code}` })),
    one.exit_code === null ? null : element("details", { data: { number: one.number }, open: open.has(String(one.number)) || (one.exit_code !== 0 && !open.size) },
      element("summary", { text: "What it printed last" }),
      element("pre", { class: "v-text", tabindex: "0", role: "region", "aria-label": `Output of ${one.command}`, text: one.printed.trim() || "nothing" })))));
}

async function send(path, body) {
  try {
    return await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    problem(error.message);
    announce(error.message);
    return null;
  }
}

async function startCommand(one, about) {
  const said = element("div", {}, element("p", { text: `${one.why}. This starts:` }), element("p", {}, element("code", { text: one.command })), element("p", { text: one.budget }));
  if (await askInWindow("Start this command?", said, [["", "Cancel"], ["yes", "Start", "ar-go"]]) !== "yes") return;
  problem("");
  const answer = await send("/api/start", { action: one.action, command: one.command, ...about });
  if (answer) announce(`Started: ${answer.command}`);
  control.of = null;
  await refreshStarted();
}

async function stopRun(run) {
  const said = element("p", { text: "Its items save their progress. The same command resumes them." });
  if (await askInWindow("Stop the run?", said, [["", "Cancel"], ["yes", "Stop", "ar-go"]]) !== "yes") return;
  problem("");
  const answer = await send("/api/stop", { run });
  if (!answer) return;
  control.stopping.add(run);
  announce(answer.told);
  drawActions();
}

// "Run now" beside the command of an answered question.
function runNow(one) {
  if (!control.allowed || !one.run) return null;
  const busy = control.started.some((each) => each.command === one.run.command && each.exit_code === null);
  return element("button", { type: "button", class: "v-approve", text: busy ? "Running …" : "Run now", disabled: busy, data: { focus: "run-now" }, on: { click: () => startCommand(one.run, { label: one.label }) } });
}

function runNowMark(one) {
  return [control.allowed, one && one.run, control.started.map((each) => [each.number, each.exit_code])];
}
