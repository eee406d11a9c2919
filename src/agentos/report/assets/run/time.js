// Where the time of the workers went, as one bar.

function shareLines(share) {
  return [share.words + ": " + shareWords(share), ["time", seconds(share.seconds) + " of all workers together"], ["what", share.meaning]];
}

function shareWords(share) {
  return share.percent ? share.percent + " %" : "less than 1 %";
}

const Time = (Base) => class extends Base {
  drawTime() {
    const { time, run } = this.data;
    const shares = time.shares.filter((share) => share.seconds > 0);
    this.time.hidden = !shares.length;
    if (!shares.length) return;
    const tip = (share) => ({
      onpointermove: (event) => this.say("time-" + share.kind, shareLines(share), event.clientX, event.clientY),
      onpointerleave: () => this.hideTip(),
    });
    const bar = h("div", { class: "ar-shares", "aria-hidden": "true" }, shares.map((share) => {
      const part = h("span", { class: "ar-t ar-t-" + share.kind, ...tip(share) });
      part.style.flexGrow = String(share.seconds / time.total);
      return part;
    }));
    this.time.replaceChildren(
      h("div", { class: "ar-bar" }, h("h2", { id: "ar-time-title" }, "Where the time went"),
        h("span", { class: "ar-muted", title: "Workers run side by side, so their time together can be more than the run took." }, seconds(time.total) + " of worker time" + (run.live ? " so far" : ""))),
      bar,
      h("ul", { class: "ar-share-list" }, shares.map((share) => h("li", {
        tabindex: "0", "data-focus": "time-" + share.kind, "aria-label": share.words + ": " + shareWords(share) + ", " + seconds(share.seconds) + ". " + share.meaning, ...tip(share),
        onfocus: (event) => { const box = event.target.getBoundingClientRect(); this.say("time-" + share.kind, shareLines(share), box.left, box.bottom - 14); },
        onblur: () => this.hideTip(),
      }, h("span", { class: "ar-t ar-t-" + share.kind, "aria-hidden": "true" }), h("b", {}, shareWords(share)), " " + share.words))));
  }
};
