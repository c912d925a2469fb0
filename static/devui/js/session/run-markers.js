// How runs went, in the timeline: beside their invocations, or by themselves where they left no event.

import { first, last, list, parse, seqOf } from "./timeline-rows.js";
import { showTimes } from "../core/times.js";

/** Put the marks of runs where they belong; return whether anything was added by itself. */
export function markRuns(html, showsTheEnd) {
  let added = false;
  for (const news of parse(html).querySelectorAll("template")) {
    const { run, invocation, after } = news.dataset;
    for (const shown of list().querySelectorAll(`[data-run="${CSS.escape(run)}"]`)) {
      (shown.closest(".run-alone") ?? shown).remove();
    }
    showTimes(news.content);
    if (news.content.querySelector(".run-alone")) added = putAlone(news.content, Number(after), showsTheEnd) || added;
    else putBeside(news.content, invocation);
  }
  return added;
}

/** What ran stands in the head of the invocation, once a version; how it went below. */
function putBeside(mark, invocation) {
  const ran = mark.querySelector(".ran");
  ran?.remove();
  if (!invocation) return;
  for (const group of list().querySelectorAll(`[data-invocation="${CSS.escape(invocation)}"]`)) {
    const head = group.querySelector(".invocation-head");
    if (ran && !head.querySelector(`[data-code="${CSS.escape(ran.dataset.code)}"]`)) {
      head.querySelector(".mono").after(ran.cloneNode(true));
    }
    if (!mark.firstElementChild) continue;
    const isAnswered = mark.querySelector('[data-status="waiting"]') && !group.querySelector("[data-question]");
    if (!isAnswered) group.querySelector(".run-states").append(mark.cloneNode(true));
  }
}

/** A run stands behind the event that was the last when it began; one that belongs to other pages is left out. */
function putAlone(mark, after, showsTheEnd) {
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
