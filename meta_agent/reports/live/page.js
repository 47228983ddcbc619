"use strict";
// The live page follows the run: it asks every second whether the run's record has changed, and if
// so takes the page anew. Every text comes from the server, escaped; nothing here makes markup of it.
const keyOf = (part) => part.id || part.querySelector("summary").textContent;

async function text(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.text();
}

function say(problem) {
  const notice = document.querySelector("#alive");
  notice.textContent = problem;
  notice.classList.add("dead");
}

async function refresh() {
  const main = document.querySelector("main");
  const fresh = new DOMParser().parseFromString(await text("/"), "text/html").querySelector("main");
  const open = new Map([...main.querySelectorAll("details")].map((part) => [keyOf(part), part.open]));
  for (const part of fresh.querySelectorAll("details"))
    if (open.has(keyOf(part))) part.open = open.get(keyOf(part));
  main.replaceChildren(...fresh.childNodes);
}

let last = null;
async function look() {
  try {
    const stamp = await text("/stamp");
    if (last !== null && stamp !== last) await refresh();
    last = stamp;
  } catch (problem) {
    const gone = "the server of this page is gone: meta-agent view shows the run again";
    say(problem instanceof TypeError ? gone : problem.message);
  }
  setTimeout(look, 1000);
}
look();
