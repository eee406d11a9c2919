// Drawing rows of the timeline, and the texts of their tooltips.

function hatches() {
  const pattern = (id, cls, gap) => s("pattern", { id, width: gap, height: gap, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: gap, height: gap, class: cls + "-back" }), s("line", { x1: 0, y1: 0, x2: 0, y2: gap, class: cls + "-line" }));
  return s("svg", { class: "ar-defs", width: 0, height: 0, "aria-hidden": "true" }, s("defs", {},
    pattern("ar-hatch-wait", "ar-h-wait", 5), pattern("ar-hatch-over", "ar-h-over", 5), pattern("ar-hatch-down", "ar-h-down", 5), pattern("ar-hatch-budget", "ar-h-budget", 5), pattern("ar-hatch-rest", "ar-h-rest", 6), pattern("ar-hatch-pause", "ar-h-pause", 9), pattern("ar-hatch-off", "ar-h-off", 4), pattern("ar-hatch-bad", "ar-h-bad", 4)));
}

function gridlines(x, height) {
  return x.ticks.at.map((at) => s("line", { class: "ar-grid", x1: Math.round(x(at)) + 0.5, x2: Math.round(x(at)) + 0.5, y1: 0, y2: height }));
}

function stepPath(series, x, y, ends, base) {
  if (!series.length) return "";
  let level = 0, d = "";
  const put = (t, n) => { d += (d ? "L" : "M") + Math.min(x.width, Math.max(0, x(t))).toFixed(1) + " " + y(n).toFixed(1); };
  for (const [t, n] of series) {
    if (t > x.to) break;
    if (t >= x.from) { if (!d) put(Math.min(Math.max(x.from, 0), t), level); put(t, level); put(t, n); }
    level = n;
  }
  if (!d) put(x.from, level);
  put(Math.min(x.to, ends), level);
  return base === undefined ? d : d + "L" + Math.min(x.width, x(Math.min(x.to, ends))).toFixed(1) + " " + base + "L" + Math.max(0, x(Math.max(x.from, series[0][0]))).toFixed(1) + " " + base + "Z";
}

function box(span, x, y, height, cls, least) {
  const left = Math.max(-2, x(span.start)), right = Math.min(x.width + 2, x(span.end));
  if (right < -2 || left > x.width + 2) return null;
  const width = Math.max(least || 1.5, right - left);
  return s("rect", { class: cls, x: left.toFixed(1), y, width: width.toFixed(1), height, rx: Math.min(2.5, width / 2) });
}

function callClass(call) {
  return "ar-call " + (call.error ? "ar-bad" : nodeClass(call.node) + (call.cut ? " ar-cut" : ""));
}

const DRAWN = ["life", "node", "wait", "retry", "filing", "call"];

function drawItem(plot, item, x, height, roomy, plain) {
  const pad = roomy ? 8 : 4, tall = height - 2 * pad;
  const parts = [];
  for (const kind of DRAWN) for (const span of item.spans) {
    if (span.kind !== kind) continue;
    if (kind === "life") {
      parts.push(box(span, x, pad, tall, "ar-life" + (span.open ? " ar-alive" : ""), 2));
      if (span.ready > span.start && x(span.ready) - x(span.start) > 2) parts.push(box({ start: span.start, end: span.ready }, x, pad, tall, "ar-boot"));
    } else if (kind === "node") parts.push(box(span, x, pad, tall, "ar-node " + nodeClass(span.node), 0.5));
    else if (kind === "call") parts.push(box(span, x, pad, tall, callClass(span) + (span.open ? " ar-alive" : ""), span.error ? 3 : 1.5));
    else if (kind === "wait") parts.push(box(span, x, pad, tall, "ar-wait ar-w-" + (span.of || "key") + (span.open ? " ar-alive" : "")));
    else parts.push(box(span, x, pad, tall, "ar-" + kind + (span.open ? " ar-alive" : "")));
  }
  let last = null;
  for (const span of item.spans) if (span.kind === "life") {
    if (span.ended === "crashed" && x(span.end) >= 0 && x(span.end) <= x.width) parts.push(crash(x(span.end), height / 2));
    last = span;
  }
  if (last && last.ended && !plain && x(last.end) >= 0 && x(last.end) <= x.width) {
    const size = roomy ? 13 : 11;
    const shape = statusOf(item.status);
    parts.push(s("svg", { class: "ar-end ar-s-" + item.status, x: x(last.end) + 5, y: (height - size) / 2, width: size, height: size, viewBox: "0 0 16 16" }, s("path", { d: shape.path, class: shape.fill ? "ar-solid" : "" })));
  }
  plot.append(...parts.filter(Boolean));
}

function drawGroup(plot, items, x, height, ends) {
  const changes = new Map();
  for (const item of items) for (const span of item.spans) if (span.kind === "life") {
    changes.set(span.start, (changes.get(span.start) || 0) + 1);
    changes.set(span.end, (changes.get(span.end) || 0) - 1);
  }
  let level = 0, most = 1;
  const series = [...changes.keys()].sort((a, b) => a - b).map((at) => { level += changes.get(at); most = Math.max(most, level); return [at, level]; });
  const y = (n) => 7 + (height - 12) * (1 - n / most);
  plot.append(s("path", { class: "ar-area ar-area-calm", d: stepPath(series, x, y, ends, height - 5) }));
}

function packed(calls) {
  const lanes = [], free = [];
  for (const call of calls) {
    let lane = free.findIndex((end) => end <= call.start);
    if (lane < 0) { lane = lanes.length; lanes.push([]); }
    lanes[lane].push(call);
    free[lane] = call.end;
  }
  return lanes;
}

function laneTop(row) {
  return Math.max(8, (row.height - row.lanes.length * row.lane) / 2);
}

function drawKey(plot, row, x, height) {
  const { key, lanes, lane, shown } = row;
  const parts = [];
  for (const span of key.spans) {
    if (span.kind === "rest") parts.push(box(span, x, 3, height - 6, "ar-rest"));
    else if (span.kind === "disabled") parts.push(box(span, x, 3, height - 6, "ar-disabled"));
  }
  const top = laneTop(row);
  lanes.forEach((calls, n) => {
    // Calls that touch on the screen become one shape: nobody could see them apart, and the page stays fast.
    let run = null;
    const flush = () => { if (run) parts.push(box(run, x, top + n * lane + 1, lane - 2, run.cls, run.bad ? 3 : 1.5)); };
    for (const call of calls) {
      const dim = shown && !shown.has(call.item);
      const cls = callClass(call) + (dim ? " ar-dim" : "") + (call.open ? " ar-alive" : "");
      if (run && run.cls === cls && x(call.start) - x(run.end) < 0.6 && x(call.end) - x(call.start) < 3) run.end = call.end;
      else { flush(); run = { start: call.start, end: call.end, cls, bad: Boolean(call.error) }; }
    }
    flush();
  });
  for (const span of key.spans) if (span.kind === "limited" && x(span.start) >= 0 && x(span.start) <= x.width) parts.push(diamond(x(span.start), 7));
  plot.append(...parts.filter(Boolean));
}

// A model or a provider that slows the run down, whichever key is used.
function drawSlow(plot, row, x, height) {
  plot.append(...row.spans.map((span) => box(span, x, 8, height - 16, span.kind === "outage" ? "ar-wait ar-w-outage" : "ar-wait ar-w-overloaded", 3)).filter(Boolean));
}

function slowWords(row) {
  const long = (kind) => row.spans.filter((span) => span.kind === kind).reduce((sum, span) => sum + span.end - span.start, 0);
  const [over, down] = [long("capacity"), long("outage")];
  return [over ? "overloaded for " + seconds(over) : null, down ? "down for " + seconds(down) : null].filter(Boolean).join(", ") || "slowed down";
}

function near(span, px, x) {
  const left = x(span.start), right = Math.max(x(span.end), left + 1.5);
  return px < left ? left - px : px > right ? px - right : 0;
}

function stops(row) {
  if (row.type === "item") return row.item.spans;
  if (row.type === "model") return row.spans;
  return row.type === "key" ? row.key.spans : [];
}

// The lines of a tooltip: a title, then [name, value] pairs.
function rowLines(row) {
  if (row.type === "group") return [row.title, ["what", row.what], ["show them", "click the row or press Enter"]];
  if (row.type === "model") return [row.name, ["what", slowWords(row)], ["why", "the provider, not a key: another key would not help"]];
  if (row.type === "key") {
    const { key } = row;
    return [key.id, ["state", KEY_STATES[key.state] || key.state], ["calls", counted(key.calls, "call")], ["429s", key.rate_limited], ["rate limited", seconds(key.rested_seconds)]];
  }
  const { item } = row;
  return [item.label + (item.title ? " " + item.title : ""), ["status", statusOf(item.status).word], ["reviews", item.reviews], ["time", seconds(item.seconds)],
    ...(item.waited_seconds >= 0.005 ? [["waited", seconds(item.waited_seconds)]] : []), ...(item.waiting ? [["now", waitingFor(item)]] : []), ...(item.tokens_in ? [["tokens", tokensIn(item) + " in, " + tokensOut(item) + " out"]] : []), ...(item.error ? [["reason", clipped(item.error)]] : [])];
}

function clipped(text) {
  return text.length > 240 ? text.slice(0, 240) + " …" : text;
}

function spanLines(span, row) {
  const when = ["when", moment(span.start) + (span.end > span.start ? " – " + moment(span.end) : "")];
  const long = span.end > span.start ? [["duration", seconds(span.end - span.start) + (span.open ? " so far" : "")]] : [];
  const item = span.item || (row.item && row.item.label);
  const of = item ? [["item", item]] : [];
  switch (span.kind) {
    case "call":
      return [(span.node || "model") + " call" + (span.open ? ", in flight" : ""), ...of, when, ...long, ["key", span.key || row.id], ["model", span.served || span.model || "?"],
        ...(span.tokens_in || span.tokens_out ? [["tokens", (span.tokens_in || 0) + " in" + cachedPart(span) + ", " + (span.tokens_out || 0) + " out" + reasoningPart(span)]] : []),
        ...(span.cost_usd !== undefined ? [["cost", money(span.cost_usd)]] : []), ...(span.error ? [["error", ERRORS[span.error] || span.error]] : []), ...(span.cut ? [["ended", span.cut]] : [])];
    case "life":
      return ["Worker, attempt " + span.attempt, ...of, when, ...long, ...(span.ready !== undefined ? [["ready after", seconds(span.ready - span.start)]] : []), ...(span.resumed ? [["resumed", "from its checkpoint"]] : []),
        ...(span.ended ? [["ended", span.ended === "crashed" ? "worker crashed" : statusOf(span.ended).word]] : []), ...(span.error ? [["reason", clipped(span.error)]] : [])];
    case "node":
      return ["Node " + (span.node || "?"), ...of, ["round", span.round], when, ...long];
    case "wait":
      return [(WAITS[span.of || "key"] || "waiting").replace("w", "W"), ...of, when, ...long, ...(span.reason ? [["reason", clipped(span.reason)]] : []), ...(span.model ? [["model", span.model]] : [])];
    case "retry":
      return ["Waiting to retry", ...of, when, ...long, ...(span.reason ? [["reason", clipped(span.reason)]] : [])];
    case "filing":
      return ["Filing the issue", ...of, when, ...long];
    case "limited":
      return [span.reason === "quota_exhausted" ? "Quota exhausted" : "429: rate limited", ["key", row.id], when];
    case "rest":
      return [span.reason === "quota_exhausted" ? "Quota exhausted" : "Rate limited", ["key", row.id], when, ["duration", seconds(span.seconds) + (span.told ? ", set by the provider" : ", backoff by agentos")], ...(span.model ? [["model", span.model]] : []), ["reason", (ERRORS[span.reason] || span.reason)]];
    case "disabled":
      return ["Key disabled", ["key", row.id], when, ...(span.reason ? [["reason", clipped(span.reason)]] : [])];
    case "pause":
      return ["Run paused", when, ...long, ["reason", clipped(span.text)]];
    case "capacity":
      return ["Model overloaded", when, ...long, ["reason", clipped(span.text)]];
    case "outage":
      return ["Provider down", when, ...long, ["reason", clipped(span.text)]];
    case "stopping":
      return ["Run stopping", when, ["reason", clipped(span.text)]];
    default:
      return [span.kind, when, ...long];
  }
}
