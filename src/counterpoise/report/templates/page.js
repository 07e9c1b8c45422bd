"use strict";
// What every part of the page uses, and its small conveniences: theme, copying, picking a member, tooltips.
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const one = (selector, inside = document) => inside.querySelector(selector);
const parsed = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
};
const on = (kind, selector, act) => document.addEventListener(kind, (event) => {
  const target = event.target.closest && event.target.closest(selector);
  if (target) { act(target, event); }
});
document.documentElement.classList.add("scripted");

// Light and dark: the system decides until the reader does.
on("click", "#theme", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// Settings to the clipboard.
on("click", "button.copy", (button) => {
  const range = document.createRange();
  range.selectNodeContents(one("code", button.parentNode));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  if (document.execCommand("copy")) {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
});

// A member in the legend picks out its ribbons.
const pick = (item) => {
  const picked = item.getAttribute("aria-pressed") !== "true", group = item.closest("details");
  all(".legend li", group).forEach((other) => other.setAttribute("aria-pressed", String(picked && other === item)));
  group.classList.toggle("picked", picked);
  all("svg.life rect[class^=m]", group).forEach((part) => {
    part.classList.toggle("hot", picked && part.classList.contains("m" + item.dataset.slot));
  });
};
on("click", ".legend li[data-slot]", pick);
on("keydown", ".legend li[data-slot]", (item, event) => {
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(item); }
});

// What a drawing's title says, at once and under a finger too.
const tip = one("#tip");
let hovered = null;
const hideTip = () => {
  if (hovered) { hovered.title.textContent = hovered.text; hovered = null; }
  tip.hidden = true;
};
document.addEventListener("pointerover", (event) => {
  const part = event.target.closest && event.target.closest("svg.life rect, svg.life g");
  const title = part && one("title", part);
  if (hovered && title === hovered.title) { return; }
  hideTip();
  if (!title) { return; }
  const strip = part.closest("g[data-p]");
  hovered = { title: title, text: title.textContent };
  tip.textContent = (strip ? strip.dataset.p + ": " : "") + hovered.text;
  title.textContent = "";
  tip.hidden = false;
});
document.addEventListener("pointermove", (event) => {
  if (tip.hidden) { return; }
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  let y = event.clientY + 18;
  if (y + tip.offsetHeight > innerHeight - 8) { y = event.clientY - tip.offsetHeight - 12; }
  tip.style.left = Math.max(x, 8) + "px";
  tip.style.top = y + "px";
});
document.addEventListener("scroll", hideTip, true);
