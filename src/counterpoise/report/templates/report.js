"use strict";
(function () {
  var root = document.documentElement;
  root.classList.add("scripted");
  var all = function (selector, inside) { return Array.prototype.slice.call((inside || document).querySelectorAll(selector)); };
  var one = function (selector) { return document.querySelector(selector); };

  // Light and dark: the system decides until the reader does.
  one("#theme").addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Findings by severity.
  all("button[data-severity]").forEach(function (button) {
    button.addEventListener("click", function () {
      var on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      all("li.finding[data-severity='" + button.dataset.severity + "']").forEach(function (card) { card.hidden = !on; });
      all("details.by-group").forEach(function (card) { card.hidden = !card.querySelector("li.finding:not([hidden])"); });
    });
  });

  // The table of groups: filter by words, sort by column.
  var grid = one("#grid"), body = grid.tBodies[0], filter = one("#filter"), matches = one("#matches");
  var rows = all("tr", body);
  filter.addEventListener("input", function () {
    var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
    rows.forEach(function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
      if (!row.hidden) { shown += 1; }
    });
    matches.textContent = words.length ? shown.toLocaleString("en") + " of " + rows.length.toLocaleString("en") : "";
  });
  var value = function (row, column) {
    var cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim().toLowerCase() : Number(cell.dataset.v);
  };
  all("thead th", grid).forEach(function (head, column) {
    if (!rows.length || rows[0].cells[column].classList.contains("spark")) { return; }
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () {
      var first = head.classList.contains("n") ? "descending" : "ascending";
      var order = head.getAttribute("aria-sort") === first ? (first === "ascending" ? "descending" : "ascending") : first;
      all("thead th", grid).forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", order);
      var sign = order === "ascending" ? 1 : -1;
      rows.map(function (row, index) { return { row: row, value: value(row, column), index: index }; })
        .sort(function (a, b) { return a.value < b.value ? -sign : a.value > b.value ? sign : a.index - b.index; })
        .forEach(function (item) { body.appendChild(item.row); });
    });
  });

  // Sections: open all, close all, open the one that a link names.
  var groups = all("details.group");
  var setAll = function (open) { return function () { groups.forEach(function (group) { group.open = open; }); }; };
  one("#unfold").addEventListener("click", setAll(true));
  one("#fold").addEventListener("click", setAll(false));
  addEventListener("beforeprint", setAll(true));
  var follow = function () {
    var target = document.getElementById(location.hash.slice(1));
    var fold = target && (target.querySelector("li > details") || target.closest("details"));
    if (fold) { fold.open = true; fold.hidden = target.hidden = false; target.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();

  // A member in the legend picks out its ribbons.
  all(".legend li[data-slot]").forEach(function (item) {
    item.tabIndex = 0;
    item.setAttribute("role", "button");
    item.setAttribute("aria-pressed", "false");
    var toggle = function () {
      var on = item.getAttribute("aria-pressed") !== "true", group = item.closest("details");
      all(".legend li", group).forEach(function (other) { other.setAttribute("aria-pressed", String(on && other === item)); });
      group.classList.toggle("picked", on);
      all("svg.life rect[class^=m]", group).forEach(function (part) {
        part.classList.toggle("hot", on && part.classList.contains("m" + item.dataset.slot));
      });
    };
    item.addEventListener("click", toggle);
    item.addEventListener("keydown", function (event) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
    });
  });

  // Settings to the clipboard.
  all("button.copy").forEach(function (button) {
    button.addEventListener("click", function () {
      var code = button.parentNode.querySelector("code");
      var done = function () { button.textContent = "Copied"; setTimeout(function () { button.textContent = "Copy"; }, 1500); };
      var range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      if (document.execCommand("copy")) { done(); }
    });
  });

  // What a drawing's title says, at once and under a finger too.
  var tip = one("#tip"), told = null;
  var hush = function () {
    if (told) { told.title.textContent = told.text; told = null; }
    tip.hidden = true;
  };
  document.addEventListener("pointerover", function (event) {
    var part = event.target.closest ? event.target.closest("svg.life rect, svg.life g") : null;
    var title = part && part.querySelector("title");
    if (told && title === told.title) { return; }
    hush();
    if (!title) { return; }
    told = { title: title, text: title.textContent };
    tip.textContent = told.text;
    title.textContent = "";
    tip.hidden = false;
  });
  document.addEventListener("pointermove", function (event) {
    if (tip.hidden) { return; }
    var x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), y = event.clientY + 18;
    if (y + tip.offsetHeight > innerHeight - 8) { y = event.clientY - tip.offsetHeight - 12; }
    tip.style.left = Math.max(x, 8) + "px";
    tip.style.top = y + "px";
  });
  document.addEventListener("scroll", hush, true);
})();
