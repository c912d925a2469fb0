// The rows on the page: put in by what they are, each event once, calls beside their results, and taken out at the ends.

import { leadOn } from "./lanes.js";
import { showTimes } from "../core/times.js";

export const list = () => document.getElementById("events");
export const eventOf = (seq) => list().querySelector(`[data-seq="${Number(seq)}"]`);
export const events = () => [...list().querySelectorAll("[data-seq]")];
export const rowHeads = () => [...list().querySelectorAll(".row > .event:first-child")];
export const seqOf = (event) => Number(event.dataset.seq);

/** The seqs between which every event of the session is on the page. */
export const first = () => Number(list().dataset.first);
export const last = () => Number(list().dataset.last);

const rows = () => [...list().querySelectorAll(".row")];
const headSeq = (row) => seqOf(row.firstElementChild);

export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Put what the server rendered of later events below the rows, up to `end`; return the rows that are new. */
export function addBelow(fresh, end) {
  const added = prepare(fresh);
  const came = added.flatMap((row) => [...row.querySelectorAll(".event")]);
  list().append(...groupsOf(fresh));
  list().dataset.last = end;
  if (!first()) list().dataset.first = 1;
  tidy(added);
  leadOn(came);
  return added;
}

/** Put what the server rendered of earlier events above the rows, down to `start`. */
export function addAbove(fresh, start) {
  const added = prepare(fresh);
  list().prepend(...groupsOf(fresh));
  list().dataset.first = start;
  tidy(added);
}

/** Take rows away at the top. A result that is younger than what is left goes back to a row of its own. */
export function dropAbove(doomed) {
  const kept = rows()[doomed.length];
  const end = kept ? headSeq(kept) - 1 : last();
  for (const row of doomed) {
    for (const event of row.querySelectorAll(".event")) if (seqOf(event) > end) putBack(event, row);
    row.remove();
  }
  list().dataset.first = end + 1;
  removeStray();
}

/** Take rows away at the bottom. */
export function dropBelow(doomed) {
  const start = Math.min(...doomed.flatMap((row) => [...row.querySelectorAll(".event")].map(seqOf)));
  for (const row of doomed) row.remove();
  list().dataset.last = start - 1;
  removeStray();
}

/** Return the rows that may go at the top or at the bottom so that `most` events stay, none of which `isNear`. */
export function spare(side, most, isNear) {
  const doomed = [];
  let left = events().length;
  const candidates = side === "top" ? rows() : rows().reverse();
  for (const row of candidates) {
    if (left <= most || isNear(row)) break;
    left -= row.querySelectorAll(".event").length;
    doomed.push(row);
  }
  return side === "top" ? doomed : doomed.reverse();
}

/** Show events anew that say more than they did; return their seqs. */
export function renew(html) {
  const renewed = [];
  for (const event of parse(html).querySelectorAll("[data-seq]")) {
    const shown = eventOf(event.dataset.seq);
    if (!shown || shown.querySelector(".event-error details")) continue;
    if (shown.hasAttribute("aria-current")) event.setAttribute("aria-current", "true");
    showTimes(event);
    shown.replaceWith(event);
    window.htmx.process(event);
    renewed.push(seqOf(event));
  }
  return renewed;
}

const groupsOf = (fresh) => [...(fresh.querySelector("#events") ?? fresh).children];

/** Make a fragment fit for the page: without events that are there already, and with local times. */
function prepare(fresh) {
  for (const event of fresh.querySelectorAll("[data-seq]")) {
    if (!eventOf(event.dataset.seq)) continue;
    const row = event.closest(".row");
    event.remove();
    if (!row.querySelector(".event")) row.remove();
  }
  for (const group of fresh.querySelectorAll(".invocation")) if (!group.querySelector(".event")) group.remove();
  showTimes(fresh);
  return [...fresh.querySelectorAll(".row")];
}

/** Join what belongs together, wherever it was loaded. What has the focus keeps it where it is moved, too. */
function tidy(added) {
  const focused = document.activeElement;
  document.getElementById("no-events")?.remove();
  for (const group of list().querySelectorAll(".invocation")) {
    while (isSameInvocation(group, group.nextElementSibling)) join(group, group.nextElementSibling);
  }
  for (const row of rows()) joinToCall(row);
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  for (const row of added) if (row.isConnected) window.htmx.process(row);
}

function isSameInvocation(one, other) {
  return Boolean(other?.matches(".invocation")) && one.dataset.invocation === other.dataset.invocation;
}

function join(group, next) {
  group.querySelector(".run-states").replaceWith(next.querySelector(".run-states"));
  group.querySelector(".rows").append(...next.querySelectorAll(".row"));
  if (!group.querySelector("[data-continued]")) next.querySelector("[data-continued]")?.remove();
  group.querySelector(".invocation-head").replaceWith(next.querySelector(".invocation-head"));
  next.remove();
}

/** Bring a result to the row of its calls; what a person answers stays where it happened, and closes the question. */
function joinToCall(row) {
  const event = row.firstElementChild;
  if (!event.dataset.answers) return;
  const ids = JSON.parse(event.dataset.answers);
  if ("byUser" in event.dataset) closeQuestions(ids);
  else if (!event.dataset.calls) moveToCall(event, ids, row);
}

function moveToCall(event, ids, row) {
  const calls = [...row.closest(".rows").querySelectorAll("[data-calls]")];
  const call = calls.find((candidate) => {
    const made = JSON.parse(candidate.dataset.calls);
    return ids.every((id) => made.includes(id));
  });
  if (!call || call.closest(".row") === row) return;
  call.closest(".row").append(event);
  if (!row.querySelector(".event")) row.remove();
}

function closeQuestions(ids) {
  for (const form of list().querySelectorAll("[data-question]")) {
    if (!ids.includes(form.dataset.question)) continue;
    const group = form.closest(".invocation");
    form.remove();
    if (!group?.querySelector("[data-question]")) group?.querySelector('[data-status="waiting"][data-run]')?.remove();
  }
}

function putBack(event, row) {
  const own = document.createElement("li");
  own.className = "row";
  const next = [...row.parentElement.children].find((other) => headSeq(other) > seqOf(event));
  own.append(event);
  if (next) next.before(own);
  else row.parentElement.append(own);
}

/** Take away invocations without rows, and runs that belong to events which are not here. */
function removeStray() {
  for (const group of list().querySelectorAll(".invocation")) if (!group.querySelector(".row")) group.remove();
  for (const alone of list().querySelectorAll(".run-alone")) {
    const after = Number(alone.dataset.after);
    if (after > last() || after < (first() === 1 ? 0 : first())) alone.remove();
  }
}
