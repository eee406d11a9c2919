// Words and formats.

const SVG = "http://www.w3.org/2000/svg";

const STATUSES = {
  running: { word: "running", path: "M5 3.5v9l7.5-4.5z", fill: true },
  approved: { word: "approved", path: "M3 8.5l3.2 3.2L13 4.8" },
  needs_revision: { word: "needs revision", path: "M12.7 6A5.2 5.2 0 1 0 13.2 9M13.2 2.6V6H9.8" },
  discuss: { word: "discuss", path: "M2.8 3.5h10.4v7H8l-3 2.8v-2.8H2.8zM5.5 7h.01M8 7h.01M10.5 7h.01" },
  failed: { word: "failed", path: "M4 4l8 8M12 4l-8 8" },
  timed_out: { word: "timed out", path: "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2.2 1.6" },
  interrupted: { word: "interrupted", path: "M4 4h8v8H4z" },
  paused: { word: "paused", path: "M5.5 3.5v9M10.5 3.5v9" },
  cut_off: { word: "cut off", path: "M3 13L13 3M2.5 8h3M10.5 8h3" },
  pending: { word: "not started", path: "M8 3a5 5 0 1 0 .01 0", dash: true },
  skipped: { word: "skipped", path: "M3 4l4.5 4L3 12M8.5 4L13 8l-4.5 4" },
};
const STATUS_ORDER = Object.keys(STATUSES);
const VERDICTS = { APPROVED: "approved", REVISE: "needs_revision", DISCUSS: "discuss", UNREADABLE: "failed" };
const TIERS = { 1: "Tier 1 · blocking", 2: "Tier 2 · high priority", 3: "Tier 3 · suggestions" };
const STATES = {
  resolved: { word: "resolved", path: "M3 8.5l3.2 3.2L13 4.8" },
  open: { word: "open", path: "M8 3a5 5 0 1 0 .01 0" },
  again: { word: "came back", path: "M12.7 6A5.2 5.2 0 1 0 13.2 9M13.2 2.6V6H9.8" },
  accepted: { word: "accepted", path: "M3 8h10" },
  withdrawn: { word: "withdrawn", path: "M4 4l8 8M12 4l-8 8" },
};
const BANDS = ["pause", "outage"]; // marks over the whole height, for as long as they last
const KEY_STATES = {
  available: "available", reserved: "in use", rate_limited: "rate limited",
  quota_exhausted: "quota exhausted", disabled: "disabled",
};
const ERRORS = {
  rate_limited: "429: rate limited", quota_exhausted: "quota exhausted", capacity: "model overloaded",
  key_rejected: "key rejected", bad_request: "request rejected", declined: "prompt rejected",
  transient: "temporary error",
  dropped: "connection closed", unreachable: "provider unreachable", no_credit: "out of credit",
  no_model: "model not available", forbidden: "account refused", wrong_endpoint: "wrong address",
  untrusted: "certificate not trusted", proxy_refused: "proxy refused",
};
const FILINGS = { wanted: "not yet", unknown: "unknown; check on GitHub" };
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const GROUP_FROM = 40; // from this many rows on, items without problems are grouped
const TIGHT_FROM = 24; // from this many rows on, rows are thin

function statusOf(name) {
  return STATUSES[name] || { word: String(name), path: "M8 3a5 5 0 1 0 .01 0" };
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.01) return value > 0 ? "<10 ms" : "0 s";
  if (value < 1) return Math.round(value * 1000) + " ms";
  if (value < 10) return value.toFixed(1) + " s";
  if (value < 60) return Math.round(value) + " s";
  const whole = Math.round(value);
  const h = Math.floor(whole / 3600), m = Math.floor((whole % 3600) / 60), s = whole % 60;
  if (h) return h + " h " + String(m).padStart(2, "0") + " min";
  return m + " min" + (s ? " " + String(s).padStart(2, "0") + " s" : "");
}

function clock(value, step) {
  if (value === 0) return "0";
  if (step < 1) return value.toFixed(step < 0.1 ? 2 : 1) + " s";
  const whole = Math.round(value);
  if (whole < 60 && step < 60) return whole + " s";
  const h = Math.floor(whole / 3600), m = Math.floor((whole % 3600) / 60), s = whole % 60;
  const two = (n) => String(n).padStart(2, "0");
  return h ? h + ":" + two(m) + (step < 60 ? ":" + two(s) : " h") : step < 60 ? m + ":" + two(s) : m + " min";
}

function moment(value) {
  return value < 60 ? value.toFixed(2) + " s" : clock(value, 1) + (value < 600 ? "." + Math.floor((value % 1) * 10) : "");
}

function tokens(value) {
  if (value < 1000) return String(value);
  if (value < 1e6) return (value / 1000).toFixed(value < 1e4 ? 1 : 0) + "k";
  return (value / 1e6).toFixed(value < 1e7 ? 2 : 1) + "M";
}

function cachedPart(used) {
  return used.tokens_cached ? " (" + tokens(used.tokens_cached) + " cached)" : "";
}

function tokensIn(used) {
  return tokens(used.tokens_in) + cachedPart(used);
}

function reasoningPart(used) {
  return used.tokens_reasoning ? " (" + tokens(used.tokens_reasoning) + " reasoning)" : "";
}

function tokensOut(used) {
  return tokens(used.tokens_out) + reasoningPart(used);
}

function money(value) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "$0";
  if (value < 0.01) return "$" + value.toFixed(4);
  return "$" + value.toFixed(value < 1000 ? 2 : 0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// An amount beside a budget: with as many digits as it takes to compare the two.
function moneyOf(value, budget) {
  if (budget === null || budget === undefined || budget >= 0.1 || value === null || value === undefined || value === 0) return money(value);
  return "$" + value.toFixed(4).replace(/0{1,2}$/, "");
}

function percent(value) {
  if (value === null || value === undefined) return "–";
  return (Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value)) + " %";
}

function counted(number, noun) {
  return number + " " + noun + (number === 1 ? "" : "s");
}

// A moment in the reader's own time, with how long ago it was; UTC on hover.
function when(text) {
  const node = h("time", { datetime: text, title: date(text), "data-at": text });
  node.textContent = local(text) + agoWords(text);
  return node;
}

function tellAgo(root) {
  for (const node of root.querySelectorAll("time[data-at]")) node.textContent = local(node.dataset.at) + agoWords(node.dataset.at);
}

function local(text) {
  const at = new Date(text);
  return at.getDate() + " " + MONTHS[at.getMonth()] + " " + at.getFullYear() + ", " + String(at.getHours()).padStart(2, "0") + ":" + String(at.getMinutes()).padStart(2, "0");
}

function agoWords(text) {
  const past = (Date.now() - new Date(text)) / 1000;
  if (past < -60) return "";
  const [number, unit] = past < 60 ? [0, ""] : past < 3600 ? [past / 60, "min"] : past < 86400 ? [past / 3600, "h"] : [past / 86400, "day"];
  const whole = Math.floor(number);
  return unit ? " (" + whole + " " + (unit === "day" && whole > 1 ? "days" : unit) + " ago)" : " (just now)";
}

function date(text) {
  const at = new Date(text || "");
  if (isNaN(at)) return "";
  const month = MONTHS[at.getUTCMonth()];
  const two = (n) => String(n).padStart(2, "0");
  return at.getUTCDate() + " " + month + " " + at.getUTCFullYear() + ", " +
    two(at.getUTCHours()) + ":" + two(at.getUTCMinutes()) + ":" + two(at.getUTCSeconds()) + " UTC";
}
