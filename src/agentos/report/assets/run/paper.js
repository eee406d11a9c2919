// Printing: everything that scrolls on a screen is laid out in full, at the width of a sheet of paper.

const Paper = (Base) => class extends Base {
  // The timeline is drawn in pixels, so it must know the width of the sheet before the browser prints it.
  toPaper(on) {
    this.root.classList.toggle("ar-paper", on);
    this.hideTip();
    this.expandAll(on);
    this.drawNeeds();
    this.drawTimeline();
  }
};
