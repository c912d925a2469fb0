// Timeline rows on the page: each event once, results beside their calls. Rows are added and removed at both ends.

import { connectLanes } from "./lanes.js";
import { showTimes } from "../core/times.js";

export const list = () => document.getElementById("events");
export const eventOf = (seq) => list().querySelector(`[data-seq="${Number(seq)}"]`);
export const events = () => [...list().querySelectorAll("[data-seq]")];
export const rowHeads = () => [...list().querySelectorAll(".row > .event:first-child")];
export const seqOf = (event) => Number(event.dataset.seq);

/** First and last seq of the range of events that the page holds. */
export const first = () => Number(list().dataset.first);
export const last = () => Number(list().dataset.last);

const rows = () => [...list().querySelectorAll(".row")];
const headSeq = (row) => seqOf(row.firstElementChild);

export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Append later events that the server rendered, up to `end`. Return the new rows. */
export function addBelow(fresh, end) {
  const added = prepare(fresh);
  const newEvents = added.flatMap((row) => [...row.querySelectorAll("[data-seq]")]);
  list().append(...groupsOf(fresh));
  list().dataset.last = end;
  if (!first()) list().dataset.first = 1;
  tidy(added);
  connectLanes(newEvents);
  return added;
}

/** Prepend earlier events that the server rendered, down to `start`. */
export function addAbove(fresh, start) {
  const added = prepare(fresh);
  list().prepend(...groupsOf(fresh));
  list().dataset.first = start;
  tidy(added);
}

/** Remove rows at the top. A result that is newer than the remaining rows goes back to a row of its own. */
export function dropAbove(removedRows) {
  const next = rows()[removedRows.length];
  const end = next ? headSeq(next) - 1 : last();
  for (const row of removedRows) {
    for (const event of row.querySelectorAll("[data-seq]")) if (seqOf(event) > end) putBack(event, row);
    row.remove();
  }
  list().dataset.first = end + 1;
  removeStray();
}

/** Remove rows at the bottom. */
export function dropBelow(removedRows) {
  const start = Math.min(...removedRows.flatMap((row) => [...row.querySelectorAll("[data-seq]")].map(seqOf)));
  for (const row of removedRows) row.remove();
  list().dataset.last = start - 1;
  removeStray();
}

/** Return the rows that can be removed at one end so that `most` events stay. Rows that are near stay. */
export function spare(side, most, isNear) {
  const removedRows = [];
  let left = events().length;
  const candidates = side === "top" ? rows() : rows().reverse();
  for (const row of candidates) {
    if (left <= most || isNear(row)) break;
    left -= row.querySelectorAll("[data-seq]").length;
    removedRows.push(row);
  }
  return side === "top" ? removedRows : removedRows.reverse();
}

/** Replace events that have changed. Return their seqs. */
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

/** Prepare a fragment for the page: remove events that the page has already, and localize times. */
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

/** Join rows that belong together, in whatever order they were loaded. A moved element keeps the focus. */
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

/** Move a result to the row of its calls. A person's answer stays in its own row and closes the question. */
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

/** Remove invocations without rows, and runs whose events are not on the page. */
function removeStray() {
  for (const group of list().querySelectorAll(".invocation")) if (!group.querySelector(".row")) group.remove();
  for (const alone of list().querySelectorAll(".run-alone")) {
    const after = Number(alone.dataset.after);
    if (after > last() || after < (first() === 1 ? 0 : first())) alone.remove();
  }
}
