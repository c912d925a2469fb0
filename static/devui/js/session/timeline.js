// Window of the session's events that is on the page. It loads ahead of the reader, drops distant rows, and never moves what is being read.

import { searchParams } from "./search-params.js";
import { fetchPart } from "../core/fragment.js";
import { isPlainClick } from "../core/shortcuts.js";
import * as rows from "./timeline-rows.js";
import { loadOpened } from "./folds.js";
import * as judgements from "./judgements.js";
import * as logCounts from "./log-counts.js";
import * as nestedRuns from "./nested-runs.js";
import { markRuns as putMarks } from "./run-markers.js";
import * as scrollAnchor from "./scroll-anchor.js";
import { showTimes } from "../core/times.js";

export { eventOf, events, list, rowHeads } from "./timeline-rows.js";

/** Distance from the end in pixels within which the page follows new events. */
const NEAR_END = 40;
/** Screens of rows that are loaded ahead above and below the visible part. */
const AHEAD = 0.6;
/** Maximum number of events on the page, unless a large screen needs more. */
const MAX_EVENTS = 60;

const scroller = document.getElementById("timeline-scroll");
const unseenButton = document.getElementById("unseen");

let following = false;
let unseen = 0;
let knownSeq = Number(rows.list().dataset.cursor);
let loading = "";

export const isFollowing = () => following;
/** The seq of the session's last event that this page knows of. */
export const lastKnown = () => knownSeq;
/** The seq of the last event on the page. */
export const lastShown = () => rows.last();
/** Whether the session's last event is on the page. */
export const showsTheEnd = () => rows.last() >= knownSeq;

/** Set the seq of the session's last event. */
export function hear(last) {
  knownSeq = Math.max(knownSeq, last);
  offer();
}

/** Tell whether live events continue the events on the page. */
export const isNext = ({ cursor, count }) => cursor - count <= rows.last();

/** Append live events. Return the added rows; none if the reader is further up and will load them later. */
export function take({ html, cursor, count }) {
  const wasFollowing = following;
  if (!wasFollowing && rows.events().length >= MAX_EVENTS) {
    setUnseen(unseen + count);
    fill();
    return [];
  }
  const added = keepInPlace(() => rows.addBelow(rows.parse(html), cursor));
  for (const row of added) row.classList.add("is-new");
  if (wasFollowing) {
    following = true;
    toEnd();
    trimLater();
  } else {
    setUnseen(unseen + count);
  }
  offer();
  return added;
}

/** Load events that arrived while the page was paused; a page that was at the end follows again. */
export async function catchUp(last) {
  const wasAtEnd = isAtEnd();
  hear(last);
  if (wasAtEnd && knownSeq - rows.last() > MAX_EVENTS) {
    await openEnd();
    return;
  }
  while (wasAtEnd && !showsTheEnd() && (await load("newer")));
  if (wasAtEnd) toEnd();
}

/** Count new events that are not shown. */
export function count(number) {
  setUnseen(unseen + number);
}

/** Replace the window by the one that the server rendered. */
export function replace(html) {
  const place = document.getElementById("window");
  place.innerHTML = html;
  window.htmx.process(place);
  showTimes(place);
  knownSeq = Math.max(knownSeq, Number(rows.list().dataset.cursor));
  following = false;
  setLoading("");
  setUnseen(0);
}

/** Load the events around a seq and scroll to it; `block` is its position on the screen. */
export async function goTo(seq, block = "start") {
  const isElsewhere = !rows.eventOf(seq);
  if (isElsewhere) {
    const html = await fetchPart(`${location.pathname}?around=${seq}${searchParams()}`, "window");
    if (html === null) return;
    replace(html);
  }
  const event = rows.eventOf(seq);
  if (event) reveal(event, block);
  if (isElsewhere) document.dispatchEvent(new CustomEvent("timeline:replaced"));
  fill();
}

/** Load the newest events and follow. Return whether they were loaded. */
export async function openEnd() {
  const html = await fetchPart(`${location.pathname}?${searchParams().slice(1)}`, "window");
  if (html === null) return false;
  replace(html);
  toEnd();
  return true;
}

/** Show the text that is being streamed. */
export function showPending(html) {
  const place = document.getElementById("pending");
  if (!place || (!html && !place.firstChild)) return;
  place.innerHTML = html;
  if (following) toEnd();
}

/** Scroll to the end of the page and follow new events. */
export function toEnd() {
  following ||= showsTheEnd();
  scrollAnchor.recordScroll();
  scroller.scrollTop = scroller.scrollHeight;
  if (following) setUnseen(0);
}

/** Scroll an event into view. */
export function reveal(event, block = "nearest") {
  const folded = event.closest("details:not([open])");
  if (folded) folded.open = true;
  event.scrollIntoView({ block });
  noteScroll();
}

/** Focus an event, or the timeline if the event is not on the page, without scrolling. */
export function focus(seq) {
  const event = seq ? rows.eventOf(seq) : null;
  (event?.querySelector(".event-seq") ?? scroller).focus({ preventScroll: true });
}

/** Show the outcome of runs and mark the events with errors. */
export function markRuns(html, errors) {
  for (const seq of rows.renew(errors)) {
    document.dispatchEvent(new CustomEvent("timeline:renewed", { detail: seq }));
  }
  if (putMarks(html, showsTheEnd()) && following) toEnd();
}

/** Update the logs below events. */
export function showLog(html) {
  keepInPlace(() => logCounts.show(html));
}

/** Update the judgements on events. */
export function showJudgements(html) {
  keepInPlace(() => judgements.showJudgements(html));
}

/** Update the nested runs below calls. */
export function showNestedRuns(html) {
  keepInPlace(() => nestedRuns.show(html));
}

/** Return the seqs of the first and the last event on the screen, 0 if there are none. */
export function onScreen() {
  const { top, bottom } = scroller.getBoundingClientRect();
  const seen = rows.rows().filter((row) => {
    const place = row.getBoundingClientRect();
    return place.bottom > top + 24 && place.top < bottom - 8;
  });
  return seen.length ? [rows.seqsOf(seen[0])[0], rows.seqsOf(seen.at(-1))[1]] : [0, 0];
}

/** Scroll by a share of the screen height. */
export function scrollScreens(share) {
  scroller.scrollBy({ top: share * scroller.clientHeight });
}

/** Load more events at an end that is nearly reached. */
export async function fill() {
  if (loading) return;
  const ready = AHEAD * scroller.clientHeight;
  const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  if (rows.first() > 1 && scroller.scrollTop < ready) await load("older");
  else if (!showsTheEnd() && !following && below < ready) await load("newer");
}

async function load(side) {
  const isOlder = side === "older";
  const list = rows.list();
  setLoading(side);
  const query = isOlder ? `before=${rows.first()}` : `after=${rows.last()}`;
  const html = await fetchPart(`${location.pathname}?${query}${searchParams()}`, "window", "more");
  if (html !== null && isOlder) await scrollAnchor.waitForStillFrame();
  if (rows.list() !== list) return false;
  setLoading("");
  if (html === null) return false;
  const fresh = rows.parse(html);
  const { first, last, cursor } = fresh.querySelector("#events").dataset;
  if (!Number(first)) return false;
  keepInPlace(() => (isOlder ? rows.addAbove(fresh, first) : rows.addBelow(fresh, last)));
  trim(isOlder ? "bottom" : "top");
  knownSeq = Math.max(knownSeq, Number(cursor));
  offer();
  document.dispatchEvent(new CustomEvent("timeline:loaded"));
  noteScroll();
  await fill();
  return true;
}

function setLoading(side) {
  loading = side;
  scroller.setAttribute("aria-busy", String(Boolean(side)));
}

/** Keep the visible rows in place while `change` adds or removes content above them. */
const keepInPlace = (change) => scrollAnchor.keepPosition(scroller, rows.rowHeads, change);

loadOpened(scroller, keepInPlace, (fold) => {
  fold.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  document.dispatchEvent(new CustomEvent("timeline:loaded"));
});

/** Remove rows far from the visible part. */
function trim(side) {
  const { top, bottom, height } = scroller.getBoundingClientRect();
  const margin = (AHEAD + 0.4) * height;
  const isNear = (row) => {
    const place = row.getBoundingClientRect();
    return place.bottom > top - margin && place.top < bottom + margin;
  };
  const removedRows = rows.spare(side, MAX_EVENTS, isNear);
  if (!removedRows.length) return;
  keepInPlace(() => (side === "top" ? rows.dropAbove(removedRows) : rows.dropBelow(removedRows)));
}

let isTrimming = false;

async function trimLater() {
  if (isTrimming) return;
  isTrimming = true;
  await scrollAnchor.waitForStillFrame();
  isTrimming = false;
  if (following) trim("top");
  offer();
}

/** Offer links to the events before and after the page's window. */
function offer() {
  offerOne("older", rows.first() > 1, `?before=${rows.first()}`);
  offerOne("newer", !showsTheEnd() && !following, `?after=${rows.last()}`);
}

function offerOne(side, isThere, address) {
  const place = document.getElementById(side);
  place.hidden = !isThere;
  place.querySelector("a").setAttribute("href", address);
}

function setUnseen(number) {
  unseen = number;
  unseenButton.hidden = !unseen;
  unseenButton.querySelector("[data-unseen]").textContent = `${unseen.toLocaleString("en")} new`;
}

function isAtEnd() {
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END;
}

/** Scrolling up ends following; reaching the end of the session starts it. */
function noteFollowing() {
  following = isAtEnd() && (following || showsTheEnd());
  if (following) setUnseen(0);
}

function noteScroll() {
  noteFollowing();
  document.dispatchEvent(new CustomEvent("timeline:scrolled"));
}

let ticking = false;
scroller.addEventListener("scroll", () => {
  noteFollowing();
  if (ticking) return;
  ticking = true;
  requestAnimationFrame(() => {
    ticking = false;
    noteScroll();
    fill();
  });
}, { passive: true });

new ResizeObserver(() => {
  if (following) toEnd();
  fill();
}).observe(scroller);

document.addEventListener("click", (event) => {
  const link = event.target.closest("#older > a, #newer > a");
  if (!link || !isPlainClick(event)) return;
  event.preventDefault();
  if (!loading) load(link.parentElement.id);
});
