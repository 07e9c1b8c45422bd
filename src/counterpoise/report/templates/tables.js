// Tables: sorted by a column, laid out a part at a time, and as CSV.
const UNITS = { ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
// A sheet is a table with its buttons. Rows beyond the first are text in a <noscript> until somebody asks for them.
class Sheet {
  static of(box) { return (box.sheet = box.sheet || new Sheet(box)); }

  constructor(box) {
    const rest = one("noscript.rest", box), kept = rest ? parsed(rest.textContent) : null;
    if (kept && !one("table", box)) { rest.replaceWith(one("table", kept)); } else if (rest) { rest.remove(); }
    this.box = box;
    this.table = one("table", box);
    this.more = one("button.more", box);
    this.step = this.limit = Number(box.dataset.rows) || Infinity;
    this.rows = [...this.table.tBodies[0].rows, ...(kept ? all("tbody tr", kept) : [])];
    this.rows.forEach((row, index) => { row.index = index; });
    this.heads = [...this.table.tHead.rows[0].cells];
    this.keep = () => true;
    this.by("");
  }

  // The order is a column's number or data-k, with "-" in front for the largest first; "" for that of the page.
  by(order) {
    const name = order.replace(/^-/, ""), sign = order.startsWith("-") ? -1 : 1;
    const column = this.heads.findIndex((head, index) => name === (head.dataset.k || String(index)));
    const key = new Map();
    const before = (a, b) => (key.get(a) < key.get(b) ? -sign : key.get(a) > key.get(b) ? sign : a.index - b.index);
    this.order = column < 0 ? "" : order;
    this.heads.forEach((head, index) => {
      if (index === column) { head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending"); }
      else { head.removeAttribute("aria-sort"); }
    });
    const numbers = column >= 0 && this.heads[column].classList.contains("n");
    this.rows.forEach((row) => key.set(row, column < 0 ? 0 : Sheet.value(row.cells[column], numbers)));
    this.rows.sort(before);
  }

  // The order that a click on this head asks for: numbers begin with the largest.
  after(head) {
    const name = head.dataset.k || String(this.heads.indexOf(head));
    const turns = head.classList.contains("n") ? ["-" + name, name] : [name, "-" + name];
    return this.order === turns[0] ? turns[1] : turns[0];
  }

  draw() {
    this.kept = this.rows.filter(this.keep);
    this.table.tBodies[0].replaceChildren(...this.kept.slice(0, this.limit));
    const left = this.kept.length - this.limit;
    if (this.more) {
      this.more.hidden = !(left > 0);
      this.more.textContent = "Show " + Math.min(left, this.step).toLocaleString("en") + " more of " + this.kept.length.toLocaleString("en");
    }
  }

  // A cell as a value: a number (-1 if it is not known) or text.
  static value(cell, number) {
    const known = cell.dataset.order ?? cell.dataset.v;
    if (!number) { return known === undefined ? Sheet.text(cell).toLowerCase() : known; }
    return known === "" ? -1 : Number(known ?? Sheet.number(Sheet.text(cell)));
  }

  // A number as the page writes it: 1,234; 12.3 k; 2 of 3; 5 min 20 s; -1 if there is none.
  static number(text) {
    const parts = [...text.replace(/,/g, "").matchAll(/(\d[\d.]*)(?: (ms|s|min|h|d|k|M|G|T)\b)?/g)];
    const counted = parts.some(([, , unit]) => unit) ? parts : parts.slice(0, 1);
    return parts.length ? counted.reduce((sum, [, digits, unit]) => sum + digits * (UNITS[unit] || 1), 0) : -1;
  }

  static text(cell) {
    const said = one("bdi", cell) || (one("small", cell) ? cell.firstChild : cell);
    return said.textContent.trim();
  }

  csv() {
    const shown = this.heads.filter((head) => !head.classList.contains("spark"));
    const names = shown.map((head) => head.dataset.k || head.textContent);
    const more = [...new Set(this.rows.flatMap((row) => Object.keys(row.dataset)))].filter((name) => name.length > 1 && !names.includes(name));
    const lines = [[...names, ...more]];
    this.rows.filter(this.keep).forEach((row) => {
      const cells = shown.map((head) => row.cells[this.heads.indexOf(head)]);
      lines.push([...cells.map((cell) => cell.dataset.v ?? Sheet.text(cell)), ...more.map((name) => row.dataset[name] || "")]);
    });
    return lines.map((line) => line.map(Sheet.quoted).join(",") + "\r\n").join("");
  }

  // A spreadsheet must not take a name for a formula.
  static quoted(text) {
    const safe = /^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? "'" + text : text;
    return /[",\r\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }
}

// Every head of a table becomes a button; a part of the page is prepared when it is laid out.
const prepare = (part) => {
  all(".sheet thead th:not(.spark)", part).forEach((head) => {
    if (one("button", head)) { return; }
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
  });
  all(".legend li[data-slot]", part).forEach((item) => {
    item.tabIndex = 0;
    item.setAttribute("role", "button");
    item.setAttribute("aria-pressed", "false");
  });
};

on("click", ".sheet:not(#group-sheet) thead button", (button) => {
  const sheet = Sheet.of(button.closest(".sheet"));
  sheet.by(sheet.after(button.parentNode));
  sheet.draw();
});
on("click", "button.more", (button) => {
  const sheet = Sheet.of(button.closest(".sheet"));
  sheet.limit += sheet.step;
  sheet.draw();
});
on("click", "button.csv", (button) => {
  const box = button.closest(".sheet"), link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([Sheet.of(box).csv()], { type: "text/csv" }));
  link.download = box.dataset.name + ".csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
});
