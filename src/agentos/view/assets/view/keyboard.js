// Keys of the frame and the inbox. Those of a run are in keyboard.js of the run.

const { askInWindow, isTyping, showShortcuts, themeSwitch } = window.AgentosRun;
const INBOX_KEYS = [["a", "approve the draft, in the inbox"], ["r", "send it back, in the inbox"]];

function focusSearch() {
  openList(true);
  $("search").focus();
  $("search").select();
}

// Esc clears the search; in an empty one, it goes back to the items.
function searchKey(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation(); // keep the item's panel open
  event.preventDefault();
  if ($("search").value) {
    $("search").value = "";
    search();
  } else {
    openList(false);
    $("main").focus({ preventScroll: true });
  }
}

function inboxKey(event) {
  if ($("run").checkVisibility() && mounted) return; // the run answers its own keys
  if (isTyping(event)) return;
  if (event.key === "/") focusSearch();
  else if (event.key === "?") showShortcuts(INBOX_KEYS);
  else if (state.place.page !== "inbox") return;
  else if (event.key === "j" || event.key === "k") stepInbox(event.key === "j" ? 1 : -1);
  else if (event.key === "a" || event.key === "r") confirmAnswer(event.key === "a" ? "Approve" : "Send back");
  else return;
  event.preventDefault();
}

function stepInbox(by) {
  const links = [...$("side-list").querySelectorAll(":scope > li > a")];
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const next = links[at + by];
  if (next) location.hash = next.hash;
}

// Asks before it presses the button: one key must not decide.
async function confirmAnswer(name) {
  const one = chosenItem();
  const button = [...$("inbox-view").querySelectorAll(".v-answer button")].find((each) => each.textContent === name);
  if (!one || !button || button.disabled) return;
  const note = $("note").value.trim();
  const said = element("div", {},
    element("p", { text: one.title || one.label }),
    note ? element("blockquote", { class: "v-quote", text: note }) : element("p", { class: "v-note", text: "Without a note." }));
  const answer = await askInWindow(`${name}: ${one.label}?`, said, [["", "Cancel"], ["yes", name, "ar-go"]]);
  if (answer === "yes" && button.isConnected) button.click();
}
