// The table of items as CSV, for a spreadsheet.

const CSV_COLUMNS = [
  "label", "title", "status", "verdict", "reviews", "attempts", "seconds", "waited_seconds", "tokens_in", "tokens_cached",
  "tokens_out", "cost_usd", "error", "reason", "output",
];

// A spreadsheet takes a text that begins like this for a formula and runs it.
const FORMULA = /^[=+\-@\t\r]/;

function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? "'" + value : String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csvOf(items) {
  const rows = items.map((item) => CSV_COLUMNS.map((name) => csvCell(item[name])).join(","));
  return [CSV_COLUMNS.join(","), ...rows].join("\r\n") + "\r\n";
}

function csvButton(page) {
  return h("button", { type: "button", class: "ar-button", title: "The items shown, as a table for a spreadsheet", onclick: () => {
    const text = "\ufeff" + csvOf(page.visible); // the mark tells a spreadsheet that it is UTF-8
    const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    h("a", { href: address, download: "agentos-" + page.data.run.run_id + ".csv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  } }, "CSV");
}
