// The log of an item.

const log = { run: null, label: null, next: null, cut: false };

function closeLog() {
  const opener = [...document.links].find((link) => link.hash === location.hash && !$("side-list").contains(link));
  location.hash = address({ ...state.place, log: null });
  (opener || $("main")).focus({ preventScroll: true });
}

function showLog() {
  const { page, run, log: label } = state.place;
  const open = page === "runs" && Boolean(run && label);
  $("log-pane").hidden = !open;
  document.body.dataset.log = String(open);
  if (!open) {
    log.label = null;
    return;
  }
  if (log.run === run && log.label === label) return;
  Object.assign(log, { run, label, next: null, cut: false });
  $("log-text").textContent = "";
  $("log-note").textContent = "";
  $("log-title").textContent = visible(`Log of ${label}`);
  $("log-title").focus();
  refreshLog();
}

const refreshLog = oneAtATime(async () => {
  for (;;) {
    const { run, label, next } = log;
    if (!label) return;
    let part;
    try {
      part = await ask(`/api/runs/${encodeURIComponent(run)}/log/${encodeURIComponent(label)}${next === null ? "" : `?after=${next}`}`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (log.label === label) $("log-note").textContent = error.message;
      return;
    }
    if (log.run !== run || log.label !== label) continue;
    const box = $("log-text");
    const more = visible(part.text);
    let text = box.textContent + more;
    if (text.length > AT_MOST.log) text = text.slice(text.indexOf("\n", text.length - AT_MOST.log) + 1);
    if (part.text) {
      if (text.startsWith(box.textContent) && box.textContent) box.append(more);
      else box.textContent = text;
    }
    log.next = part.next;
    if (next === null) log.cut = part.start > 0;
    $("log-note").textContent = [
      log.cut ? "end of a long log" : null,
      part.live ? "run in progress" : "run finished",
      part.size ? null : "empty so far",
    ].filter(Boolean).join(" · ");
    if ($("log-follow").checked) box.scrollTop = box.scrollHeight;
    if (!part.text || part.next >= part.size) return;
  }
});
