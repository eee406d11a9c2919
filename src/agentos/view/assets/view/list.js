// The side list.

function openList(open) {
  $("side-body").dataset.open = String(open);
  $("side-toggle").setAttribute("aria-expanded", String(open));
  $("side-toggle").textContent = open ? "Hide list" : "Show list";
}

function bar(totals) {
  const all = Object.values(totals).reduce((sum, number) => sum + number, 0);
  const made = element("span", { class: "v-bar", "aria-hidden": "true" });
  for (const [status, number] of Object.entries(totals)) {
    const part = element("span", { data: { status } });
    part.style.flexGrow = String(all ? number / all : 0);
    made.append(part);
  }
  return made;
}

function runRow(run) {
  const facts = [run.items || !run.live ? counted(run.items, "item") : null, totalsText(run.totals), money(run.cost_usd)].filter(Boolean);
  return {
    key: run.run_id,
    href: address({ page: "runs", run: run.run_id }),
    current: run.run_id === chosenRun(),
    mark: JSON.stringify(run),
    found: state.found && !namesRun(run) ? state.found.items[run.run_id] : null,
    hits: () => hits(run),
    fill: (link) =>
      link.append(
        element("span", { class: "v-row-head" },
          element("span", { class: "v-row-name", text: run.workflow || (run.live ? "starting …" : "run") }),
          run.mock ? element("span", { class: "v-tag", text: "mock" }) : null,
          run.live ? element("span", { class: "v-tag", data: { kind: "live" }, text: "live" }) : null,
          !run.live && run.exit_code === null ? element("span", { class: "v-tag", data: { kind: "bad" }, text: "cut off" }) : null,
          run.exit_code ? element("span", { class: "v-tag", text: `exit ${run.exit_code}` }) : null),
        element("time", { class: "v-row-time", datetime: run.started_at, title: utc(run.started_at), text: moment(run.started_at) || run.run_id }),
        bar(run.totals),
        element("span", { class: "v-row-facts", text: facts.join(" · ") })),
  };
}

function itemRow(one) {
  const status = one.decided ? `decided: ${one.decided.answer}` : `waiting since ${moment(one.since)}`;
  return {
    key: one.label,
    href: address({ page: "inbox", item: one.label }),
    current: one === chosenItem(),
    mark: JSON.stringify([one.title, status]),
    hits: () => null,
    fill: (link) =>
      link.append(
        element("span", { class: "v-row-head" },
          element("span", { class: "v-row-name", text: one.label }),
          one.mock ? element("span", { class: "v-tag", text: "mock" }) : null,
          one.decided ? element("span", { class: "v-tag", text: "decided" }) : null),
        element("span", { class: "v-row-facts", text: one.title }),
        element("span", { class: "v-row-time", text: status })),
  };
}

function drawList() {
  const inbox = state.place.page === "inbox";
  const text = $("search").value.trim().toLowerCase();
  let rows = [];
  if (inbox) {
    const items = [...state.waiting, ...state.answered];
    const words = text.split(/\s+/);
    rows = items.filter((one) => words.every((word) => inboxText(one).includes(word))).map(itemRow);
  } else {
    rows = (state.runs || []).filter(isFound).map(runRow);
  }
  $("side-title").textContent = inbox ? "Waiting for a decision" : "Runs";
  $("search").placeholder = inbox ? "Search the inbox" : "Search runs and items";
  const left = !inbox && state.found ? state.found.left : 0;
  const nothing = left > 0 ? `Searching … ${counted(left, "run")} to go.` : !rows.length && (text ? "No results." : inbox ? "No open questions." : "No runs yet.");
  $("side-note").hidden = !nothing;
  $("side-note").textContent = nothing || "";
  // Unchanged rows are kept, so that the focus stays where it is.
  const list = $("side-list");
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const wanted = rows.map((row) => {
    let entry = old.get(row.key);
    if (!entry) entry = element("li", { data: { key: row.key } }, element("a"));
    const link = entry.firstElementChild;
    link.setAttribute("href", row.href);
    if (row.current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    if (entry.dataset.mark !== row.mark) {
      entry.dataset.mark = row.mark;
      link.replaceChildren();
      row.fill(link);
    }
    const found = JSON.stringify(row.found || null);
    if ((entry.dataset.found || "null") !== found) {
      entry.dataset.found = found;
      entry.replaceChildren(...[link, row.hits()].filter(Boolean));
    }
    return entry;
  });
  const same = wanted.length === list.children.length && wanted.every((entry, at) => list.children[at] === entry);
  if (!same) list.replaceChildren(...wanted);
}
