// Keys that work anywhere on the page, and the help that lists them.

const SHORTCUTS = [
  ["/", "search"],
  ["j / k", "next / previous item"],
  ["Enter", "open the item"],
  ["Esc", "close the item"],
  ["← →", "step through what happened to the item, in the timeline"],
  ["+ − 0", "zoom in, out, and to the whole run, in the timeline"],
  ["?", "this help"],
];

// Keys belong to a field, a list or a window that is open, if there is one.
function isTyping(event) {
  return event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey ||
    Boolean(document.querySelector("dialog[open]")) || Boolean(event.target.closest && event.target.closest("input, textarea, select, [contenteditable]"));
}

// A window in front of the page; resolves with the value of the pressed button, or "" if it is closed.
function askInWindow(title, content, buttons) {
  const form = h("div", { class: "ar-window-buttons" }, buttons.map(([value, text, cls]) => h("button", { type: "button", class: "ar-button " + (cls || ""), onclick: () => node.close(value) }, text)));
  const node = h("dialog", { class: "ar ar-window", "aria-labelledby": "ar-window-title" }, h("h2", { id: "ar-window-title" }, title), content, form);
  document.body.append(node);
  const back = document.activeElement;
  return new Promise((done) => {
    node.addEventListener("close", () => {
      node.remove();
      if (back && back.isConnected) back.focus({ preventScroll: true });
      done(node.returnValue);
    });
    node.showModal();
  });
}

function showShortcuts(more) {
  const rows = [...SHORTCUTS.slice(0, -1), ...(more || []), SHORTCUTS.at(-1)];
  return askInWindow("Keyboard", h("dl", { class: "ar-shortcuts" }, rows.map(([key, text]) => [h("dt", {}, key.split(" ").map((one) => (one === "/" && key !== "/" ? " / " : h("kbd", {}, one)))), h("dd", {}, text)])), [["", "Close"]]);
}

const Keyboard = (Base) => class extends Base {
  shortcut(event) {
    if (isTyping(event) || !this.root.checkVisibility()) return;
    if (event.key === "/") (this.options.search || (() => this.search.focus()))();
    else if (event.key === "?") showShortcuts(this.options.shortcuts);
    else if (event.key === "j" || event.key === "k") this.stepItem(event.key === "j" ? 1 : -1);
    else if (event.key === "Enter" && this.state.active && !event.target.closest("a, button, summary, [tabindex='0']")) {
      const row = this.list.find((one) => one.id === this.state.active);
      if (!row) return;
      this.act(row, null);
    } else return;
    event.preventDefault();
  }

  // To the next item: if one is open, it is opened; otherwise its row is selected.
  stepItem(by) {
    if (this.state.open) {
      const labels = this.visible.map((item) => item.label);
      const next = labels[labels.indexOf(this.state.open) + by];
      if (next) this.open(next);
      return;
    }
    const at = this.list.findIndex((row) => row.id === this.state.active);
    const next = this.list[Math.min(this.list.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    if (!next) return;
    this.state.active = next.id;
    this.state.span = -1;
    this.body.scrollIntoView({ block: "nearest" });
    this.body.focus({ preventScroll: true });
    this.reveal(next);
  }
};
