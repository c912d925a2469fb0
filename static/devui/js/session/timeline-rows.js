// Timeline rows on the page: each event once, results beside their calls. Rows are added and removed at both ends.

import { connectLanes } from "./lanes.js";
import { showTimes } from "../core/times.js";

export const list = () => document.getElementById("events");
export const eventOf = (seq) => list().querySelector(`[data-seq="${Number(seq)}"]`);
export const events = () => [...list().querySelectorAll("[data-seq]")];
/** The events at which keys stop: the first of each row, and those of open folds. */
export const rowHeads = () => [...list().querySelectorAll(".row > .event:first-child, .fold > details[open] > .event")];
export const rows = () => [...list().querySelectorAll(".row")];
export const seqOf = (event) => Number(event.dataset.seq);

/** First and last seq of the range of events that the page holds. */
export const first = () => Number(list().dataset.first);
export const last = () => Number(list().dataset.last);

const eventsIn = (element) => [...element.querySelectorAll("[data-seq]")];
/** The seqs of a row's first and last event. */
export const seqsOf = (row) => {
  const own = eventsIn(row);
  return [seqOf(own[0]), seqOf(own.at(-1))];
};

export function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Append later events that the server rendered, up to `end`. Return the new rows. */
export function addBelow(fresh, end) {
  const added = prepare(fresh);
  const newEvents = added.flatMap(eventsIn);
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

/** Remove rows at the top. */
export function dropAbove(removedRows) {
  const next = rows()[removedRows.length];
  for (const row of removedRows) row.remove();
  list().dataset.first = next ? seqsOf(next)[0] : last() + 1;
  removeStray();
}

/** Remove rows at the bottom. */
export function dropBelow(removedRows) {
  const [start] = seqsOf(removedRows[0]);
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
    left -= eventsIn(row).length;
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
    else if (row.matches(".fold")) countEvents(row);
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
  closeQuestions();
  mergeFolds();
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

/** Move a result to the row of its calls. A person's answer stays in its own row. */
function joinToCall(row) {
  const event = row.firstElementChild;
  if (!event.dataset.answers || event.dataset.calls || "byUser" in event.dataset) return; // no fold has answers
  const before = row.previousElementSibling;
  if (!before || before.matches(".fold") || seqsOf(before)[1] !== seqOf(event) - 1) return;
  if (before.firstElementChild.dataset.branch !== event.dataset.branch) return;
  const calls = eventsIn(before).flatMap((candidate) => idsOf(candidate.dataset.calls));
  if (!idsOf(event.dataset.answers).every((id) => calls.includes(id))) return;
  before.append(event);
  row.remove();
}

const idsOf = (json) => JSON.parse(json ?? "[]");

/** Close the questions that a later event asks again, or to whose id later events hold enough answers. */
function closeQuestions() {
  const forms = [...list().querySelectorAll("[data-question]")].map((form) => [form, seqOf(form.closest("[data-seq]"))]);
  const answers = [...list().querySelectorAll("[data-by-user]")];
  for (const [form, seq] of forms) {
    const isSame = (id) => id === form.dataset.question;
    const later = answers.filter((event) => seqOf(event) > seq).flatMap((event) => idsOf(event.dataset.answers));
    const isAskedAgain = forms.some(([other, otherSeq]) => otherSeq > seq && isSame(other.dataset.question));
    if (!isAskedAgain && later.filter(isSame).length < Number(form.dataset.nth)) continue;
    const group = form.closest(".invocation");
    form.remove();
    if (!group?.querySelector("[data-question]")) group?.querySelector('[data-status="waiting"][data-run]')?.remove();
  }
}

/** Merge adjacent rows and folds of an invocation that are folded for the same reason. */
function mergeFolds() {
  for (const row of rows()) {
    const before = row.previousElementSibling;
    if (!row.dataset.reason || before?.dataset.reason !== row.dataset.reason) continue;
    const fold = detailsOf(before) ?? wrap(before, detailsOf(row) ?? newFold(row.dataset.reason));
    if (!fold) continue;
    fold.open ||= Boolean(detailsOf(row)?.open || row.querySelector(":scope > [aria-current]"));
    fold.append(...eventsIn(row));
    row.remove();
    countEvents(before);
  }
}

const detailsOf = (row) => row.querySelector(":scope > details");
/** The page has an empty fold of quiet rows, the only ones that become more while they are on the page. */
const newFold = (reason) => (reason === "quiet" ? document.getElementById("quiet-fold").content.firstElementChild : null);

/** Put the events of a row into a fold like another one. */
function wrap(row, like) {
  if (!like) return null;
  const fold = like.cloneNode();
  fold.open = Boolean(row.querySelector(":scope > [aria-current]"));
  fold.append(like.querySelector("summary").cloneNode(true), ...row.children);
  row.classList.add("fold");
  row.append(fold);
  return fold;
}

function countEvents(row) {
  const count = eventsIn(row).length;
  row.querySelector("summary [data-count]").textContent = `${count.toLocaleString("en")} ${count === 1 ? "event" : "events"}`;
}

/** Put the content of events, as the server rendered it, into the folded events of the page that have none yet. */
export function fillFolded(html) {
  for (const event of parse(html).querySelectorAll(".event[data-seq]:not(.is-stub)")) {
    const shown = eventOf(event.dataset.seq);
    if (!shown?.matches(".is-stub")) continue;
    event.toggleAttribute("aria-current", false);
    if (shown.hasAttribute("aria-current")) event.setAttribute("aria-current", "true");
    showTimes(event);
    shown.replaceWith(event);
    window.htmx.process(event);
  }
}

/** Remove invocations without rows, and runs whose events are not on the page. */
function removeStray() {
  for (const group of list().querySelectorAll(".invocation")) if (!group.querySelector(".row")) group.remove();
  for (const alone of list().querySelectorAll(".run-alone")) {
    const after = Number(alone.dataset.after);
    if (after > last() || after < (first() === 1 ? 0 : first())) alone.remove();
  }
}
