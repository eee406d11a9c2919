// The whole page.

function draw() {
  const inbox = state.place.page === "inbox";
  for (const [id, on] of [["tab-runs", !inbox], ["tab-inbox", inbox]]) {
    if (on) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  $("inbox-count").hidden = !state.waiting.length;
  $("inbox-count").textContent = String(state.waiting.length);
  $("inbox-count").setAttribute("aria-label", `${state.waiting.length} waiting`);
  $("project").textContent = visible(state.project);
  const live = (state.runs || []).some((run) => run.live);
  document.title = `${state.waiting.length ? `(${state.waiting.length}) ` : ""}${inbox ? "Inbox" : live ? "live" : "Runs"} · ${state.project || "agentos"}`;
  drawList();
  const empty = inbox ? state.inboxRead && !chosenItem() : state.runs !== null && !state.runs.length;
  $("empty-view").hidden = !empty;
  if (empty) drawEmpty(inbox);
  $("run-view").hidden = inbox || empty;
  $("inbox-view").hidden = !inbox || empty;
  if (inbox && chosenItem()) drawInbox();
}

function drawEmpty(inbox) {
  const kind = inbox ? (state.place.item ? "gone" : "inbox") : "runs";
  if ($("empty-view").dataset.kind === kind) return;
  $("empty-view").dataset.kind = kind;
  if (kind === "runs") {
    $("empty-view").replaceChildren(
      element("h1", { text: "No runs yet" }),
      element("p", { text: "Type one of these commands in the project. The run shows up here by itself." }),
      command("agentos lld --all --mock", "process every issue offline, with the mock"),
      command("agentos lld --all --dry-run", "only list what would run"),
      command("agentos init", "set up a project with folders for issues and briefs"));
  } else {
    $("empty-view").replaceChildren(
      element("h1", { text: kind === "gone" ? "This item is no longer waiting" : "No open questions" }),
      element("p", { text: "When a review ends in DISCUSS, the item waits here with its findings and its draft." }));
  }
}

function command(text, why) {
  const copied = element("span", { class: "v-copied", role: "status" });
  const copy = element("button", {
    type: "button",
    text: "Copy",
    "aria-label": `Copy: ${text}`,
    on: {
      click: async () => {
        try {
          await navigator.clipboard.writeText(text);
          copied.textContent = "copied";
        } catch {
          getSelection().selectAllChildren(code);
          copied.textContent = "selected; press Ctrl+C";
        }
      },
    },
  });
  const code = element("code", { text });
  return element("div", { class: "v-command" },
    element("div", { class: "v-command-line" }, code, copy, copied),
    why ? element("p", { class: "v-note", text: why }) : null);
}
