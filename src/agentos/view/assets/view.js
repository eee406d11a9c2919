// The live page of all runs of a home. Everything is shown as text, never as markup.
"use strict";

(() => {
  const AT_MOST = { log: 400000, news: 4000, retry: 3000, search: 150 }; // characters, milliseconds
  const $ = (id) => document.getElementById(id);
  const { visible } = window.AgentosRun;

  const state = {
    project: "",
    runs: null, // null until they are loaded
    found: null, // ids of the runs that match the search; null without a search
    waiting: [],
    answered: [],
    inboxRead: false,
    place: { page: "runs", run: null, item: null, log: null },
    notes: new Map(), // unsent notes, by label
    changing: new Set(), // labels whose answer is being changed
  };

  // Basics.

  function element(tag, settings, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(settings || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
      else if (name === "text") made.textContent = visible(value);
      else if (name === "class") made.className = value;
      else if (name === "data") for (const [key, one] of Object.entries(value)) made.dataset[key] = one;
      else made.setAttribute(name, value === true ? "" : name.startsWith("aria-") ? visible(value) : String(value));
    }
    for (const child of children) if (child !== null && child !== undefined) made.append(child instanceof Node ? child : visible(child));
    return made;
  }

  const words = (status) => (status === "pending" ? "not started" : String(status).replaceAll("_", " "));
  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  function moment(text) {
    const at = new Date(text || "");
    if (Number.isNaN(at.getTime())) return "";
    const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.getUTCMonth()];
    return `${at.getUTCDate()} ${month} ${at.getUTCFullYear()}, ${at.toISOString().slice(11, 19)} UTC`;
  }

  function money(usd) {
    if (usd === null || usd === undefined) return null;
    return usd === 0 ? null : `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
  }

  function totalsText(totals) {
    return Object.entries(totals).map(([status, number]) => `${number} ${words(status)}`).join(", ");
  }

  let newsTimer = null;
  let newsWaiting = [];
  function announce(text) {
    // Screen readers hear what happened, but are not flooded during a run.
    if (newsWaiting.includes(text)) return;
    newsWaiting.push(text);
    if (newsTimer !== null) return;
    const speak = () => {
      newsTimer = null;
      if (!newsWaiting.length) return;
      $("news").textContent = visible(newsWaiting.join(". "));
      newsWaiting = [];
      newsTimer = setTimeout(speak, AT_MOST.news);
    };
    newsTimer = setTimeout(speak, 50);
  }

  function problem(text) {
    $("problem").hidden = !text;
    $("problem").textContent = visible(text || "");
  }

  class Refused extends Error {
    constructor(message, status) {
      super(message);
      this.status = status;
    }
  }

  async function ask(path, options) {
    let answer;
    try {
      answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
    } catch {
      throw new Refused("The server is not responding. Is 'agentos view' still running?");
    }
    const kind = answer.headers.get("content-type") || "";
    const body = kind.startsWith("application/json") ? await answer.json() : { error: await answer.text() };
    if (!answer.ok) throw new Refused(body.error || `The server answered ${answer.status}.`, answer.status);
    return body;
  }

  // Runs one request at a time. If something changes meanwhile, it runs once more afterwards.
  function oneAtATime(work) {
    let busy = false;
    let again = false;
    return async function go() {
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      try {
        do {
          again = false;
          await work();
        } while (again);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if ($("connection").dataset.state === "live") problem(error.message);
      } finally {
        busy = false;
      }
    };
  }

  // Where the page is: #/runs/ID, #/runs/ID/log/LABEL, #/inbox, #/inbox/LABEL.

  function readPlace() {
    const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return "";
      }
    });
    if (parts[0] === "inbox") return { page: "inbox", item: parts[1] || null, run: null, log: null };
    return { page: "runs", run: parts[1] || null, log: parts[2] === "log" ? parts[3] || null : null, item: null };
  }

  function address(place) {
    if (place.page === "inbox") return `#/inbox${place.item ? `/${encodeURIComponent(place.item)}` : ""}`;
    const run = place.run ? `/${encodeURIComponent(place.run)}` : "";
    return `#/runs${run}${run && place.log ? `/log/${encodeURIComponent(place.log)}` : ""}`;
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
    if (moved) {
      openList(false);
      refreshRun();
      window.scrollTo(0, 0);
      $("main").focus({ preventScroll: true });
    }
    showLog();
  }

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
    const facts = [counted(run.items, "item"), totalsText(run.totals), money(run.cost_usd)].filter(Boolean);
    return {
      key: run.run_id,
      href: address({ page: "runs", run: run.run_id }),
      current: run.run_id === chosenRun(),
      mark: JSON.stringify(run),
      fill: (link) =>
        link.append(
          element("span", { class: "v-row-head" },
            element("span", { class: "v-row-name", text: run.workflow || "run" }),
            run.mock ? element("span", { class: "v-tag", text: "mock" }) : null,
            run.live ? element("span", { class: "v-tag", data: { kind: "live" }, text: "live" }) : null,
            !run.live && run.exit_code === null ? element("span", { class: "v-tag", data: { kind: "bad" }, text: "cut off" }) : null,
            run.exit_code ? element("span", { class: "v-tag", text: `exit ${run.exit_code}` }) : null),
          element("time", { class: "v-row-time", datetime: run.started_at, text: moment(run.started_at) || run.run_id }),
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
      rows = items.filter((one) => `${one.label} ${one.title} ${one.question}`.toLowerCase().includes(text)).map(itemRow);
    } else {
      rows = (state.runs || []).filter((run) => !state.found || state.found.has(run.run_id)).map(runRow);
    }
    $("side-title").textContent = inbox ? "Waiting for a decision" : "Runs";
    $("search").placeholder = inbox ? "Search the inbox" : "Search runs and items";
    const nothing = !rows.length && (text ? "No results." : inbox ? "No open questions." : "No runs yet.");
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
      return entry;
    });
    const same = wanted.length === list.children.length && wanted.every((entry, at) => list.children[at] === entry);
    if (!same) list.replaceChildren(...wanted);
  }

  // The whole page.

  function draw() {
    const inbox = state.place.page === "inbox";
    for (const [id, on] of [["tab-runs", !inbox], ["tab-inbox", inbox]]) {
      if (on) $(id).setAttribute("aria-current", "page");
      else $(id).removeAttribute("aria-current");
    }
    $("inbox-count").hidden = !state.waiting.length;
    $("inbox-count").textContent = String(state.waiting.length);
    $("inbox-count").setAttribute("aria-label", `${state.waiting.length} waiting`);
    $("project").textContent = visible(state.project);
    const live = (state.runs || []).some((run) => run.live);
    document.title = `${state.waiting.length ? `(${state.waiting.length}) ` : ""}${inbox ? "Inbox" : live ? "live" : "Runs"} · ${state.project || "agentos"}`;
    drawList();
    const empty = inbox ? state.inboxRead && !chosenItem() : state.runs !== null && !state.runs.length;
    $("empty-view").hidden = !empty;
    if (empty) drawEmpty(inbox);
    $("run-view").hidden = inbox || empty;
    $("inbox-view").hidden = !inbox || empty;
    if (inbox && chosenItem()) drawInbox();
  }

  function drawEmpty(inbox) {
    const kind = inbox ? (state.place.item ? "gone" : "inbox") : "runs";
    if ($("empty-view").dataset.kind === kind) return;
    $("empty-view").dataset.kind = kind;
    if (kind === "runs") {
      $("empty-view").replaceChildren(
        element("h1", { text: "No runs yet" }),
        element("p", { text: "Type one of these commands in the project. The run shows up here by itself." }),
        command("agentos lld --all --mock", "process every issue offline, with the mock"),
        command("agentos lld --all --dry-run", "only list what would run"),
        command("agentos init", "set up a project with folders for issues and briefs"));
    } else {
      $("empty-view").replaceChildren(
        element("h1", { text: kind === "gone" ? "This item is no longer waiting" : "No open questions" }),
        element("p", { text: "When a review ends in DISCUSS, the item waits here with its findings and its draft." }));
    }
  }

  function command(text, why) {
    const copied = element("span", { class: "v-copied", role: "status" });
    const copy = element("button", {
      type: "button",
      text: "Copy",
      "aria-label": `Copy: ${text}`,
      on: {
        click: async () => {
          try {
            await navigator.clipboard.writeText(text);
            copied.textContent = "copied";
          } catch {
            getSelection().selectAllChildren(code);
            copied.textContent = "selected; press Ctrl+C";
          }
        },
      },
    });
    const code = element("code", { text });
    return element("div", { class: "v-command" },
      element("div", { class: "v-command-line" }, code, copy, copied),
      why ? element("p", { class: "v-note", text: why }) : null);
  }

  // The run.

  let mounted = null;
  let mountedRun = null;

  function unmount() {
    mounted.destroy();
    mounted = mountedRun = null;
  }

  const refreshRun = oneAtATime(async () => {
    const run = chosenRun();
    if (!run || state.place.page !== "runs") return;
    // Never show the data of one run under the name, or the error, of another.
    if (mountedRun !== null && mountedRun !== run) unmount();
    const data = await ask(`/api/runs/${encodeURIComponent(run)}`);
    if (run !== chosenRun() || state.place.page !== "runs") return;
    problem("");
    if (mountedRun === run) {
      mounted.update(data);
    } else {
      const logs = (name) => (name.endsWith(".log") ? address({ page: "runs", run, log: name.slice(0, -4) }) : null);
      mounted = window.AgentosRun.mount($("run"), data, { links: logs, tools: sendBack });
      mountedRun = run;
    }
  });

  const refreshRuns = oneAtATime(async () => {
    const before = new Map((state.runs || []).map((run) => [run.run_id, run]));
    const first = state.runs === null;
    const answer = await ask("/api/runs");
    state.runs = answer.runs;
    state.project = answer.project;
    for (const run of first ? [] : answer.runs) {
      const known = before.get(run.run_id);
      if (!known) announce(`New run: ${run.workflow || ""} ${counted(run.items, "item")}`);
      else if (known.live && !run.live) announce(`Run finished: ${totalsText(run.totals)}`);
    }
    draw();
    if (mountedRun !== chosenRun()) await refreshRun();
  });

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

  // The inbox.

  const refreshInbox = oneAtATime(async () => {
    const before = new Set([...state.waiting, ...state.answered].map((one) => one.label));
    const answer = await ask("/api/inbox");
    for (const one of answer.waiting) if (state.inboxRead && !before.has(one.label)) announce(`${one.label} is waiting for a decision`);
    state.waiting = answer.waiting;
    state.answered = answer.answered;
    state.inboxRead = true;
    draw();
  });

  const TIERS = { 1: "blocking", 2: "high priority", 3: "suggestion" };

  function finding(one) {
    return element("li", { class: "v-finding", data: { tier: one.tier } },
      element("p", { class: "v-finding-head" },
        element("span", { class: "v-tag", data: { tier: one.tier }, text: `Tier ${one.tier} ${TIERS[one.tier] || ""}` }),
        " ", element("span", { class: "v-note", text: one.category })),
      one.title ? element("p", { class: "v-finding-title", text: one.title }) : null,
      element("p", { text: one.text }),
      one.recommendation ? element("p", { class: "v-advice" }, element("strong", { text: "Recommendation: " }), one.recommendation) : null);
  }

  function documentPane(title, text, path, where) {
    return element("div", { class: "v-document" },
      path ? element("p", { class: "v-note", text: path }) : null,
      element("pre", { class: "v-text", tabindex: "0", role: "region", "aria-label": `${title} of ${where}`, text }));
  }

  let drawnItem = null;

  function drawInbox() {
    const one = chosenItem();
    const changing = state.changing.has(one.label);
    const mark = JSON.stringify([one.label, one.reviews, one.decided, one.run_id, changing, one.draft && one.draft.text.length]);
    if (drawnItem === mark) return;
    drawnItem = mark;
    $("inbox-view").replaceChildren(discussion(one, changing));
  }

  function discussion(one, changing) {
    const head = element("header", { class: "v-item-head" },
      element("p", { class: "v-note" }, `${one.label}${one.mock ? " (mock)" : ""} · ${one.workflow} · after ${counted(one.reviews, "review")} · `,
        element("a", { href: address({ page: "runs", run: one.run_id }), text: "view run" }), " · ",
        element("a", { href: address({ page: "runs", run: one.run_id, log: one.label }), text: "view log" })),
      element("h1", { id: "item-title", text: one.title || one.label }));
    const questions = one.questions.length ? one.questions : [one.question];
    const asked = element("div", { class: "v-asked" },
      element("h2", { text: questions.length === 1 ? "Question" : "Questions" }),
      ...questions.map((text) => element("p", { text })));
    const findings = element("section", { class: "v-pane v-pane-findings", "aria-labelledby": "findings-title" },
      element("h2", { id: "findings-title", text: `Findings (${one.findings.length})` }),
      one.findings.length ? element("ol", { class: "v-findings" }, ...one.findings.map(finding)) : element("p", { class: "v-note", text: "The review has no findings." }),
      one.verdict ? element("details", { class: "v-verdict" }, element("summary", { text: "Full review" }),
        documentPane("Review", one.verdict.text, one.verdict.path, one.label)) : null);
    const draft = element("section", { class: "v-pane v-pane-draft", "aria-labelledby": "draft-title" },
      element("h2", { id: "draft-title", text: "Draft" }),
      one.draft ? documentPane("Draft", one.draft.text, one.draft.path, one.label) : element("p", { class: "v-note", text: "The lineage has no draft." }));
    return element("article", { class: "v-item", "aria-labelledby": "item-title" },
      head,
      one.decided && !changing ? decided(one) : null,
      element("div", { class: "v-panes" }, asked, findings, draft, one.decided && !changing ? null : answerForm(one)));
  }

  function decided(one) {
    const next = state.waiting.find((other) => other.label !== one.label);
    const action = one.decided.answer === "approve" ? "approve it" : "send it back";
    return element("section", { class: "v-decided", "aria-labelledby": "decided-title" },
      element("h2", { id: "decided-title", tabindex: "-1", text: `Decided: ${one.decided.answer}; the next run resumes` }),
      element("p", { text: `${one.decided.by} chose to ${action}, ${moment(one.decided.at)}.` }),
      one.decided.note ? element("blockquote", { class: "v-quote", text: one.decided.note }) : null,
      command(one.command, "Type this in the project to resume the item."),
      element("p", { class: "v-buttons" },
        next ? element("a", { class: "v-button", href: address({ page: "inbox", item: next.label }), text: `Next: ${next.label}` }) : null,
        element("button", { type: "button", text: "Change answer", on: { click: () => {
          state.changing.add(one.label);
          state.notes.set(one.label, one.decided.note);
          draw();
          $("note").focus();
        } } })));
  }

  function answerForm(one) {
    const note = element("textarea", { id: "note", rows: "2", maxlength: "20000", "aria-describedby": "note-help" });
    note.value = state.notes.get(one.label) || "";
    note.addEventListener("input", () => state.notes.set(one.label, note.value));
    const trouble = element("p", { class: "v-problem", role: "alert", hidden: true });
    const buttons = [];
    const send = async (answer) => {
      for (const button of buttons) button.disabled = true;
      trouble.hidden = true;
      try {
        await ask(`/api/inbox/${encodeURIComponent(one.label)}`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ answer, note: note.value, reviews: one.reviews, decided_at: one.decided && one.decided.at }),
        });
        state.notes.delete(one.label);
        state.changing.delete(one.label);
        drawnItem = null;
        state.place = { page: "inbox", item: one.label, run: null, log: null };
        history.replaceState(null, "", address(state.place));
        await refreshInbox();
        announce(`${one.label}: decided, ${answer}; the next run resumes`);
        const title = $("decided-title");
        if (title) title.focus();
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        trouble.textContent = error.message;
        trouble.hidden = false;
        for (const button of buttons) button.disabled = false;
        if (error.status !== 409) return;
        // Someone else answered first: show that answer, and above it why this one was rejected.
        state.changing.delete(one.label);
        await refreshInbox();
        problem(error.message);
        announce(error.message);
      }
    };
    buttons.push(
      element("button", { type: "button", class: "v-approve", text: "Approve", "aria-describedby": "approve-help", on: { click: () => send("approve") } }),
      element("button", { type: "button", class: "v-revise", text: "Send back", "aria-describedby": "approve-help", on: { click: () => send("revise") } }));
    if (one.decided) buttons.push(element("button", { type: "button", text: "Keep answer", on: { click: () => {
      state.changing.delete(one.label);
      state.notes.delete(one.label);
      draw();
      $("decided-title").focus();
    } } }));
    return element("section", { class: "v-answer", "aria-labelledby": "answer-title" },
      element("h2", { id: "answer-title", text: "Your answer" }),
      element("label", { for: "note", text: "Note" }),
      note,
      element("p", { id: "note-help", class: "v-note", text: "The note is added to the review log. If you send the item back, the drafter gets it too." }),
      element("div", { class: "v-buttons" }, ...buttons),
      element("p", { id: "approve-help", class: "v-note", text: "Approve accepts the draft as it is. Send back asks for a revision. Nothing happens until the next run; you can change the answer until then." }),
      trouble);
  }

  // The log of an item.

  const log = { run: null, label: null, next: null, cut: false };

  function closeLog() {
    const opener = [...document.links].find((link) => link.hash === location.hash && !$("side-list").contains(link));
    location.hash = address({ page: "runs", run: state.place.run, log: null });
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
    });
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
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, AT_MOST.retry);
    });
  }

  let searching = null;
  async function search() {
    const text = $("search").value.trim();
    if (state.place.page === "runs") {
      try {
        const found = text ? (await ask(`/api/runs?q=${encodeURIComponent(text)}`)).runs : null;
        if (text !== $("search").value.trim()) return;
        state.found = found && new Set(found.map((run) => run.run_id));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        problem(error.message);
      }
    }
    drawList();
  }

  function begin() {
    $("search").addEventListener("input", () => {
      clearTimeout(searching);
      searching = setTimeout(search, AT_MOST.search);
    });
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
    window.addEventListener("hashchange", arrive);
    state.place = readPlace();
    openList(false);
    draw();
    showLog();
    listen();
  }

  begin();
})();
