// The headline of a run: how it ended or how far it is, how it was started, and the main figures.

// Finished items first: what is not done yet must not look done.
const DONE_FIRST = ["approved", "skipped", "needs_revision", "discuss", "failed", "timed_out", "interrupted", "paused", "cut_off", "running", "pending"];

function spentWords(spent, budget) {
  return moneyOf(spent, budget) + (budget === null ? "" : " of " + moneyOf(budget, budget));
}

const Headline = (Base) => class extends Needs(Time(Base)) {
  // The elements above the filter.
  top() {
    this.headMain = h("div", { class: "ar-contents" });
    this.progress = h("p", { class: "ar-progress", hidden: true });
    this.started = h("div", { class: "ar-started", hidden: true });
    this.head = h("header", { class: "ar-head" }, this.headMain, this.progress, this.started);
    this.notice = h("p", { class: "ar-notice", role: "status", hidden: true });
    this.needs = h("section", { class: "ar-panel ar-needs", "aria-label": "Needs you" });
    this.stats = h("dl", { class: "ar-stats" });
    this.time = h("section", { class: "ar-panel ar-time", "aria-labelledby": "ar-time-title", hidden: true });
    this.allNeeds = new Set(); // the lists that are shown whole
    const timer = setInterval(() => {
      if (this.root.isConnected) tellAgo(this.root); else clearInterval(timer);
    }, 20_000);
    return [this.head, this.notice, this.needs, this.stats, this.time];
  }

  drawTop() {
    const { run, trend, progress, time, parallelism, needs_you: needs } = this.data;
    this.section("head", [run.run_id, run.workflow, run.live, run.cut_off, run.exit_code, run.stopped, run.expected, run.totals, run.started_at, run.parallel], () => this.drawHead());
    this.section("progress", [run.live, progress, run.paused === null], () => this.drawProgress());
    this.section("started", [run.begun, progress.spent], () => this.drawStarted());
    this.section("notice", run.paused, () => this.drawNotice());
    this.section("needs", [needs, run.live, run.stopped, [...this.allNeeds], needs.questions.map((one) => this.decided(one))], () => this.drawNeeds());
    this.section("stats", [run, trend, parallelism.mean_calls, time, progress], () => this.drawStats());
    this.section("time", [time, run.live], () => this.drawTime());
  }

  drawHead() {
    const { run } = this.data;
    const total = run.expected || this.data.items.length;
    const good = run.totals.approved || 0, skipped = run.totals.skipped || 0;
    const ended = run.live ? badge("running", "live")
      : run.cut_off ? badge("cut_off", "cut off: the run was killed. Run the same command to resume.")
      : run.exit_code === null ? null
      : badge(run.exit_code === 0 ? "approved" : run.exit_code === 1 ? "failed" : run.exit_code === 3 ? "needs_revision" : "paused",
          "exit " + run.exit_code + (run.meaning ? " · " + run.meaning : ""));
    const bar = s("svg", { class: "ar-share", viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    let at = 0;
    for (const name of [...DONE_FIRST, ...Object.keys(run.totals).filter((one) => !DONE_FIRST.includes(one))]) {
      const part = (run.totals[name] || 0) / Math.max(1, total) * 1000;
      if (part) bar.append(s("rect", { x: at, y: 0, width: Math.max(1, part - 3), height: 8, class: "ar-fill ar-s-" + name }));
      at += part;
    }
    const title = !total && run.live ? "Starting" : skipped && skipped === total ? "Nothing to do: " + counted(total, "item") + " skipped" : good + " of " + counted(total - skipped, "item") + " approved";
    this.headMain.replaceChildren(...[
      h("div", { class: "ar-title" },
        h("p", { class: "ar-over" }, "agentos", h("span", { "aria-hidden": "true" }, " / "), run.workflow, h("span", { "aria-hidden": "true" }, " / "), h("code", {}, run.run_id)),
        h("h1", {}, title),
        h("p", { class: "ar-muted" }, this.startWords())),
      h("div", { class: "ar-ended" }, ended), bar]);
  }

  startWords() {
    const { run } = this.data;
    const parts = [run.started_at && !isNaN(new Date(run.started_at)) ? when(run.started_at) : null, run.parallel ? run.parallel + " in parallel" : null,
      run.stopped ? "stopped: " + run.stopped.replace(/_/g, " ") : null].filter(Boolean);
    return parts.map((part, n) => [n ? " · " : "", part]);
  }

  // How far a run is. A run that is over says so in the figures below.
  drawProgress() {
    const { progress, run } = this.data;
    this.progress.hidden = !run.live;
    if (!run.live) return;
    const cost = progress.spent === null ? null : spentWords(progress.spent, progress.budget) + (run.pretended ? " (simulated)" : "");
    const parts = [progress.done + " of " + progress.total + " done", progress.running ? progress.running + " running" : null, progress.queued ? progress.queued + " in the queue" : null,
      cost, progress.calls_per_minute === null ? null : (progress.calls_per_minute < 10 ? progress.calls_per_minute.toFixed(1) : Math.round(progress.calls_per_minute)) + " calls per minute",
      (progress.left_words ? progress.left_words + " left" : null) || (run.paused ? null : "no estimate yet")].filter(Boolean);
    this.progress.replaceChildren(...parts.flatMap((part, n) => [...(n ? [h("span", { "aria-hidden": "true" }, " · ")] : []), h("span", {}, part)]));
  }

  drawStarted() {
    const { begun } = this.data.run;
    this.started.hidden = !begun;
    if (!begun) return;
    const lasts = (value) => seconds(value).replace(/\.0 s$| 00 (s|min)$/, (end) => (end === ".0 s" ? " s" : ""));
    const limits = [begun.timeout ? lasts(begun.timeout) + " per item" : null, begun.run_timeout ? lasts(begun.run_timeout) + " for the run" : null, begun.max_iterations ? counted(begun.max_iterations, "review") : null,
      begun.max_wait ? lasts(begun.max_wait) + " of waiting" : begun.max_wait === 0 ? "no waiting" : null].filter(Boolean);
    const fact = (name, value) => (value ? h("span", {}, h("span", { class: "ar-fact" }, name + " "), value) : null);
    this.started.replaceChildren(
      ...(begun.command ? [h("p", { class: "ar-command" }, h("code", {}, begun.command), copyButton(begun.command, "command"))] : []),
      h("p", { class: "ar-begun" }, [
        begun.drafter && begun.drafter === begun.reviewer ? fact("models", begun.drafter) : [fact("drafter", begun.drafter), fact("reviewer", begun.reviewer)],
        fact("budget", this.budgetWords(begun)), fact("limits", limits.join(", ")),
        fact("agentos", begun.version), fact("commit", begun.commit ? h("code", {}, begun.commit) : null)]));
  }

  budgetWords(begun) {
    const { progress } = this.data;
    const item = begun.item_budget === null ? null : moneyOf(begun.item_budget, begun.item_budget) + " per item";
    const amount = (value) => moneyOf(value, begun.budget);
    if (begun.budget === null) return item || (begun.version ? "none" : null); // an old record does not say
    const left = progress.spent === null ? null : Math.max(0, begun.budget - progress.spent);
    return [amount(begun.budget) + (left === null ? "" : ", " + amount(left) + " left") + (progress.carried ? " (" + amount(progress.carried) + " spent by earlier runs)" : ""), item].filter(Boolean).join("; ");
  }

  drawNotice() {
    const { paused } = this.data.run;
    this.notice.hidden = !paused;
    const left = paused && paused.seconds_left;
    if (paused) this.notice.replaceChildren(statusIcon("paused"), h("span", {}, h("b", {}, "Paused: "), paused.reason,
      left === null ? "" : left > 0 ? "; resuming in about " + seconds(left) : "; resuming any moment"));
  }

  drawStats() {
    const { run, trend, parallelism, time, progress } = this.data;
    const stat = (name, value, note, meaning, extra) => h("div", { class: "ar-stat", title: meaning }, h("dt", {}, h("span", {}, name), extra), h("dd", {}, h("span", { class: "ar-value" }, value), note ? h("span", { class: "ar-note" }, note) : null));
    const amount = (value) => moneyOf(value, progress.budget);
    const cost = run.cost_usd === null && run.cost_known_usd > 0 ? "≥ " + amount(run.cost_known_usd) : amount(run.cost_usd);
    const spent = (kinds) => time.shares.filter((share) => kinds(share.kind)).reduce((sum, share) => sum + share.seconds, 0);
    const working = spent((kind) => ["calls", "rest"].includes(kind)), waited = spent((kind) => !["calls", "rest"].includes(kind));
    const onAverage = (sum) => (sum / Math.max(time.at, 0.001)).toFixed(1);
    const over = run.coordination_overhead_percent;
    const budget = progress.budget === null ? null : "of " + amount(progress.budget) + " budget" + (progress.carried ? "; " + amount(progress.carried) + " spent before" : "");
    this.stats.replaceChildren(
      stat("Wall time", seconds(run.wall_seconds), run.live ? "so far" : "from start to end", "How long the run took on the clock."),
      stat("Workers at work", onAverage(working), (run.parallel ? "of " + run.parallel + " on average" : "on average") + (waited / Math.max(time.at, 0.001) >= 0.05 ? "; " + onAverage(waited) + " waiting" : ""), "How many workers were in a call or busy themselves, on average. A worker that waits is not at work."),
      stat("Calls in flight", parallelism.mean_calls.toFixed(1), "on average", "How many calls were at the models at the same time, on average."),
      stat("Worker time waited", time.total ? Math.round(waited / time.total * 100) + " %" : "–", waited >= 0.05 ? seconds(waited) + ", all workers added up" : null, "The part of the workers' time that went into waiting: for keys, overloaded models, providers, the budget or a retry. Workers wait side by side, so the sum can be longer than the run took."),
      stat("Overhead", percent(over), over === null || over === undefined ? null : seconds(run.wall_seconds * over / (100 + over)) + " longer than ideal", "How much longer the run took than a scheduler without any start-up or idle time would have needed for the same items.", spark(trend.map((one) => one.overhead), "Overhead of the last runs")),
      stat("Tokens", tokens(run.tokens_in + run.tokens_out), tokensIn(run) + " in, " + tokensOut(run) + " out", "What all calls sent and received."),
      stat("Cost", cost, [budget, run.pretended ? "simulated (mock)" : null, run.cost_usd === null && run.cost_known_usd > 0 ? "some prices unknown" : null].filter(Boolean).join(", "), "What the calls of this run cost.", spark(trend.map((one) => one.cost_usd), "Cost of the last runs")));
  }

  drawChips() {
    const { totals } = this.data.run;
    const names = [...STATUS_ORDER.filter((name) => totals[name]), ...Object.keys(totals).filter((name) => !STATUSES[name])];
    this.chips.replaceChildren(...names.map((name) => h("button", {
      class: "ar-chip ar-s-" + name, type: "button", "aria-pressed": String(this.state.statuses.has(name)), "data-focus": "chip-" + name,
      onclick: () => {
        if (!this.state.statuses.delete(name)) this.state.statuses.add(name);
        this.body.scrollTop = 0; this.refresh();
      },
    }, statusIcon(name), h("b", {}, totals[name]), " " + statusOf(name).word)),
    ...(this.state.statuses.size ? [h("button", { class: "ar-link", type: "button", "data-focus": "chip-all", onclick: () => { this.state.statuses.clear(); this.refresh(); } }, "show all")] : []));
  }
};
