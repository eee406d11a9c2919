// Updates from the server.

function connection(kind, text) {
  const shown = $("connection");
  if (shown.dataset.state === kind) return;
  shown.dataset.state = kind;
  shown.textContent = text;
}

const HEARD = {
  hello: () => {
    connection("live", "live");
    problem("");
    refreshRuns();
    refreshRun();
    refreshInbox();
    refreshLog();
    refreshStarted();
  },
  started: refreshStarted,
  runs: refreshRuns,
  inbox: refreshInbox,
  run: ({ run }) => {
    refreshRuns();
    if (run === chosenRun()) refreshRun();
    if (run === log.run) refreshLog();
  },
};

// Reads server-sent events until the stream ends. EventSource cannot send the token as a header.
async function hear(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(part);
      if (found) HEARD[found[1]](JSON.parse(found[2]));
    }
  }
}

async function listen() {
  for (;;) {
    const used = token();
    try {
      const answer = await request("/events");
      if (answer.ok) await hear(answer.body);
      else if (answer.headers.has("WWW-Authenticate")) { // a restarted server has a new token
        if (await logInAgain(used)) continue;
        if (!state.runs) { // nothing is lost
          keepToken(null);
          return location.reload();
        }
        problem(await answer.text());
      }
    } catch { /* the server is off, or the connection was lost */ }
    connection("gone", "disconnected");
    await new Promise((done) => setTimeout(done, AT_MOST.retry));
  }
}

async function begin() {
  await enter();
  if (!token() && !(await logInAgain(null))) return showLogin();
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
}

begin();
