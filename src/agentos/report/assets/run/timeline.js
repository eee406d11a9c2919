// The timeline: one row per item or key.

const Timeline = (Base) => class extends Base {
  get tight() {
    const rows = this.state.view === "keys" ? this.data.keys.length : this.visible.length;
    return (this.state.density || (rows > TIGHT_FROM ? "tight" : "roomy")) === "tight";
  }

  get grouping() {
    return this.state.group === null ? this.visible.length > GROUP_FROM : this.state.group;
  }

  rows() {
    const rows = [];
    let y = 0;
    const add = (row, height) => { rows.push(Object.assign(row, { y, height })); y += height; };
    if (this.state.view === "keys") {
      const shown = new Set(this.visible.map((item) => item.label));
      const all = shown.size === this.data.items.length;
      for (const key of this.data.keys) {
        const lanes = packed(key.spans.filter((span) => span.kind === "call"));
        const lane = this.tight ? 6 : 12;
        add({ type: "key", id: key.id, key, lanes, lane, shown: all ? null : shown }, Math.max(this.tight ? 40 : 48, lanes.length * lane + 16));
      }
      for (const [name, spans] of this.slow()) add({ type: "model", id: "\u0000model " + name, name, spans }, this.tight ? 40 : 48);
    } else {
      const height = this.tight ? 20 : 34;
      const one = (item) => add({ type: "item", id: item.label, item }, height);
      const group = (id, items, words, about) => {
        if (!items.length) return;
        const open = this.state.expanded.has(id);
        add({ type: "group", id, items, open, ...about, title: items.length + " " + words }, 44);
        if (open) items.forEach(one);
      };
      // What runs now comes first, wherever it is in the plan.
      const pinned = this.pinned ? this.visible.filter((item) => item.status === "running") : [];
      const others = pinned.length ? this.visible.filter((item) => item.status !== "running") : this.visible;
      const queued = (item) => this.data.run.live && item.status === "pending";
      const grouped = this.grouping ? others.filter((item) => item.calm) : [];
      pinned.forEach(one);
      group("\u0000calm", grouped.filter((item) => !queued(item)), "without problems", { sub: "no error, retry or crash", what: "approved, skipped or not started; no error, retry or crash" });
      for (const item of others) if (!this.grouping || !item.calm) one(item);
      group("\u0000queue", grouped.filter(queued), "in the queue", { sub: "not started yet", what: "they start in this order, as soon as a worker is free" });
    }
    this.total = y;
    return rows;
  }

  // Whether running items are on top: only in a run with so many items that they would be lost.
  get pinned() {
    return this.data.run.live && this.data.items.length > TIGHT_FROM;
  }

  // The models and providers that slowed the run down, with when.
  slow() {
    const found = new Map();
    for (const mark of this.data.marks) {
      if (!["capacity", "outage"].includes(mark.kind) || !mark.about) continue;
      found.set(mark.about, [...(found.get(mark.about) || []), mark]);
    }
    return [...found].sort(([a], [b]) => natural(a, b));
  }

  scale() {
    const styles = getComputedStyle(this.root);
    this.label = parseFloat(styles.getPropertyValue("--ar-label")) || 200;
    const width = Math.max(60, this.body.clientWidth - this.label - 26);
    const [from, to] = this.state.window || [0, this.ends];
    return Scale(from, to, width);
  }

  drawTimeline() {
    const { state } = this;
    this.views.set(state.view);
    this.densities.set(this.tight ? "tight" : "roomy");
    const check = this.group.firstChild;
    check.checked = this.grouping;
    this.group.hidden = state.view === "keys" || !this.visible.some((item) => item.calm);
    this.list = this.rows();
    this.space.style.height = Math.max(this.total, 40) + "px";
    this.x = this.scale();
    const zoomed = state.window !== null;
    this.zoomAll.disabled = this.zoomOut.disabled = !zoomed;
    this.pan.hidden = !zoomed;
    if (zoomed) {
      const room = this.ends - (state.window[1] - state.window[0]);
      this.pan.value = String(room > 0 ? Math.round(state.window[0] / room * 1000) : 0);
      this.pan.setAttribute("aria-valuetext", "from " + moment(state.window[0]) + " to " + moment(state.window[1]));
    }
    this.drawPlotHead();
    this.drawLegend();
    this.drawn = null;
    this.drawRows();
  }

  // How many items are running and how many calls are in flight, on the same time axis as the rows.
  drawPlotHead() {
    const { x, data } = this;
    const { parallelism, run } = data;
    const height = 60, top = 6;
    const most = Math.max(run.parallel || 1, ...parallelism.items.map((step) => step[1]), ...parallelism.calls.map((step) => step[1]), 1);
    const y = (n) => top + (height - top) * (1 - n / most);
    const chart = s("svg", { class: "ar-plot", width: x.width + 26, height: height + 24, role: "img",
      "aria-label": "Parallelism: " + parallelism.mean_items.toFixed(1) + " workers on average, at work or waiting; at most " + Math.max(0, ...parallelism.items.map((one) => one[1])) + (run.parallel ? " of " + run.parallel : "") });
    chart.append(...gridlines(x, height), ...this.bands(x, height));
    chart.append(s("path", { class: "ar-area", d: stepPath(parallelism.items, x, y, this.ends, height) }));
    chart.append(s("path", { class: "ar-line ar-line-items", d: stepPath(parallelism.items, x, y, this.ends) }));
    chart.append(s("path", { class: "ar-line ar-line-calls", d: stepPath(parallelism.calls, x, y, this.ends) }));
    if (run.parallel) {
      const allowed = [[0, run.parallel], ...parallelism.allowed];
      chart.append(s("path", { class: "ar-line ar-line-limit", d: stepPath(allowed, x, y, this.ends) }));
    }
    for (const at of x.ticks.at) {
      chart.append(s("text", { class: "ar-tick", x: x(at), y: height + 17, "text-anchor": at <= x.from ? "start" : x(at) > x.width - 14 ? "end" : "middle" }, clock(at, x.ticks.step)));
    }
    this.brush = s("rect", { class: "ar-brush", y: 0, height, x: 0, width: 0 });
    chart.append(this.brush);
    this.plotHead.replaceChildren(
      h("div", { class: "ar-plot-label" },
        h("span", { class: "ar-key", title: "Items that have a worker, also while they wait" }, swatch("ar-area-swatch"), "workers"),
        h("span", { class: "ar-key", title: "Calls that are at a model" }, swatch("ar-calls-swatch"), "calls"),
        h("span", { class: "ar-scale-top" }, most), h("span", { class: "ar-scale-zero" }, "0")),
      chart);
  }

  bands(x, height) {
    return this.data.marks.filter((mark) => BANDS.includes(mark.kind) || mark.kind === "stopping").map((mark) => {
      const left = Math.max(0, x(mark.start));
      if (x(mark.end) < 0 || left > x.width) return null;
      return BANDS.includes(mark.kind)
        ? s("rect", { class: "ar-pause", x: left, y: 0, width: Math.max(1.5, Math.min(x.width, x(mark.end)) - left), height })
        : s("line", { class: "ar-stopping", x1: left, x2: left, y1: 0, y2: height });
    }).filter(Boolean);
  }

  drawLegend() {
    const used = { nodes: new Map() };
    for (const item of this.data.items) for (const span of item.spans) {
      used[span.kind] = true;
      if (span.kind === "call" && span.node) used.nodes.set(span.node, nodeClass(span.node));
      if (span.kind === "wait") used["wait-" + (span.of || "key")] = true;
      if (span.error && span.kind === "call") used.error = true;
      if (span.cut) used.cut = true;
      if (span.ended === "crashed") used.crashed = true;
    }
    for (const key of this.data.keys) for (const span of key.spans) used[span.kind] = true;
    for (const mark of this.data.marks) used["mark-" + mark.kind] = true;
    const by = this.state.view;
    const entry = (cls, text) => h("li", {}, swatch(cls), text);
    this.section("legend", [[...used.nodes], Object.keys(used), by], () => this.legend.replaceChildren(...[
      ...[...used.nodes].sort().slice(0, 6).map(([name, cls]) => entry("ar-call " + cls, name + " call")),
      used.error && entry("ar-call ar-bad", "failed call"),
      used.cut && entry("ar-call ar-n0 ar-cut", "call cut short"),
      by === "items" && used.life && entry("ar-life", "worker between calls"),
      ...Object.entries(WAITS).filter(([kind]) => by === "items" && used["wait-" + kind]).map(([kind, words]) => entry("ar-wait ar-w-" + kind, words)),
      by === "items" && used.retry && entry("ar-retry", "waiting to retry"),
      by === "items" && used.crashed && h("li", {}, mark("crash"), "worker crashed"),
      by === "keys" && used.limited && h("li", {}, mark("limited"), "429"),
      by === "keys" && used.rest && entry("ar-rest", "rate limited"),
      by === "keys" && used.disabled && entry("ar-disabled", "key disabled"),
      by === "keys" && used["mark-capacity"] && entry("ar-wait ar-w-overloaded", "model overloaded"),
      used["mark-pause"] && entry("ar-pause", "run paused"),
      used["mark-outage"] && entry("ar-pause", "provider down"),
      used["mark-stopping"] && entry("ar-stopping-swatch", "run stopping"),
    ].filter(Boolean)));
  }

  // Only the visible rows are in the document.
  drawRows() {
    const top = this.body.scrollTop, bottom = top + this.body.clientHeight;
    const first = this.everything ? Math.min(0, this.list.length - 1) : this.list.findIndex((row) => row.y + row.height >= top - 120);
    let last = this.list.length;
    while (!this.everything && last > 0 && this.list[last - 1].y > bottom + 120) last--;
    const range = first + "-" + last + "-" + this.state.active;
    if (this.drawn === range) return;
    this.drawn = range;
    const nodes = first < 0 ? [] : this.list.slice(first, last).map((row, n) => this.drawRow(row, first + n));
    if (!this.list.length) nodes.push(h("p", { class: "ar-empty" }, this.data.items.length ? "No items match the filter." : "No items have started yet."));
    this.space.replaceChildren(...nodes);
    const active = this.list.findIndex((row) => row.id === this.state.active);
    if (active >= 0) this.body.setAttribute("aria-activedescendant", "ar-row-" + active);
    else this.body.removeAttribute("aria-activedescendant");
  }

  drawRow(row, number) {
    const { x } = this;
    const plot = s("svg", { class: "ar-plot", width: x.width + 26, height: row.height, "aria-hidden": "true" });
    plot.append(...gridlines(x, row.height), ...this.bands(x, row.height));
    let label, spoken;
    if (row.type === "item") {
      const { item } = row;
      drawItem(plot, item, x, row.height, !this.tight);
      label = [statusIcon(item.status), h("span", { class: "ar-name" }, item.label), this.tight && !item.title ? null : h("span", { class: "ar-sub" }, item.title || "")];
      spoken = [statusOf(item.status).word, counted(item.reviews, "review"), seconds(item.seconds)].filter(Boolean).join(", ");
    } else if (row.type === "group") {
      drawGroup(plot, row.items, x, row.height, this.ends);
      label = [h("span", { class: "ar-twist" + (row.open ? " ar-open" : ""), "aria-hidden": "true" }), h("span", { class: "ar-name" }, row.title), h("span", { class: "ar-sub" }, row.sub)];
      spoken = (row.open ? "shown below" : "hidden; press Enter to show them");
    } else if (row.type === "model") {
      drawSlow(plot, row, x, row.height);
      label = [h("span", { class: "ar-dot ar-k-slow", "aria-hidden": "true" }), h("span", { class: "ar-name" }, row.name), h("span", { class: "ar-sub" }, slowWords(row))];
      spoken = "";
    } else {
      const { key } = row;
      const used = counted(key.calls, "call") + (key.rate_limited ? ", " + key.rate_limited + " × 429" : "");
      drawKey(plot, row, x, row.height);
      label = [h("span", { class: "ar-dot ar-k-" + key.state, "aria-hidden": "true" }), h("span", { class: "ar-name" }, key.id), h("span", { class: "ar-sub" }, used)];
      spoken = [KEY_STATES[key.state] || key.state, "rate limited for " + seconds(key.rested_seconds)].join(", ");
    }
    const node = h("div", {
      class: "ar-row ar-row-" + row.type + (row.height < 26 ? " ar-thin" : "") + (row.id === this.state.active ? " ar-active" : ""),
      role: "option", id: "ar-row-" + number, "aria-selected": String(row.id === this.state.active),
      "aria-posinset": number + 1, "aria-setsize": this.list.length,
    }, h("div", { class: "ar-row-label" }, label, spoken ? h("span", { class: "ar-sr" }, ", " + spoken) : null), plot);
    node.style.top = row.y + "px";
    node.style.height = row.height + "px";
    return node;
  }

  rowAt(clientY) {
    const y = clientY - this.space.getBoundingClientRect().top;
    return this.list.find((row) => y >= row.y && y < row.y + row.height);
  }

  spanAt(row, clientX, clientY) {
    const box = this.space.getBoundingClientRect();
    const px = clientX - box.left - this.label;
    if (px < -4) return null;
    const pause = this.data.marks.find((one) => [...BANDS, "stopping"].includes(one.kind) && near(one, px, this.x) < 3);
    if (row.type === "group") return pause || null;
    const lane = row.type === "key" ? Math.floor((clientY - box.top - row.y - laneTop(row)) / row.lane) : -1;
    const rank = { limited: 0, filing: 1, call: 1, wait: 2, retry: 2, rest: 3, disabled: 3, node: 4, life: 5 };
    let best = null, least = Infinity;
    const spans = stops(row);
    for (const span of spans) {
      const away = near(span, px, this.x);
      if (away > (span.start === span.end ? 7 : 3)) continue;
      const far = row.type === "key" && span.kind === "call" && row.lanes[lane] && !row.lanes[lane].includes(span) ? 6 : 0;
      const score = away + (rank[span.kind] || 0) * 4 + far;
      if (score < least) { least = score; best = span; }
    }
    return best || pause || null;
  }

  hover(event) {
    const row = this.rowAt(event.clientY);
    if (!row) return this.hideTip();
    this.showTip(row, this.spanAt(row, event.clientX, event.clientY), event.clientX, event.clientY);
  }

  click(event) {
    const row = this.rowAt(event.clientY);
    if (!row) return;
    this.state.active = row.id;
    this.state.span = -1;
    const span = this.spanAt(row, event.clientX, event.clientY);
    this.act(row, span);
  }

  act(row, span) {
    if (row.type === "group") {
      if (!this.state.expanded.delete(row.id)) this.state.expanded.add(row.id);
      this.drawTimeline();
    }
    else if (row.type === "item") this.open(row.item.label);
    else { this.drawRows(); if (span && span.item && this.items.has(span.item)) this.open(span.item); }
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.list.length) return;
    const at = this.list.findIndex((row) => row.id === this.state.active);
    const page = Math.max(1, Math.floor(this.body.clientHeight / 34) - 1);
    const moves = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, Home: 0, End: this.list.length - 1, PageDown: at + page, PageUp: at - page };
    const row = this.list[at];
    if (event.key in moves) {
      const next = this.list[Math.min(this.list.length - 1, Math.max(0, moves[event.key]))];
      this.state.active = next.id;
      this.state.span = -1;
      this.reveal(next);
      this.tipFor(next, null);
    } else if (row && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const spans = stops(row);
      if (!spans.length) return;
      const step = event.key === "ArrowRight" ? 1 : -1;
      this.state.span = Math.min(spans.length - 1, Math.max(0, this.state.span + step));
      this.tipFor(row, spans[this.state.span]);
    } else if (row && (event.key === "Enter" || event.key === " ")) {
      this.act(row, stops(row)[this.state.span]);
    } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") { this.state.window = null; this.refresh(); }
    else return;
    event.preventDefault();
  }

  reveal(row) {
    if (row.y < this.body.scrollTop) this.body.scrollTop = row.y;
    else if (row.y + row.height > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = row.y + row.height - this.body.clientHeight;
    this.drawRows();
  }

  tipFor(row, span) {
    const box = this.space.getBoundingClientRect();
    const px = span ? Math.min(this.x.width, Math.max(0, this.x((span.start + span.end) / 2))) : 8;
    this.showTip(row, span, box.left + this.label + px, box.top + row.y + row.height - 4);
  }

  showTip(row, span, clientX, clientY) {
    this.say(row.id, span ? spanLines(span, row) : rowLines(row), clientX, clientY);
  }

  // Shows a tooltip: a title, then [name, value] pairs.
  say(id, lines, clientX, clientY) {
    const text = JSON.stringify([id, lines]);
    if (this.tipText !== text) {
      this.tipText = text;
      this.tip.replaceChildren(h("strong", {}, lines[0]), h("dl", {}, lines.slice(1).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
    }
    this.tip.hidden = false;
    const width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    const left = clientX + 16 + width > innerWidth - 8 ? Math.max(8, clientX - width - 12) : clientX + 16;
    const top = clientY + 18 + height > innerHeight - 8 ? Math.max(8, clientY - height - 12) : clientY + 18;
    this.tip.style.left = Math.min(left, innerWidth - width - 8) + "px";
    this.tip.style.top = top + "px";
  }

  hideTip() {
    this.tip.hidden = true;
    this.tipText = null;
  }

  // Dragging over the parallelism chart zooms in on that time.
  dragging() {
    let from = null;
    const at = (event) => {
      const box = this.plotHead.querySelector("svg").getBoundingClientRect();
      return Math.min(this.x.width, Math.max(0, event.clientX - box.left));
    };
    this.plotHead.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !event.target.closest("svg") || event.pointerType === "touch") return;
      from = at(event);
      this.plotHead.setPointerCapture(event.pointerId);
    });
    this.plotHead.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = at(event);
      this.brush.setAttribute("x", Math.min(from, to));
      this.brush.setAttribute("width", Math.abs(to - from));
    });
    this.plotHead.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = at(event), [a, b] = [Math.min(from, to), Math.max(from, to)];
      from = null;
      if (b - a > 8) { this.state.window = [this.x.time(a), this.x.time(b)]; this.refresh(); }
      else this.brush.setAttribute("width", 0);
    });
  }

  zoom(factor) {
    const [from, to] = this.state.window || [0, this.ends];
    const row = this.list.find((one) => one.id === this.state.active);
    const span = row && stops(row)[this.state.span];
    const middle = span ? (span.start + span.end) / 2 : (from + to) / 2;
    const width = Math.max(0.02, (to - from) * factor);
    if (width >= this.ends) this.state.window = null;
    else {
      const start = Math.min(this.ends - width, Math.max(0, middle - width / 2));
      this.state.window = [start, start + width];
    }
    this.refresh();
  }

  panTo(part) {
    if (!this.state.window) return;
    const width = this.state.window[1] - this.state.window[0];
    const start = part * Math.max(0, this.ends - width);
    this.state.window = [start, start + width];
    this.drawTimeline();
  }
};
