// Where the page is: #/runs/ID, with /item/LABEL, /document/FILE and /log/LABEL after it, #/inbox or #/inbox/LABEL.

function readPlace() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return "";
    }
  });
  if (parts[0] === "inbox") return { page: "inbox", item: parts[1] || null, run: null, open: null, file: null, log: null };
  const after = (name) => {
    const at = parts.indexOf(name, 2);
    return at >= 2 && at % 2 === 0 ? parts[at + 1] || null : null;
  };
  return { page: "runs", run: parts[1] || null, open: after("item"), file: after("document"), log: after("log"), item: null };
}

function address(place) {
  if (place.page === "inbox") return `#/inbox${place.item ? `/${encodeURIComponent(place.item)}` : ""}`;
  const part = (name, value) => (place.run && value ? `/${name}/${encodeURIComponent(value)}` : "");
  return `#/runs${place.run ? `/${encodeURIComponent(place.run)}` : ""}${part("item", place.open)}${part("document", place.open && place.file)}${part("log", place.log)}`;
}

function chosenRun() {
  if (state.place.run) return state.place.run;
  return state.runs && state.runs.length ? state.runs[0].run_id : null;
}

function chosenItem() {
  const all = [...state.waiting, ...state.answered];
  const named = all.find((one) => one.label === state.place.item);
  return named || (state.place.item ? null : all[0] || null);
}

function arrive() {
  const before = { ...state.place, run: chosenRun() };
  state.place = readPlace();
  if (before.page !== state.place.page) {
    $("search").value = "";
    state.found = null;
  }
  problem("");
  draw();
  const moved = before.page !== state.place.page || before.run !== chosenRun() || before.item !== state.place.item;
  refreshCommands();
  if (moved) {
    openList(false);
    refreshRun();
    window.scrollTo(0, 0);
    $("main").focus({ preventScroll: true });
  }
  followPlace();
  showLog();
}
