// The inbox.

const refreshInbox = oneAtATime(async () => {
  const before = new Set([...state.waiting, ...state.answered].map((one) => one.label));
  const answer = await ask("/api/inbox");
  for (const one of answer.waiting) if (state.inboxRead && !before.has(one.label)) announce(`${one.label} is waiting for a decision`);
  state.waiting = answer.waiting;
  state.answered = answer.answered;
  state.inboxRead = true;
  draw();
  if (mounted) mounted.refresh();
});

const { markdown } = window.AgentosRun;
const TIERS = { 1: "blocking", 2: "high priority", 3: "suggestion" };

function finding(one) {
  return element("li", { class: "v-finding", data: { tier: one.tier } },
    element("p", { class: "v-finding-head" },
      one.number ? element("strong", { text: `F${one.number} ` }) : null,
      element("span", { class: "v-tag", data: { tier: one.tier }, text: `Tier ${one.tier} ${TIERS[one.tier] || ""}` }),
      " ", element("span", { class: "v-note", text: one.category }),
      one.returned ? element("strong", { class: "v-regression", text: " regression" }) : null),
    one.title ? element("p", { class: "v-finding-title", text: one.title }) : null,
    element("p", { text: one.text }),
    one.recommendation ? element("p", { class: "v-advice" }, element("strong", { text: "Recommendation: " }), one.recommendation) : null);
}

function documentPane(title, { nodes, path, cut }, where) {
  return element("div", { class: "v-document" },
    element("p", { class: "v-note", text: path }),
    element("div", { class: "v-rendered", tabindex: "0", role: "region", "aria-label": `${title} of ${where}` },
      element("div", { class: "ar" }, element("div", { class: "ar-md" }, ...nodes.map((node) => markdown(node, 2)),
        cut ? element("p", { class: "v-note" }, "The rest is left out: see ", element("code", { text: path }), ".") : null))));
}

let drawnItem = null;

function drawInbox() {
  const one = chosenItem();
  const changing = state.changing.has(one.label);
  const mark = JSON.stringify([one.label, one.reviews, one.decided, one.run_id, changing, one.draft, one.decided ? runNowMark(one) : null]);
  if (drawnItem === mark) return;
  drawnItem = mark;
  $("inbox-view").replaceChildren(discussion(one, changing));
}

function discussion(one, changing) {
  const head = element("header", { class: "v-item-head" },
    element("p", { class: "v-note" }, `${one.label}${one.mock ? " (mock)" : ""} · ${one.workflow} · after ${counted(one.reviews, "review")} · `,
      element("a", { href: address({ page: "runs", run: one.run_id, open: one.label }), text: "view run" }), " · ",
      element("a", { href: address({ page: "runs", run: one.run_id, log: one.label }), text: "view log" })),
    element("h1", { id: "item-title", text: one.title || one.label }));
  const questions = one.questions.length ? one.questions : [one.question];
  const asked = element("div", { class: "v-asked" },
    element("h2", { text: questions.length === 1 ? "Question" : "Questions" }),
    ...questions.map((text) => element("p", { text })));
  const findings = element("section", { class: "v-pane v-pane-findings", "aria-labelledby": "findings-title" },
    element("h2", { id: "findings-title", text: `Open findings (${one.findings.length}${one.blocking ? `, ${one.blocking} blocking` : ""})` }),
    one.findings.length ? element("ol", { class: "v-findings" }, ...one.findings.map(finding)) : element("p", { class: "v-note", text: "No finding is open." }),
    one.verdict ? element("details", { class: "v-verdict" }, element("summary", { text: "Full review" }),
      documentPane("Review", one.verdict, one.label)) : null);
  const draft = element("section", { class: "v-pane v-pane-draft", "aria-labelledby": "draft-title" },
    element("h2", { id: "draft-title", text: "Draft" }),
    one.draft ? documentPane("Draft", one.draft, one.label) : element("p", { class: "v-note", text: "The lineage has no draft." }));
  return element("article", { class: "v-item", "aria-labelledby": "item-title" },
    head,
    one.decided && !changing ? decided(one) : null,
    element("div", { class: "v-panes" }, asked, findings, draft, one.decided && !changing ? null : answerForm(one)));
}

function decided(one) {
  const next = state.waiting.find((other) => other.label !== one.label);
  const action = one.decided.answer === "approve" ? "approve it" : "send it back";
  return element("section", { class: "v-decided", "aria-labelledby": "decided-title" },
    element("h2", { id: "decided-title", tabindex: "-1", text: `Decided: ${one.decided.answer}; the next run resumes` }),
    element("p", { text: `${one.decided.by} chose to ${action}, ${moment(one.decided.at)}.` }),
    one.decided.note ? element("blockquote", { class: "v-quote", text: one.decided.note }) : null,
    command(one.command, "Type this in the project to resume the item."),
    element("p", { class: "v-buttons" },
      runNow(one),
      next ? element("a", { class: "v-button", href: address({ page: "inbox", item: next.label }), text: `Next: ${next.label}` }) : null,
      element("button", { type: "button", text: "Change answer", on: { click: () => {
        state.changing.add(one.label);
        state.notes.set(one.label, one.decided.note);
        draw();
        $("note").focus();
      } } })));
}

function answerForm(one) {
  const note = element("textarea", { id: "note", rows: "2", maxlength: "20000", "aria-describedby": "note-help" });
  note.value = state.notes.get(one.label) || "";
  note.addEventListener("input", () => state.notes.set(one.label, note.value));
  const trouble = element("p", { class: "v-problem", role: "alert", hidden: true });
  const buttons = [];
  const send = async (answer) => {
    for (const button of buttons) button.disabled = true;
    trouble.hidden = true;
    try {
      await ask(`/api/inbox/${encodeURIComponent(one.label)}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ answer, note: note.value, reviews: one.reviews, decided_at: one.decided && one.decided.at }),
      });
      state.notes.delete(one.label);
      state.changing.delete(one.label);
      drawnItem = null;
      state.place = { page: "inbox", item: one.label, run: null, open: null, file: null, log: null };
      history.replaceState(null, "", address(state.place));
      await refreshInbox();
      announce(`${one.label}: decided, ${answer}; the next run resumes`);
      const title = $("decided-title");
      if (title) title.focus();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
      trouble.hidden = false;
      for (const button of buttons) button.disabled = false;
      if (error.status !== 409) return;
      // Someone else answered first: show that answer, and above it why this one was rejected.
      state.changing.delete(one.label);
      await refreshInbox();
      problem(error.message);
      announce(error.message);
    }
  };
  buttons.push(
    element("button", { type: "button", class: "v-revise", text: "Send back", "aria-describedby": "approve-help", on: { click: () => send("revise") } }),
    element("button", { type: "button", class: "v-approve", text: "Approve", "aria-describedby": "approve-help", on: { click: () => send("approve") } }));
  const numbers = one.questions.flatMap((text) => text.match(/^Q\d+:/) || []);
  const each = numbers.length > 1 ? ` To answer the questions one by one, begin a line with ${numbers.join(" or ")}` : "";
  const despite = one.blocking ? ` although ${counted(one.blocking, "blocking finding")} ${one.blocking === 1 ? "is" : "are"} open` : "";
  if (one.decided) buttons.push(element("button", { type: "button", text: "Keep answer", on: { click: () => {
    state.changing.delete(one.label);
    state.notes.delete(one.label);
    draw();
    $("decided-title").focus();
  } } }));
  return element("section", { class: "v-answer", "aria-labelledby": "answer-title" },
    element("h2", { id: "answer-title", text: "Your answer" }),
    element("label", { for: "note", text: "Note" }),
    note,
    element("p", { id: "note-help", class: "v-note", text: `Both models get what you decide, and the document lists it.${each}` }),
    element("div", { class: "v-buttons" }, ...buttons),
    element("p", { id: "approve-help", class: "v-note", text: `Send back asks for a revision. Approve accepts the draft as it is${despite}. Nothing happens until the next run; you can change the answer until then.` }),
    trouble);
}
