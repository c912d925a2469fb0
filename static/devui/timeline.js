// The rows of the timeline: put in by what they are, never twice, without moving what is being read.

import { showTimes } from "./times.js";

const NEAR_END = 40;
const MOST_ROWS = 400;
const ROWS_KEPT = 200;

const scroller = document.getElementById("timeline-scroll");
const unseenButton = document.getElementById("unseen");

let following = true;
let unseen = 0;

export const list = () => document.getElementById("events");
export const eventOf = (seq) => list().querySelector(`[data-seq="${Number(seq)}"]`);
export const events = () => [...list().querySelectorAll("[data-seq]")];
export const rowHeads = () => [...list().querySelectorAll(".row > .event:first-child")];
export const isFollowing = () => following;

/** Return the highest seq on the page, 0 when there is none. */
export function highestSeq() {
  return events().reduce((highest, event) => Math.max(highest, Number(event.dataset.seq)), 0);
}

/** Tell whether the newest event that was known when the page was made is on it. */
export function showsTheEnd() {
  return !document.querySelector("#newer > a");
}

/** Put new groups of rows at the end and return the new rows. Events that are there already are left out. */
export function append(html) {
  const fresh = parse(html);
  for (const event of fresh.querySelectorAll("[data-seq]")) {
    if (eventOf(event.dataset.seq)) drop(event);
  }
  const added = [...fresh.querySelectorAll(".row")];
  const newer = document.getElementById("newer");
  for (const group of fresh.querySelectorAll(".invocation")) {
    if (!group.querySelector(".event")) continue;
    const last = newer.previousElementSibling;
    if (isSameInvocation(last, group)) join(last, group);
    else newer.before(group);
  }
  document.getElementById("no-events")?.remove();
  settle(added);
  for (const row of added) row.classList.add("is-new");
  arrived(added.length);
  return added;
}

/** After rows were loaded before or behind others: join what belongs together. */
export function joinLoaded() {
  for (const group of list().querySelectorAll(".invocation")) {
    while (isSameInvocation(group, group.nextElementSibling)) join(group, group.nextElementSibling);
  }
  settle([...list().querySelectorAll(".row")]);
}

/** Replace the whole window of events. */
export function replace(html) {
  const place = document.getElementById("window");
  place.innerHTML = html;
  window.htmx.process(place);
  showTimes(place);
  setUnseen(0);
}

/** Show what streams at the moment. */
export function showPending(html) {
  const place = document.getElementById("pending");
  if (!place || (!html && !place.firstChild)) return;
  place.innerHTML = html;
  if (following) toEnd();
}

/** Go to the end, and stay there as more comes. */
export function toEnd() {
  following = true;
  scroller.scrollTop = scroller.scrollHeight;
  setUnseen(0);
}

/** Count events that came and are not on the screen. */
export function count(number) {
  setUnseen(unseen + number);
}

/** Bring an event into view. */
export function reveal(event, block = "nearest") {
  event.scrollIntoView({ block });
  noteScroll();
}

/** Keep what is on the screen where it is while `change` puts something above it. */
export function holdStill(change) {
  const before = scroller.scrollHeight - scroller.scrollTop;
  change();
  scroller.scrollTop = scroller.scrollHeight - before;
}

/** Say by a link that there is more on one side than is on the page. */
export function offer(side, seq) {
  const name = side === "older" ? "before" : "after";
  const link = document.getElementById(`${side}-template`).content.firstElementChild.cloneNode(true);
  for (const attribute of ["href", "hx-get"]) link.setAttribute(attribute, `?${name}=${seq}`);
  const place = document.getElementById(side);
  place.replaceChildren(link);
  window.htmx.process(place);
}

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

function drop(event) {
  const row = event.closest(".row");
  event.remove();
  if (!row.querySelector(".event")) row.remove();
}

function isSameInvocation(one, other) {
  return Boolean(one?.matches(".invocation") && other?.matches(".invocation")) &&
    one.dataset.invocation === other.dataset.invocation;
}

function join(group, next) {
  group.querySelector(".run-states").replaceWith(next.querySelector(".run-states"));
  group.querySelector(".rows").append(...next.querySelectorAll(".row"));
  if (!group.querySelector(".invocation-head > .faint:first-child")) {
    next.querySelector(".invocation-head > .faint:first-child")?.remove();
  }
  group.querySelector(".invocation-head").replaceWith(next.querySelector(".invocation-head"));
  next.remove();
}

/** Show how runs went: beside their invocations, or by themselves where they left no event. */
export function markRuns(html, errors) {
  renew(errors);
  for (const news of parse(html).querySelectorAll("template")) {
    const { run, invocation, after } = news.dataset;
    for (const shown of list().querySelectorAll(`[data-run="${CSS.escape(run)}"]`)) {
      (shown.closest(".run-alone") ?? shown).remove();
    }
    if (news.content.querySelector(".run-alone")) putAlone(news.content, Number(after));
    else putBeside(news.content, invocation);
  }
  showTimes(list());
}

/** Show events anew that say more than they did. */
function renew(html) {
  for (const event of parse(html).querySelectorAll("[data-seq]")) {
    const shown = eventOf(event.dataset.seq);
    if (!shown || shown.querySelector(".event-error details")) continue;
    if (shown.hasAttribute("aria-current")) event.setAttribute("aria-current", "true");
    shown.replaceWith(event);
    window.htmx.process(event);
    document.dispatchEvent(new CustomEvent("timeline:renewed", { detail: Number(event.dataset.seq) }));
  }
}

function putBeside(mark, invocation) {
  if (!invocation || !mark.firstElementChild) return;
  for (const group of list().querySelectorAll(`[data-invocation="${CSS.escape(invocation)}"]`)) {
    const isAnswered = mark.querySelector('[data-status="waiting"]') && !group.querySelector("[data-question]");
    if (!isAnswered) group.querySelector(".run-states").append(mark.cloneNode(true));
  }
}

/** A run stands behind the event that was the last when it began; one that belongs to other pages is left out. */
function putAlone(mark, after) {
  const groups = [...list().querySelectorAll(".invocation")];
  const before = groups.filter((group) => Number(group.querySelector("[data-seq]").dataset.seq) <= after);
  if (!before.length && (after || document.querySelector("#older > a"))) return;
  if (after > highestSeq() && !showsTheEnd()) return;
  let place = before.at(-1) ?? document.getElementById("older");
  while (place.nextElementSibling?.matches(".run-alone")) place = place.nextElementSibling;
  place.after(mark);
  document.getElementById("no-events")?.remove();
  if (following) toEnd();
}

/** Bring results to the rows of their calls, and take away the questions that were answered. */
function settle(rows) {
  for (const row of rows) {
    const event = row.querySelector(".event");
    if (event?.dataset.answers) {
      const ids = JSON.parse(event.dataset.answers);
      if ("byUser" in event.dataset) closeQuestions(ids);
      else if (!event.dataset.calls && event === row.firstElementChild) moveToCall(event, ids, row);
    }
    window.htmx.process(row);
  }
  showTimes(list());
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

function arrived(number) {
  if (!following) {
    count(number);
    return;
  }
  trim();
  toEnd();
}

/** A page that stays open all day keeps a bounded number of rows. */
function trim() {
  const rows = [...list().querySelectorAll(".row")];
  if (rows.length <= MOST_ROWS) return;
  for (const row of rows.slice(0, rows.length - ROWS_KEPT)) row.remove();
  for (const group of list().querySelectorAll(".invocation")) {
    if (!group.querySelector(".row")) group.remove();
  }
  offer("older", Math.min(...events().map((event) => Number(event.dataset.seq))));
}

function setUnseen(number) {
  unseen = number;
  unseenButton.hidden = !unseen;
  unseenButton.querySelector("[data-unseen]").textContent = `${unseen} new`;
}

function isAtEnd() {
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END;
}

function noteScroll() {
  following = isAtEnd();
  if (following && showsTheEnd()) setUnseen(0);
}

scroller.addEventListener("scroll", noteScroll, { passive: true });
new ResizeObserver(() => following && toEnd()).observe(scroller);
