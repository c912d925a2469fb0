// Problems: their number in the head and the blocks at the invocations, loaded again when the socket says they changed.

import { fetchPart, throttle } from "../core/fragment.js";
import { list, parse } from "./timeline-rows.js";

const BETWEEN = 1_500;
const count = document.getElementById("problems");

let shown = "";
let wanted = "";

/** Load the problems if they have changed. The first mark is that of the page, if it has the same number. */
export function noteProblems(mark) {
  wanted = mark;
  if (!shown && mark.split("-")[0] === count.dataset.count) shown = mark;
  if (mark !== shown) load();
}

const load = throttle(BETWEEN, async () => {
  const mark = wanted;
  if (mark === shown) return;
  const html = await fetchPart(count.dataset.problemsUrl, "problems");
  if (html === null) return;
  shown = mark;
  const fresh = parse(html);
  count.replaceChildren(...fresh.querySelector("[data-count]").childNodes);
  window.htmx.process(count);
  for (const block of fresh.querySelectorAll("[data-problems]")) place(block);
});

/** Put the block of an invocation below its last group. An open list stays open. */
function place(block) {
  const groups = list().querySelectorAll(`[data-invocation="${CSS.escape(block.dataset.problems)}"]`);
  const states = [...groups].at(-1)?.querySelector(".run-states");
  if (!states) return;
  const before = states.querySelector(".problems");
  if (before?.querySelector(".problems-at-events[open]")) block.querySelector(".problems-at-events")?.setAttribute("open", "");
  before?.remove();
  states.append(block);
}
