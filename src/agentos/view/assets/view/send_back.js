// Sending an item back from its panel. Each form is created once, so that updates keep what is typed.

const forms = new Map();

function sendBack(item) {
  if (!forms.has(item.label)) forms.set(item.label, sendBackForm(item.label));
  return forms.get(item.label);
}

function sendBackForm(label) {
  const note = element("textarea", { id: `send-back-${label}`, rows: "2", maxlength: "20000", data: { focus: "send-back" } });
  const done = element("div", { role: "status" });
  const trouble = element("p", { class: "v-problem", role: "alert", hidden: true });
  const button = element("button", { type: "button", class: "v-revise", text: "Send back", on: { click: async () => {
    button.disabled = true;
    trouble.hidden = true;
    try {
      const answer = await ask(`/api/revise/${encodeURIComponent(label)}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ note: note.value }),
      });
      note.value = "";
      done.replaceChildren(element("p", { text: answer.told }), command(answer.command, "Type this in the project to run it now."));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble.textContent = error.message;
      trouble.hidden = false;
    }
    button.disabled = false;
  } } });
  return element("section", { class: "v-answer v-send-back", "aria-labelledby": `send-back-title-${label}` },
    element("h3", { id: `send-back-title-${label}`, text: "Send it back" }),
    element("label", { for: `send-back-${label}`, text: "What should change?" }),
    note,
    element("p", { class: "v-note", text: "Both models get the note in the next run. Without a note, the next run reviews your edits to the document." }),
    element("div", { class: "v-buttons" }, button),
    trouble, done);
}
