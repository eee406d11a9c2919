// What the panel of an item says about its question: the way to the answer, or what was decided.

function questionOf(item) {
  const all = [...state.waiting, ...state.answered].filter((one) => one.label === item.label);
  return all.find((one) => one.run_id === mountedRun) || all[0] || null;
}

// The words for the item's status once its question is answered.
function decidedWords(item) {
  if (item.status !== "discuss" || !state.inboxRead) return null;
  const one = questionOf(item);
  if (!one) return "answered; a later run resumed it";
  return one.decided ? `decided: ${one.decided.answer}` : null;
}

function questionMark(item) {
  const one = item.status === "discuss" ? questionOf(item) : null;
  return [decidedWords(item), one && [one.run_id, one.decided, one.question], one && one.decided ? runNowMark(one) : null];
}

function itemTools(item) {
  return element("div", {}, questionPart(item), sendBack(item));
}

function questionPart(item) {
  const one = item.status === "discuss" ? questionOf(item) : null;
  if (!one) return null;
  const link = (text) => element("a", { class: "v-button", href: address({ page: "inbox", item: one.label }), text, data: { focus: "question" } });
  if (one.decided) {
    return element("section", { class: "v-decided v-question", "aria-label": "Decision" },
      element("h3", { text: `Decided: ${one.decided.answer}` }),
      element("p", { class: "v-note", text: `By ${one.decided.by}, ${moment(one.decided.at)}.` }),
      one.decided.note ? element("blockquote", { class: "v-quote", text: one.decided.note }) : null,
      command(one.command, "Type this in the project to resume the item."),
      element("p", { class: "v-buttons" }, runNow(one), link("Change answer")));
  }
  const questions = one.questions.length ? one.questions : [one.question];
  return element("section", { class: "v-asked v-question", "aria-label": "Question" },
    element("h3", { text: questions.length === 1 ? "Question" : "Questions" }),
    ...questions.map((text) => element("p", { text })),
    one.run_id === mountedRun ? null : element("p", { class: "v-note", text: "A later run asked again." }),
    element("p", { class: "v-buttons" }, link("Answer it in the inbox")));
}
