// The documents of an item: in its panel, and at full width under their own address.

const KINDS = { issue: "Issue", brief: "Brief", draft: "Draft", verdict: "Review", final: "Document as approved", edited: "Your edited document", replaced: "Replaced document" };
const PLAIN_NODES = new Set(["p", "ul", "ol", "li", "blockquote", "em", "strong", "s", "hr", "br", "code", "thead", "tbody", "tr", "th", "td", "span"]);

function documentName(one) {
  if (one.file.includes("/")) return "Document";
  const kind = one.file.replace(/^\d+-|\.md$/g, "");
  return (KINDS[kind] || kind) + (one.number ? " " + one.number : "");
}

function fileSize(bytes) {
  return bytes < 1000 ? counted(bytes, "byte") : (bytes / 1000).toFixed(bytes < 1e4 ? 1 : 0) + " kB";
}

// Turns the nodes of markdown_tree.py into elements. Only these tags exist; every text is set as text.
function markdown(node, top) {
  if (typeof node === "string") return node;
  const [tag, ...rest] = node;
  const inner = () => rest.map((one) => markdown(one, top));
  if (/^h[1-6]$/.test(tag)) return h("h" + Math.min(6, Number(tag[1]) + top), { class: "ar-md-" + tag }, inner());
  if (tag === "a") {
    const [href, ...words] = rest;
    if (!/^https?:\/\//i.test(href)) return h("span", {}, words.map((one) => markdown(one, top)));
    return h("a", { href, rel: "noopener noreferrer", target: "_blank", title: href }, words.map((one) => markdown(one, top)));
  }
  if (tag === "img") return h("span", { class: "ar-md-picture" }, "[picture: " + (rest[0] || "no description") + "]");
  if (tag === "pre") return h("pre", { class: "ar-md-code", tabindex: "0", role: "group", "aria-label": "Code" }, rest[0]);
  if (tag === "table") return h("div", { class: "ar-scroll", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", { class: "ar-table" }, inner()));
  return h(PLAIN_NODES.has(tag) ? tag : "span", {}, inner());
}

const Documents = (Base) => class extends Base {
  documentsOf(item) {
    return item.documents || [];
  }

  pathOf(item, one) {
    return one.file.includes("/") ? one.file : item.trail + "/" + one.file;
  }

  // What a person wants to read first: the document, or the latest draft.
  mainDocument(item) {
    const all = this.documentsOf(item);
    return all.findLast((one) => one.file.includes("/")) || all.findLast((one) => one.file.endsWith("-final.md")) ||
      all.findLast((one) => one.file.endsWith("-draft.md")) || all.at(-1);
  }

  documentFor(item, kind, number) {
    return this.documentsOf(item).findLast((one) => one.number === number && one.file.endsWith("-" + kind + ".md"));
  }

  // The text of a document: from the page, else from options.document(item, file), else null.
  async documentText(item, one) {
    const kept = ((this.data.documents || {}).texts || {})[this.pathOf(item, one)];
    if (kept) return kept;
    return this.options.document ? this.options.document(item, one.file) : null;
  }

  documentLink(item, one) {
    const { base } = this.data.documents || {};
    if (!base) return h("code", {}, this.pathOf(item, one));
    const href = [base, ...this.pathOf(item, one).split("/").map(encodeURIComponent)].join("/");
    return h("a", { href, rel: "noopener" }, this.pathOf(item, one));
  }

  // An element that fills itself with the text; what was read once is shown again without waiting.
  documentBody(item, one, top) {
    const body = h("div", { class: "ar-md", tabindex: "0", role: "group", "aria-label": documentName(one) });
    const name = item.label + " " + one.file + " " + one.size;
    const show = (text) => {
      if (text) body.replaceChildren(...text.nodes.map((node) => markdown(node, top)), ...(text.cut ? [h("p", { class: "ar-muted" }, "The rest is left out: see ", this.documentLink(item, one), ".")] : []));
      else body.replaceChildren(h("p", { class: "ar-muted" }, "Not in this page, to keep it small: see ", this.documentLink(item, one), "."));
    };
    if (this.texts.has(name)) show(this.texts.get(name));
    else {
      body.append(h("p", { class: "ar-muted" }, "Loading…"));
      this.documentText(item, one).then((text) => { this.texts.set(name, text); show(text); },
        (error) => body.replaceChildren(h("p", { class: "ar-muted", role: "alert" }, error.message)));
    }
    return body;
  }

  // A document that opens in the panel.
  documentPart(item, one, text, top = 4) {
    if (!one) return null;
    return h("details", { class: "ar-document", "data-name": "document-" + one.file, ontoggle: (event) => {
      const node = event.target;
      if (node.open && !node.querySelector(".ar-md")) node.append(h("p", { class: "ar-document-tools" }, this.openButton(item, one, "Open full width"), h("span", { class: "ar-muted" }, this.documentLink(item, one))), this.documentBody(item, one, top));
    } }, h("summary", {}, text, " ", h("span", { class: "ar-muted" }, fileSize(one.size))));
  }

  openButton(item, one, text) {
    return h("button", { type: "button", class: "ar-link", "data-focus": "open-" + one.file, onclick: () => this.open(item.label, one.file) }, text);
  }

  documentsPart(item) {
    const all = this.documentsOf(item);
    if (!all.length) return null;
    const main = this.mainDocument(item);
    return h("section", { class: "ar-documents" }, h("h3", {}, "Documents"),
      this.documentPart(item, main, "Read " + (/^(Draft|Review)/.test(documentName(main)) ? "the latest: " : "") + documentName(main).toLowerCase(), 3),
      h("ul", { class: "ar-document-list", "aria-label": "All documents" }, all.map((one) => h("li", {}, this.openButton(item, one, documentName(one))))));
  }

  // The panel at full width, with one document.
  drawReader(item, one) {
    const all = this.documentsOf(item), at = all.indexOf(one);
    const step = (by, text, name) => h("button", { class: "ar-button ar-square", type: "button", "aria-label": name, "data-focus": "document" + by, disabled: !all[at + by], onclick: () => this.open(item.label, all[at + by].file) }, text);
    attribute(this.panel, "aria-label", documentName(one) + " of " + item.label);
    this.panel.replaceChildren(
      h("div", { class: "ar-detail-head" },
        h("div", {}, h("h2", {}, documentName(one)), h("p", { class: "ar-muted" }, item.label, item.title ? " · " + item.title : "", " · ", this.documentLink(item, one))),
        h("div", { class: "ar-detail-tools" },
          h("button", { class: "ar-button", type: "button", "data-focus": "back", onclick: () => this.open(item.label) }, "Back to " + item.label),
          step(-1, "↑", "Previous document"), step(1, "↓", "Next document"),
          h("button", { class: "ar-button ar-square", type: "button", "aria-label": "Close", "data-focus": "close", onclick: () => this.close() }, "×"))),
      this.documentBody(item, one, 2));
  }
};
