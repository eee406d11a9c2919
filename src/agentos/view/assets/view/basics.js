// The live page of all runs of a home. Everything is shown as text, never as markup.

const AT_MOST = { log: 400000, news: 4000, retry: 3000, search: 150, pause: 20 }; // characters, milliseconds
const $ = (id) => document.getElementById(id);
const { visible, local, utc } = window.AgentosRun;

const state = {
  project: "",
  runs: null, // null until they are loaded
  found: null, // what the search found: {runs, items, left}; null without a search
  waiting: [],
  answered: [],
  inboxRead: false,
  place: { page: "runs", run: null, open: null, file: null, item: null, log: null },
  notes: new Map(), // unsent notes, by label
  changing: new Set(), // labels whose answer is being changed
};

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

// A moment in the reader's own time.
function moment(text) {
  return utc(text) && local(text);
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
    answer = await request(path, options);
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
