// Updates from the server.

function connection(kind, text) {
  const shown = $("connection");
  if (shown.dataset.state === kind) return;
  shown.dataset.state = kind;
  shown.textContent = text;
}

function listen() {
  const source = new EventSource("/events");
  source.addEventListener("hello", () => {
    connection("live", "live");
    problem("");
    refreshRuns();
    refreshRun();
    refreshInbox();
    refreshLog();
    refreshStarted();
  });
  source.addEventListener("started", refreshStarted);
  source.addEventListener("runs", refreshRuns);
  source.addEventListener("inbox", refreshInbox);
  source.addEventListener("run", (event) => {
    const { run } = JSON.parse(event.data);
    refreshRuns();
    if (run === chosenRun()) refreshRun();
    if (run === log.run) refreshLog();
  });
  source.addEventListener("error", () => {
    connection("gone", "disconnected");
    // Closed for good, not just unreachable: a restarted server has a new token.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => logInAgain().then(listen), AT_MOST.retry);
  });
}

function begin() {
  $("search").addEventListener("keydown", searchKey);
  $("search").addEventListener("input", () => searchSoon(AT_MOST.search));
  $("side-toggle").addEventListener("click", () => openList($("side-body").dataset.open !== "true"));
  $("log-close").addEventListener("click", closeLog);
  $("log-pane").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // keep the item's panel open
    closeLog();
  });
  $("log-text").addEventListener("scroll", () => {
    const box = $("log-text");
    $("log-follow").checked = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  });
  $("log-follow").addEventListener("change", () => {
    if ($("log-follow").checked) $("log-text").scrollTop = $("log-text").scrollHeight;
  });
  document.querySelector(".v-skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash holds the page's place, not the focus
    $("main").focus();
  });
  document.addEventListener("keydown", inboxKey);
  $("tools").append(themeSwitch(), element("button", { type: "button", "aria-label": "Keyboard help", text: "?", on: { click: () => showShortcuts(INBOX_KEYS) } }));
  window.addEventListener("hashchange", arrive);
  state.place = readPlace();
  openList(false);
  draw();
  showLog();
  listen();
  keepLogin();
  sessionStorage.removeItem("agentos-login");
}

begin();
