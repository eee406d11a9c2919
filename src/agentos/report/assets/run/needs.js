// What needs a person, at the top of the page: questions, problems, and what to type.

const SHOWN_NEEDS = 3; // of many questions or problems; the rest by a click, so that the figures stay on the first screen

// Copies a text. A page that may not use the clipboard selects the text instead.
function copyButton(text, name) {
  const button = h("button", { type: "button", class: "ar-button ar-copy", "aria-label": "Copy: " + text, "data-focus": "copy-" + (name || text), onclick: async () => {
    const done = await copied(text, button.parentElement.querySelector("code"));
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  } }, "Copy");
  return button;
}

async function copied(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (shown) getSelection().selectAllChildren(shown);
    return false;
  }
}

const Needs = (Base) => class extends Base {
  drawNeeds() {
    const needs = this.data.needs_you;
    const { run } = this.data;
    const open = needs.questions.length + needs.problems.length;
    const must = open || needs.unfinished || needs.answered || needs.unfiled;
    const quiet = !must && !needs.remarks.length;
    this.needs.classList.toggle("ar-quiet", quiet);
    if (quiet) {
      this.needs.replaceChildren(h("p", {}, icon(STATUSES.approved, "ar-s-approved"), h("span", {}, h("b", {}, "Nothing needs you"), run.live ? " so far." : ".")));
      return;
    }
    const rest = [
      needs.unfinished ? counted(needs.unfinished, "item") + (needs.unfinished === 1 ? " has" : " have") + " not finished" + (run.stopped ? ": " + this.stopWords() : "") : null,
      needs.answered ? counted(needs.answered, "answered question") + (needs.answered === 1 ? " waits" : " wait") + " for the next run" : null,
      needs.unfiled ? counted(needs.unfiled, "approved issue") + (needs.unfiled === 1 ? " is" : " are") + " not on GitHub yet" : null,
    ].filter(Boolean);
    const commands = needs.commands.filter((one) => !(this.options.answer && one.action === "view")); // the reader is on it
    this.needs.replaceChildren();
    fill(this.needs, [
      h("div", { class: "ar-bar" }, h("h2", { id: "ar-needs-title" }, must ? "Needs you" : "To know"), h("span", { class: "ar-muted" }, this.needsWords(needs))),
      this.needsList("questions", needs.questions, (one) => this.question(one)),
      this.needsList("problems", needs.problems, (one) => this.problem(one)),
      this.needsList("remarks", needs.remarks, (one) => this.remark(one)),
      rest.length ? h("ul", { class: "ar-needs-rest" }, rest.map((text) => h("li", {}, text))) : null,
      commands.length ? h("div", { class: "ar-type" }, h("h3", {}, "What to type"), h("ul", {}, commands.map((one) => h("li", {}, h("code", {}, one.command), copyButton(one.command), h("span", { class: "ar-muted" }, one.why))))) : null,
    ]);
  }

  stopWords() {
    return { budget: "the budget is reached", interrupted: "interrupted", terminated: "terminated", run_timeout: "--run-timeout reached", quota: "no key became free in time", outage: "the provider is down", no_key: "no usable key is left", storage: "records could not be written", fail_fast: "an item failed and --fail-fast is set", misconfigured: "the configuration does not work" }[this.data.run.stopped] || this.data.run.stopped.replace(/_/g, " ");
  }

  needsWords(needs) {
    const questions = needs.questions.reduce((sum, one) => sum + one.count, 0);
    return [questions ? counted(questions, "question") : null, needs.problems.length ? counted(needs.problems.length, "item") + " not approved" : null].filter(Boolean).join(", ");
  }

  needsList(name, all, part) {
    if (!all.length) return null;
    const shown = this.everything || this.allNeeds.has(name) || all.length <= SHOWN_NEEDS + 1 ? all : all.slice(0, SHOWN_NEEDS);
    const more = all.length - shown.length;
    return [h("ul", { class: "ar-needs-list ar-needs-" + name }, shown.map(part)),
      more ? h("button", { type: "button", class: "ar-link ar-needs-more", "data-focus": "needs-" + name, onclick: () => {
        this.allNeeds.add(name);
        this.refresh();
        this.needs.querySelectorAll(".ar-needs-" + name + " .ar-open")[SHOWN_NEEDS].focus();
      } }, "Show " + more + " more") : null];
  }

  needName(one) {
    return [h("button", { type: "button", class: "ar-open", "data-focus": "need-" + one.label, onclick: () => this.open(one.label) }, one.label), one.title ? h("span", { class: "ar-muted" }, " " + one.title) : null];
  }

  // What was decided about a question since the run asked it, where the page knows.
  decided(one) {
    const item = this.items.get(one.label);
    return (item && this.options.status && this.options.status(item)) || null;
  }

  question(one) {
    const decided = this.decided(one);
    return h("li", {}, statusIcon(decided ? "approved" : "discuss"), h("div", { class: "ar-need" }, h("p", {}, this.needName(one)), h("p", { class: "ar-said" }, decided ? h("b", { class: "ar-s-approved" }, decided + ". ") : null, one.text + (one.blocking && !decided ? "\n" + counted(one.blocking, "blocking finding") + (one.blocking === 1 ? " is open." : " are open.") : ""))),
      this.options.answer && !decided ? h("button", { type: "button", class: "ar-button ar-answer", "aria-label": "Answer " + one.label, "data-focus": "answer-" + one.label, onclick: () => this.options.answer(one.label) }, "Answer") : null);
  }

  remark(one) {
    return h("li", {}, statusIcon("discuss"), h("div", { class: "ar-need" }, h("p", {}, this.needName(one)), h("p", { class: "ar-said" }, one.text)));
  }

  problem(one) {
    return h("li", {}, statusIcon(one.status), h("div", { class: "ar-need" }, h("p", {}, this.needName(one)), h("p", { class: "ar-said" }, this.reasonWords(one))));
  }

  // A reason that begins with the status does not need it twice.
  reasonWords(one) {
    const { word } = statusOf(one.status), reason = clipped(one.reason);
    const bold = (text) => h("b", { class: "ar-s-" + one.status }, text);
    return reason.toLowerCase().startsWith(word) ? [bold(reason.slice(0, word.length)), reason.slice(word.length)] : [bold(word), ": " + reason];
  }
};
