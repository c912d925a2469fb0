// Problems of the session: their number and the block of each invocation, reloaded when the socket reports a change.

import { fetchPart, throttle } from "../core/fragment.js";
import { list, parse } from "./timeline-rows.js";

const RELOAD_PAUSE = 1_500;
const count = document.getElementById("problems");

let pageMark = "";
let newestMark = "";

/** Load the problems if they have changed. A new page has no mark: its number of problems is compared instead. */
export function noteProblems(mark) {
  newestMark = mark;
  if (!pageMark && mark.split("-")[0] === count.dataset.count) pageMark = mark;
  if (mark !== pageMark) load();
}

const load = throttle(RELOAD_PAUSE, async () => {
  const mark = newestMark;
  if (mark === pageMark) return;
  const html = await fetchPart(count.dataset.problemsUrl, "problems");
  if (html === null) return;
  pageMark = mark;
  const fresh = parse(html);
  count.replaceChildren(...fresh.querySelector("[data-count]").childNodes);
  window.htmx.process(count);
  for (const block of fresh.querySelectorAll("[data-problems]")) place(block);
});

/** Put the block of an invocation into the head of its last group. An open list stays open. */
function place(block) {
  const groups = list().querySelectorAll(`[data-invocation="${CSS.escape(block.dataset.problems)}"]`);
  const states = [...groups].at(-1)?.querySelector(".run-states");
  if (!states) return;
  const before = states.querySelector(".problems");
  if (before?.querySelector(".problems-at-events[open]")) block.querySelector(".problems-at-events")?.setAttribute("open", "");
  before?.remove();
  states.append(block);
}
