// Making elements, and scales for drawing.

// Characters that change the text direction are shown as codes, never applied: they can make a text look like another one.
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function visible(text) {
  return String(text).replace(TURNS, (mark) => "[U+" + mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "]");
}

function attribute(node, name, value) {
  node.setAttribute(name, name === "title" || name.startsWith("aria-") ? visible(value) : value);
}

function fill(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) fill(node, child);
    else node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else attribute(node, name, value === true ? "" : value);
  }
  return fill(node, children);
}

function s(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) attribute(node, name, value);
  }
  return fill(node, children);
}

function icon(shape, cls) {
  return s("svg", { class: "ar-icon " + (cls || ""), viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: shape.path, class: (shape.fill ? "ar-solid" : "") + (shape.dash ? " ar-dash" : "") }));
}

function statusIcon(name) {
  return icon(statusOf(name), "ar-s-" + name);
}

function badge(name, text) {
  return h("span", { class: "ar-badge ar-s-" + name }, statusIcon(name), text || statusOf(name).word);
}

function nodeClass(name) {
  const known = { draft: 0, review: 1, load: 5, gate: 5, judge: 5, finalize: 5, hold: 5 };
  if (name in known) return "ar-n" + known[name];
  let sum = 0;
  for (const mark of String(name || "")) sum = (sum * 31 + mark.codePointAt(0)) % 997;
  return "ar-n" + (2 + (sum % 3));
}

function natural(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}

// ---- Scales ----------------------------------------------------------------------------------------------

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

function ticks(from, to, width) {
  const least = (to - from) / Math.max(1, Math.floor(width / 92));
  const step = STEPS.find((one) => one >= least) || Math.ceil(least / 86400) * 86400;
  const found = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + 1e-9; n++) found.push(n * step);
  return { step, at: found };
}

function Scale(from, to, width) {
  const factor = width / Math.max(1e-6, to - from);
  const x = (t) => (t - from) * factor;
  x.from = from; x.to = to; x.width = width; x.ticks = ticks(from, to, width);
  x.time = (px) => from + px / factor;
  return x;
}

// ---- Items without problems ------------------------------------------------------------------------------

function calm(item) {
  return ["approved", "skipped", "pending"].includes(item.status) && item.attempts <= 1 && !["wanted", "unknown"].includes(item.filing) &&
    !item.spans.some((span) => span.error || span.kind === "retry");
}
