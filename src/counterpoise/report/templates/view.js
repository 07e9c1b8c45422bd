// The view: what the filters ask for, and the place. It is the address: #PLACE?text=...&kind=...&sort=-stopped
const view = { place: "" };
const inputs = all("#view [name]");
const groups = () => Sheet.of(one("#group-sheet"));

const address = (place) => {
  const asked = new URLSearchParams();
  [...inputs.map((input) => input.name), "sort"].forEach((name) => { if (view[name]) { asked.set(name, view[name]); } });
  return "#" + place + (asked.size ? "?" + asked : "");
};

const read = () => {
  const [place, asked] = location.hash.slice(1).split(/\?(.*)/s), wanted = new URLSearchParams(asked || "");
  view.place = decodeURIComponent(place);
  view.sort = wanted.get("sort") || "";
  inputs.forEach((input) => { view[input.name] = input.value = wanted.get(input.name) || ""; });
};

// What is packed: deflated text in base64.
const unpack = (packed) => {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
};

// All words of a row, and the topics and client ids of its group.
let terms = null;
const words = (row) => {
  row.words = row.words || (row.textContent + " " + row.dataset.state + " " + terms[row.index]).toLowerCase();
  return row.words;
};
const found = (row) => (row.dataset.kinds || "").split(" ").filter(Boolean).map((text) => {
  const [kind, severity, rank] = text.split(":");
  return { kind: kind, severity: severity, rank: rank };
});
const asked = (finding) => (!view.kind || finding.kind === view.kind) && (!view.severity || finding.severity === view.severity);
const among = (wanted, list) => !wanted || (list || "").split("|").includes(wanted);

const matches = (row) => {
  const data = row.dataset;
  return ["health", "strategy", "type", "owner"].every((name) => !view[name] || data[name] === view[name])
    && among(view.library, data.libraries) && among(view.action, data.actions)
    && ((!view.kind && !view.severity) || found(row).some(asked))
    && (!view.text || view.text.toLowerCase().split(/\s+/).every((word) => words(row).includes(word)));
};

// Tables, findings and sections show what the view asks for. A page that nobody has filtered stays as it was written.
let untouched = true;
const show = async () => {
  if (view.text && !terms) { terms = (await unpack(one("#terms").value)).split("\n"); }
  const filtered = inputs.some((input) => view[input.name]);
  one("#clear").hidden = !filtered;
  if (untouched && !filtered && !view.sort) { return; }
  untouched = false;
  const sheet = groups();
  sheet.keep = filtered ? matches : () => true;
  sheet.by(view.sort);
  sheet.draw();
  const chosen = new Map(sheet.kept.map((row) => [row.index, row]));
  const counted = sheet.kept.length.toLocaleString("en") + " of " + sheet.rows.length.toLocaleString("en") + " groups";
  one("#matches").textContent = filtered ? counted : "";
  one("#narrowed").textContent = filtered ? " Only those of the " + counted + " that the filter leaves." : "";
  const tally = new Map();
  sheet.kept.flatMap(found).filter(asked).forEach((finding) => tally.set(finding.kind, (tally.get(finding.kind) || 0) + 1));
  all("details.of-kind").forEach((kind) => {
    const n = tally.get(kind.dataset.kind) || 0;
    one(".n-of", kind).textContent = n.toLocaleString("en") + (n === 1 ? " finding" : " findings");
    one(".first", kind).hidden = filtered;
    kind.hidden = n === 0;
    kind.keep = (row) => chosen.has(Number(row.dataset.g)) && (!view.severity || one(".badge", row).classList.contains(view.severity));
    if (kind.open) { list(kind); }
  });
  const names = new Set(sheet.kept.map((row) => one("a", row).hash));
  all("#sections > details").forEach((group) => { group.hidden = !names.has("#" + group.id); });
};

const list = (kind) => {
  const sheet = Sheet.of(one(".sheet", kind));
  sheet.keep = kind.keep || (() => true);
  sheet.draw();
  prepare(kind);
};

// What is folded is laid out when it opens.
document.addEventListener("toggle", (event) => {
  const fold = event.target, held = one(":scope > noscript", fold);
  if (!fold.open) { return; }
  if (fold.matches(".of-kind")) { list(fold); }
  if (held) { lay(fold, held); }
}, true);
const lay = (fold, held) => {
  held.replaceWith(parsed(held.textContent));
  prepare(fold);
};

// A section: in the page, or in a packed block. Blocks hold the groups after the first ones, in the order of the table.
const section = async (row) => {
  const id = decodeURIComponent(one("a", row).hash.slice(1)), present = document.getElementById(id);
  const box = one("#packed");
  if (present || !box) { return present; }
  const block = box.children[Math.floor((row.index - box.dataset.full) / box.dataset.size)];
  const unpacked = parsed(await unpack(block.value)).getElementById(id);
  one("#sections").append(unpacked);
  prepare(unpacked);
  return unpacked;
};

// The place: anything with an id; a group's section and a finding in it are opened, and unpacked if need be.
const go = async () => {
  const place = view.place, finding = place.match(/^finding-(\d+)$/);
  let target = document.getElementById(place);
  if (!target && (finding || place.startsWith("g-"))) {
    const row = groups().rows.find((one_) => finding
      ? found(one_).some((each) => each.rank === finding[1]) : one("a", one_).hash === "#" + place);
    const group = row && await section(row);
    if (group) { open(group); }
    target = document.getElementById(place);
  }
  if (!target) { return; }
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) { open(fold); }
  const own = one(":scope > details", target);
  if (own && !target.matches("details")) { open(own); }
  target.scrollIntoView();
};
const open = (fold) => {
  const held = one(":scope > noscript", fold);
  fold.hidden = false;
  fold.open = true;
  if (held) { lay(fold, held); }
};

const follow = async () => { read(); await show(); await go(); };
addEventListener("hashchange", follow);
on("click", "a[href^='#']", (link, event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || link.hash.includes("?")) { return; }
  event.preventDefault();
  const to = address(link.hash.slice(1));
  if (location.hash === to) { go(); } else { location.hash = to; }
});
const change = () => {
  groups().limit = groups().step;
  history.replaceState(null, "", address("groups"));
  show();
};
on("input", "#view [name]", (input) => { view[input.name] = input.value; change(); });
on("click", "#clear", () => {
  inputs.forEach((input) => { view[input.name] = input.value = ""; });
  change();
});
on("click", "#group-sheet thead button", (button) => {
  view.sort = groups().after(button.parentNode);
  change();
});
on("click", "#fold", () => all("#sections > details").forEach((group) => { group.open = false; }));
prepare(document);
follow();
