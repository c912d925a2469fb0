// Hints beside the keys of the state board: problems of the state, and drift. They are loaded when the board shows the
// current state, and when the socket reports other problems.

import { fetchPart, throttle } from "../core/fragment.js";
import { NAMES, recallList, rememberList, whenChanged } from "../core/storage.js";

const page = document.getElementById("session");
const HIDDEN = NAMES.hiddenHints(page.dataset.app);
const BETWEEN = 4_000;

let fragment = document.createElement("template").content;
let mark = "";
let problemsMark = "";

/** The hints' markup as loaded, before they are opened on the page. */
const markup = new WeakMap();

const board = () => document.querySelector("#board .board");
const loadedMark = () => fragment.querySelector("[data-problems-mark]")?.dataset.problemsMark;
const isOutdated = () => board()?.dataset.mark !== mark || (problemsMark && problemsMark !== loadedMark());
const isNow = () => board()?.dataset.at === "0";

/** Rules whose hints are hidden for this app. */
let hidden = recallList(HIDDEN);

const load = throttle(BETWEEN, async () => {
  const boardMark = board()?.dataset.mark;
  if (!isNow() || !isOutdated()) return;
  const html = await fetchPart(page.dataset.hints, "hints");
  if (html === null) return;
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  fragment = fresh.content;
  mark = boardMark;
  show();
});

/** Place the hints beside their keys. A hint that has not changed stays, open or closed. */
function show() {
  const place = board();
  if (!place) return;
  const hintsByKey = new Map(isNow() ? [...fragment.querySelectorAll(".hints")].map((hints) => [hints.dataset.for, hints]) : []);
  for (const entry of place.querySelectorAll(".columns .entry:not([data-untracked])")) {
    const current = entry.querySelector(":scope > .hints");
    const hints = hintsByKey.get(entry.dataset.key) && visibleHints(hintsByKey.get(entry.dataset.key));
    if (!hints) current?.remove();
    else if (!current || markup.get(current) !== hints.outerHTML) {
      current?.remove();
      markup.set(hints, hints.outerHTML);
      entry.append(hints);
      window.htmx.process(hints);
    }
  }
  for (const head of place.querySelectorAll(".scope-column")) {
    const size = isNow() && fragment.querySelector(`[data-size-of="${head.dataset.column}"]`);
    head.querySelector("[data-size]").textContent = size ? size.textContent : "";
  }
  showCount(place);
}

function visibleHints(hints) {
  const copy = hints.cloneNode(true);
  for (const rule of hidden) copy.querySelector(`[data-rule="${CSS.escape(rule)}"]`)?.remove();
  return copy.childElementCount ? copy : null;
}

function showCount(place) {
  const link = place.querySelector("[data-hints-link]");
  if (!link) return;
  const number = [...fragment.querySelectorAll(".hint[data-rule]")].filter(({ dataset }) => !hidden.includes(dataset.rule)).length;
  const badge = link.querySelector("[data-number]");
  badge.textContent = number ? String(number) : "";
  link.setAttribute("aria-label", number === 1 ? "1 hint at the state" : `${number || "No"} hints at the state`);
}

/** Hide the hints of a rule for this app, or show them again. */
function toggle(rule) {
  hidden = hidden.includes(rule) ? hidden.filter((other) => other !== rule) : [...hidden, rule];
  rememberList(HIDDEN, hidden);
  show();
  nameButtons();
}

function nameButtons() {
  for (const button of document.querySelectorAll("#dialog-content [data-hide-rule]")) {
    button.hidden = false;
    button.textContent = hidden.includes(button.dataset.hideRule) ? "Show beside keys again" : "Hide beside keys";
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-hide-rule]");
  if (button) toggle(button.dataset.hideRule);
});
document.addEventListener("htmx:afterSwap", (event) => event.detail.target.id === "dialog-content" && nameButtons());
whenChanged(HIDDEN, () => {
  hidden = recallList(HIDDEN);
  show();
});

function scheduleLoad() {
  show();
  if (isNow() && isOutdated()) load();
}

/** Load the hints again if the problems of the session have changed. */
export function noteHints(newestMark) {
  problemsMark = newestMark;
  scheduleLoad();
}

document.addEventListener("board:shown", scheduleLoad);
scheduleLoad();
