// Parts of the page.

const WAITS = { key: "waiting for a key", overloaded: "waiting for an overloaded model", outage: "waiting for a provider that is down", budget: "waiting for the budget", backoff: "waiting to retry" };

function waitingFor(item) {
  if (!item.waiting) return "";
  const { reason, seconds_left: left, of = "key" } = item.waiting;
  return (WAITS[of] || "waiting") + (reason ? ": " + reason : "") + (left ? ", about " + seconds(left) + " left" : "");
}

function costOf(item) {
  if (item.cost_usd === null && item.cost_known_usd > 0) return "≥ " + money(item.cost_known_usd);
  return item.tokens_in + item.tokens_out || item.cost_usd ? money(item.cost_usd) : null;
}

function noOverlap(run) {
  if (run.compared === null || run.compared === undefined) return "No two designs of this run change the same file.";
  if (run.compared < (run.totals.approved || 0) || !run.compared) return run.live ? "Overlaps are listed when the run is finished." : "Overlaps were not checked: the run was cut off.";
  return "None among the " + counted(run.compared, "design") + " approved " + (run.live ? "so far." : "before the run was cut off.");
}

// Fills in the calls of each key from the calls of the items.
function callsOfKeys(data) {
  const made = new Map(data.keys.map((key) => [key.id, []]));
  for (const item of data.items) for (const span of item.spans) {
    if (span.kind === "call" && made.has(span.key)) made.get(span.key).push(Object.assign({}, span, { item: item.label }));
  }
  for (const key of data.keys) {
    key.spans = [...key.spans.filter((span) => span.kind !== "call"), ...made.get(key.id)].sort((a, b) => a.start - b.start);
  }
}

// Reverses `packed` of page.py.
function unpacked({ texts, shapes, data }) {
  const unpack = (value) => {
    if (typeof value === "string" && value[0] === "~") return value[1] === "~" ? value.slice(1) : texts[value.slice(1)];
    if (!Array.isArray(value)) return value;
    if (value[0] === 0) return value.slice(1).map(unpack);
    return Object.fromEntries(shapes[value[0] - 1].map((name, n) => [name, unpack(value[n + 1])]));
  };
  return unpack(data);
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function segmented(name, choices, choose) {
  const buttons = new Map();
  const node = h("span", { class: "ar-segments", role: "group", "aria-label": name }, choices.map(([value, text]) => {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(value) }, text);
    buttons.set(value, button);
    return button;
  }));
  return { node, set(value) { for (const [one, button] of buttons) button.setAttribute("aria-pressed", String(one === value)); } };
}

function filedLink(filed) {
  const name = filed.number ? "#" + filed.number : filed.url || "yes";
  return filed.url && /^https?:\/\//.test(filed.url) ? h("a", { href: filed.url, rel: "noopener noreferrer", target: "_blank" }, name) : h("span", {}, name);
}

// What both models got to know about the repository.
function contextPart(parts) {
  if (!parts.length) return null;
  const total = parts.reduce((sum, part) => sum + part.tokens, 0);
  return h("section", {}, h("h3", {}, "Repository map"),
    h("details", { "data-name": "context" }, h("summary", {}, counted(parts.length, "part") + ", " + tokens(total) + " tokens in each call"),
      h("table", { class: "ar-table" }, h("caption", { class: "ar-sr" }, "Parts of the repository map"),
        h("thead", {}, h("tr", {}, ["Path", "Kind", "Tokens"].map((text, n) => h("th", { scope: "col", class: n > 1 ? "ar-num" : null }, text)))),
        h("tbody", {}, parts.map((part) => h("tr", {}, h("td", {}, h("code", {}, part.path)), h("td", {}, part.kind), h("td", { class: "ar-num" }, tokens(part.tokens))))))));
}

// What the models asked to read of the repository.
function looksPart(looks) {
  if (!looks.length) return null;
  const files = new Set(looks.flatMap((look) => look.files)), total = looks.reduce((sum, look) => sum + look.definitions, 0);
  const asked = looks.filter((look) => look.answers.length);
  const read = "read " + counted(total, "definition") + " in " + counted(files.size, "file") + ", " + counted(looks.length, "look");
  return h("section", {}, h("h3", {}, "Read from the repository"),
    h("details", { "data-name": "looks" }, h("summary", {}, read),
      asked.map((look) => [h("h5", {}, (look.role === "drafter" ? "Drafter, look " + look.look : "Reviewer") + ", " + tokens(look.tokens) + " tokens"), h("ul", {}, look.answers.map((text) => h("li", {}, text)))])));
}

function findingPart(finding, followed) {
  // Without numbers, a finding that is open in a later review has been reported again.
  const state = followed && !finding.number && finding.state === "open" ? STATES.again : STATES[finding.state];
  return h("li", { class: "ar-finding ar-f-" + finding.state },
    h("p", { class: "ar-finding-head" }, finding.number ? h("b", {}, "F" + finding.number) : null, state ? h("span", { class: "ar-mark" }, icon(state), state.word) : null,
      finding.returned ? h("span", { class: "ar-tag ar-regression" }, "regression") : null,
      finding.category && finding.category !== "Suggestion" ? h("span", { class: "ar-tag" }, finding.category) : null, finding.title ? h("b", {}, finding.title) : null),
    finding.text ? h("p", { class: "ar-said" }, finding.text) : null,
    finding.recommendation ? h("p", { class: "ar-said ar-advice" }, finding.recommendation) : null);
}

function questionsPart(questions) {
  return questions.length ? h("div", { class: "ar-tier" }, h("h5", {}, "Open questions"), h("ul", {}, questions.map((one) => h("li", { class: "ar-question" }, one)))) : null;
}

function diffBlock(draft) {
  const block = h("pre", { class: "ar-diff", tabindex: "0", "aria-label": "Changes in " + draft.file });
  for (const line of draft.diff.split("\n")) {
    const kind = line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "same";
    block.append(h("span", { class: "ar-d-" + kind }, line || " "));
  }
  if (draft.cut) block.append(h("span", { class: "ar-d-hunk" }, "… more changes; see " + draft.file));
  return block;
}

function spark(values, title) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const most = Math.max(...known, 1e-9), least = Math.min(...known, 0);
  const points = values.map((value, n) => (value === null ? null : [n / (values.length - 1) * 68 + 4, 20 - (value - least) / (most - least || 1) * 16]));
  const drawn = points.filter(Boolean);
  return s("svg", { class: "ar-spark", width: 76, height: 24, role: "img", "aria-label": title },
    s("title", {}, title),
    s("polyline", { points: drawn.map((one) => one.map((n) => n.toFixed(1)).join(",")).join(" ") }),
    s("circle", { cx: drawn.at(-1)[0], cy: drawn.at(-1)[1], r: 2.5 }));
}

function swatch(cls) {
  return s("svg", { class: "ar-swatch", width: 16, height: 10, "aria-hidden": "true" }, s("rect", { class: cls, x: 0.5, y: 0.5, width: 15, height: 9, rx: 2 }));
}

function mark(kind) {
  const node = s("svg", { class: "ar-swatch", width: 16, height: 12, "aria-hidden": "true" });
  node.append(kind === "limited" ? diamond(8, 6) : crash(8, 6));
  return node;
}

function diamond(x, y) {
  return s("path", { class: "ar-limited", d: "M" + x + " " + (y - 5) + "l5 5l-5 5l-5 -5z" });
}

function crash(x, y) {
  return s("path", { class: "ar-crash", d: "M" + (x - 3.5) + " " + (y - 3.5) + "l7 7m0 -7l-7 7" });
}
