// Run markers in the timeline: in their invocations, or on their own for runs without events.

import { first, last, list, parse, seqOf } from "./timeline-rows.js";
import { showTimes } from "../core/times.js";

/** Place the run markers. Return whether a marker without an invocation was added. */
export function markRuns(html, showsTheEnd) {
  let added = false;
  for (const update of parse(html).querySelectorAll("template")) {
    const { run, invocation, after } = update.dataset;
    for (const marker of list().querySelectorAll(`[data-run="${CSS.escape(run)}"]`)) {
      (marker.closest(".run-alone") ?? marker).remove();
    }
    showTimes(update.content);
    if (update.content.querySelector(".run-alone")) added = placeAlone(update.content, Number(after), showsTheEnd) || added;
    else placeInInvocation(update.content, invocation);
  }
  return added;
}

/** Put the code version into the invocation's head, once per version, and the outcome below the invocation. */
function placeInInvocation(mark, invocation) {
  const code = mark.querySelector(".ran");
  code?.remove();
  if (!invocation) return;
  for (const group of list().querySelectorAll(`[data-invocation="${CSS.escape(invocation)}"]`)) {
    const head = group.querySelector(".invocation-head");
    if (code && !head.querySelector(`[data-code="${CSS.escape(code.dataset.code)}"]`)) {
      head.querySelector(".turn-title").after(code.cloneNode(true));
    }
    if (!mark.firstElementChild) continue;
    const isAnswered = mark.querySelector('[data-status="waiting"]') && !group.querySelector("[data-question]");
    if (!isAnswered) group.querySelector(".run-states").append(mark.cloneNode(true));
  }
}

/** Place a run after the event that was last when it began; skip runs outside the page's window. */
function placeAlone(mark, after, showsTheEnd) {
  const isHere = after > last() ? showsTheEnd : after >= first() || first() <= 1;
  if (!isHere) return false;
  const groups = [...list().querySelectorAll(".invocation")];
  let place = groups.filter((group) => seqOf(group.querySelector("[data-seq]")) <= after).at(-1);
  if (!place) list().prepend(mark);
  else {
    while (place.nextElementSibling?.matches(".run-alone")) place = place.nextElementSibling;
    place.after(mark);
  }
  document.getElementById("no-events")?.remove();
  return true;
}
