"use strict";
// What the live page does: it follows the run, and browses its attempts. Every text that is shown
// comes from the server, escaped; nothing here makes markup of it.
const token = document.querySelector("meta[name=token]").content;
const find = (selector, within) => (within || document).querySelector(selector);
const all = (selector, within) => [...(within || document).querySelectorAll(selector)];

async function text(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.text();
}

const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

// --- parts that are asked for: the list and the map ----------------------------------------------

const query = (form) => new URLSearchParams(form ? [...new FormData(form)].filter(([, value]) => value) : []);

async function fill(part, asked) {
  const held = document.activeElement && part.contains(document.activeElement) ? document.activeElement : null;
  const name = held && held.name, caret = held && held.selectionStart;
  part.asked = String(asked || "");
  try {
    const mine = part.asked;
    const html = await text(part.dataset.from + "?" + mine);
    if (part.asked !== mine) return; // somebody has asked for something else meanwhile
    part.replaceChildren(...parsed(html).body.childNodes);
  } catch (problem) {
    return say(problem.message);
  }
  const again = name && find(`[name="${name}"]`, part);
  if (again) { again.focus(); if (caret != null && again.setSelectionRange) again.setSelectionRange(caret, caret); }
  clearTimeout(part.later);
  if (find("[data-again]", part)) part.later = setTimeout(() => fill(part, part.asked), 700);
  figures(part);
  mark();
}

function say(problem) {
  const notice = find("#alive");
  notice.textContent = problem;
  notice.classList.add("dead");
}

document.addEventListener("input", (event) => {
  const form = event.target.closest(".filter");
  if (!form) return;
  const part = form.closest("[data-from]");
  clearTimeout(part.typing);
  part.typing = setTimeout(() => fill(part, query(form)), 150);
});

document.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.matches(".answer")) answer(event.target, event.submitter.value);
});

// --- attempts ------------------------------------------------------------------------------------

let beside = [];

async function open(places) {
  const opened = find("#opened");
  const parts = await Promise.all(places.map((at) => text("/attempt?at=" + encodeURIComponent(at))));
  const sides = document.createElement("div");
  sides.className = "sides";
  for (const html of parts) sides.append(...parsed(html).body.childNodes);
  opened.replaceChildren(sides);
  opened.scrollIntoView({ block: "nearest" });
}

function mark() {
  for (const row of all("tr[data-at]")) {
    const chosen = beside.includes(row.dataset.at);
    row.setAttribute("aria-selected", chosen);
    find("input", row).checked = chosen;
  }
}

function put(row) {
  const at = row.dataset.at;
  beside = beside.includes(at) ? beside.filter((one) => one !== at) : [...beside.slice(-1), at];
  mark();
  if (beside.length) open(beside).catch((problem) => say(problem.message));
  else find("#opened").replaceChildren();
}

function one(row) {
  beside = [row.dataset.at];
  mark();
  open(beside).catch((problem) => say(problem.message));
}

document.addEventListener("click", (event) => {
  const target = event.target, part = target.closest("[data-from]");
  const row = target.closest("tr[data-at]"), map = target.closest("svg.heat");
  if (row) return target.matches("input") ? put(row) : one(row);
  if (map) return pointed(event, map, true);
  if (target.dataset.start !== undefined) {
    const asked = query(find("form", part));
    asked.set("start", target.dataset.start);
    fill(part, asked);
  } else if (target.dataset.clear) {
    find(`[name="${target.dataset.clear}"]`, part).value = "";
    fill(part, query(find("form", part)));
  } else if (target.matches(".figure")) save(target);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select");
  if (event.key === "Escape") {
    beside = [];
    mark();
    find("#opened").replaceChildren();
    if (typing) event.target.blur();
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = all("tr[data-at]"), here = rows.indexOf(document.activeElement);
  const step = { j: 1, k: -1 }[event.key];
  if (step && rows.length) rows[Math.max(0, Math.min(rows.length - 1, here + step))].focus();
  if (event.key === "Enter" && here >= 0) one(rows[here]);
  if (event.key === "x" && here >= 0) put(rows[here]);
  if (event.key === "/") { event.preventDefault(); find("#attempts [name=task]").focus(); }
});

// --- the map -------------------------------------------------------------------------------------

function pointed(event, map, wanted) {
  const box = map.getBoundingClientRect(), scale = map.viewBox.baseVal.width / box.width;
  const x = (event.clientX - box.left) * scale - map.dataset.left;
  const y = (event.clientY - box.top) * scale - map.dataset.top;
  const held = map.parentElement;
  const column = JSON.parse(held.dataset.columns)[Math.floor(x / map.dataset.column)];
  const task = JSON.parse(held.dataset.tasks)[Math.floor(y / map.dataset.row)];
  if (!column || task === undefined || x < 0 || y < 0) return;
  find("#pointed").textContent = `${task} · ${column[0]}`;
  if (!wanted) return;
  fill(find("#attempts [data-from]"), new URLSearchParams({ task, measurement: column[1] }));
  find("#attempts").scrollIntoView();
}

document.addEventListener("pointermove", (event) => {
  const map = event.target.closest && event.target.closest("svg.heat");
  if (map) pointed(event, map, false);
});

// --- figures as files ----------------------------------------------------------------------------

function figures(within) {
  for (const svg of all("svg[role=img]", within)) {
    const held = svg.closest(".scroll") || svg; // beside what scrolls, not in it
    const before = held.previousElementSibling;
    if (before && before.matches(".figure")) continue;
    const button = document.createElement("button");
    button.className = "figure";
    button.textContent = "SVG";
    button.title = "save this figure";
    held.before(button);
  }
}

function save(button) {
  const held = button.nextElementSibling;
  const copy = (held.matches("svg") ? held : find("svg[role=img]", held)).cloneNode(true);
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = all("style").map((one) => one.textContent).join("\n");
  copy.prepend(style);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const file = document.createElement("a");
  file.href = URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" }));
  file.download = find("title", copy).textContent.replace(/\W+/g, "-").toLowerCase() + ".svg";
  file.click();
  URL.revokeObjectURL(file.href);
}

// --- a person's answer ---------------------------------------------------------------------------

async function answer(form, reply) {
  const feedback = find("[name=feedback]", form).value;
  const done = await fetch("/answer", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Token": token },
    body: JSON.stringify({ subject: form.dataset.subject, answer: reply, feedback }),
  });
  const told = await done.text();
  if (done.ok) form.replaceChildren(told);
  else find(".told", form).textContent = told;
}

// --- following the run ---------------------------------------------------------------------------

const keyOf = (part) => part.id || find("summary", part).textContent;

async function refresh() {
  if (document.activeElement && document.activeElement.closest(".answer")) return; // being typed into
  const fresh = find("main", parsed(await text("/"))), main = find("main");
  const shown = new Map(all("details", main).map((part) => [keyOf(part), part.open]));
  for (const part of all("details", fresh)) if (shown.has(keyOf(part))) part.open = shown.get(keyOf(part));
  main.replaceChildren(...fresh.childNodes);
  figures(main);
  for (const part of all("[data-from]")) if (!part.contains(document.activeElement)) fill(part, part.asked);
}

const events = new EventSource("/events");
let last = null;
events.onmessage = (event) => {
  if (last !== null && last !== event.data) refresh().catch((problem) => say(problem.message));
  last = event.data;
};
events.onerror = () => say("the server of this page is gone: meta-agent view shows the run again");
for (const part of all("[data-from]")) fill(part);
figures(document);
