"use strict";
// What the live page does: it follows the run, and sends a person's answer. Every text that is shown
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

function say(problem) {
  const notice = find("#alive");
  notice.textContent = problem;
  notice.classList.add("dead");
}

document.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.matches(".answer")) answer(event.target, event.submitter.value);
});

document.addEventListener("click", (event) => {
  if (event.target.matches(".figure")) save(event.target);
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
}

const events = new EventSource("/events");
let last = null;
events.onmessage = (event) => {
  if (last !== null && last !== event.data) refresh().catch((problem) => say(problem.message));
  last = event.data;
};
events.onerror = () => say("the server of this page is gone: meta-agent view shows the run again");
figures(document);
