// Time in a run in progress: between two updates, the page itself lets open spans grow and countdowns fall.

const TICK = 1000; // milliseconds
const AFTER_UPDATE = 1300; // longer than a tick: while updates come each second, they move the time themselves

const Clock = (Base) => class extends Base {
  // Copies what grows, so that the given data stays as it is, and starts to count.
  startClock(data) {
    this.stopClock();
    if (!data.run.live) return data;
    const now = data.run.wall_seconds;
    const growing = [];
    const grow = (span) => {
      const until = span.open ? Infinity : span.kind === "rest" ? span.start + span.seconds : span.end;
      if (until <= now) return span;
      const copy = Object.assign({}, span);
      growing.push((at) => { copy.end = Math.max(copy.start, Math.min(until, at)); });
      return copy;
    };
    const count = (waiting) => {
      if (!waiting || waiting.seconds_left === null) return waiting;
      const copy = Object.assign({}, waiting);
      growing.push((at) => { copy.seconds_left = Math.max(0, waiting.seconds_left - (at - now)); });
      return copy;
    };
    const item = (one) => {
      if (one.status !== "running" && !one.spans.some((span) => span.open)) return one;
      const copy = Object.assign({}, one, { spans: one.spans.map(grow), waiting: count(one.waiting) });
      if (one.status === "running") growing.push((at) => {
        copy.seconds = one.seconds + at - now;
        if (one.waiting && one.waiting.of !== "backoff") copy.waited_seconds = one.waited_seconds + at - now;
      });
      return copy;
    };
    const steps = (series) => {
      const last = series.at(-1);
      if (!last || last[0] < now - 0.01) return series;
      const end = [...last];
      growing.push((at) => { end[0] = at; });
      return [...series.slice(0, -1), end];
    };
    const run = Object.assign({}, data.run, { paused: count(data.run.paused) });
    growing.push((at) => { run.wall_seconds = at; });
    this.growing = growing;
    this.readAt = { wall: now, clock: performance.now() };
    this.timer = setTimeout(() => this.tick(), AFTER_UPDATE);
    const keys = data.keys.map((key) => Object.assign({}, key, { spans: key.spans.filter((span) => span.kind !== "call").map(grow) }));
    const { parallelism } = data;
    return Object.assign({}, data, {
      run, keys, items: data.items.map(item), marks: data.marks.map(grow),
      parallelism: Object.assign({}, parallelism, { items: steps(parallelism.items), calls: steps(parallelism.calls) }),
    });
  }

  stopClock() {
    clearTimeout(this.timer);
  }

  tick() {
    this.timer = setTimeout(() => this.tick(), TICK);
    if (document.hidden) return;
    const now = this.readAt.wall + (performance.now() - this.readAt.clock) / 1000;
    for (const grow of this.growing) grow(now);
    callsOfKeys(this.data);
    this.measure();
    this.refresh();
    this.tickDetail();
  }

  // The panel stays as it is, with what was selected and scrolled in it; only its times move.
  tickDetail() {
    const item = this.state.open && this.items.get(this.state.open);
    if (!item || item.status !== "running") return;
    const set = (name, text) => {
      const node = this.panel.querySelector("[data-tick=" + name + "]");
      if (node) node.textContent = visible(text);
    };
    set("time", seconds(item.seconds));
    set("waited", seconds(item.waited_seconds));
    set("waiting", waitingFor(item));
    const lives = item.spans.filter((span) => span.kind === "life");
    const drawn = this.panel.querySelector(".ar-mini");
    if (drawn && lives.length) drawn.replaceWith(this.miniature(item, lives));
  }
};
