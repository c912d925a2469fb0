// Session page: receives messages of the socket and passes them to the parts of the page.

import "./answers.js";
import { isFiltering } from "./search-params.js";
import "./columns.js";
import "./state-diff.js";
import "./console.js";
import { throttle } from "../core/fragment.js";
import "./inspector.js";
import { declare } from "../core/shortcuts.js";
import { DELETED, Live } from "../core/live-socket.js";
import { noteHints } from "./hints.js";
import { noteMark } from "./live-sections.js";
import { noteProblems } from "./problems.js";
import * as rail from "./rail.js";
import * as selection from "./selection.js";
import * as timeline from "./timeline.js";
import { showTimes } from "../core/times.js";
import "./session-search.js";
import "./reading-mode.js";
import "./event-bar.js";
import "./judgement-actions.js";
import "./code-copy.js";
import "./hits.js";

const FAR_BEHIND = 500;
/** A rewind or a compaction changes how the events before it are shown. */
const TOUCHES_OTHERS = ".signal-rewindBeforeInvocationId, .signal-compaction";

const page = document.getElementById("session");
const state = document.querySelector("[data-live]");
const pause = document.getElementById("pause");
const announcer = document.getElementById("announcer");
const runAnnouncer = document.getElementById("run-announcer");

const WORDS = { connecting: "connecting", live: "live", offline: "offline", paused: "paused", refused: "not live" };

let title = document.title;

let newestSeq = timeline.lastKnown();
let isPaused = false;
let hasRows = timeline.showsTheEnd();

/** Live rows are appended to the timeline, except for a filtered one: only the server knows which rows match. */
const wantsRows = () => (timeline.isFollowing() || timeline.showsTheEnd()) && !isFiltering();

/** Address of the socket: it starts after the last known event and requests rows only if they would be shown. */
function address() {
  const url = new URL(page.dataset.socket, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  hasRows = wantsRows() && !isPaused;
  url.searchParams.set("after", hasRows ? timeline.lastShown() : newestSeq);
  if (!hasRows) url.searchParams.set("rows", "0");
  return url.href;
}

function showState(name, why) {
  const shown = isPaused && name === "live" ? "paused" : name;
  state.dataset.live = shown;
  state.querySelector("[data-connection]").textContent = why || WORDS[shown];
  if (why === DELETED) showGone();
  if (name === "live") selection.catchUp();
}

const HANDLERS = {
  events: takeEvents,
  pending: ({ html }) => isPaused || !timeline.showsTheEnd() || timeline.showPending(html),
  run: ({ html, active }) => {
    const runs = document.getElementById("runs");
    showRuns(runs, html);
    window.htmx.process(runs);
    showTimes(runs);
    announceRun();
    document.title = active ? `● ${title}` : title;
  },
  marks: ({ html, errors }) => isPaused || timeline.markRuns(html, errors),
  log: ({ html }) => isPaused || timeline.showLog(html),
  judgements: ({ html }) => isPaused || timeline.showJudgements(html),
  nested: ({ html }) => isPaused || timeline.showNestedRuns(html),
  board: (message) => {
    wantedBoard = message.mark;
    if (isPaused) return;
    refreshBoard();
    noteMark(message);
  },
  sessions: noteMark,
  problems: (message) => {
    noteProblems(message.mark);
    noteHints(message.mark);
    noteMark(message);
  },
  title: ({ name }) => showName(name),
  reset: openEnd,
  gone: () => live.refuse(DELETED),
};

/** Replace the runs. Pauses that go on stay the elements that they are, with what was typed and the focus. */
function showRuns(runs, html) {
  const focused = document.activeElement;
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const newForm of template.content.querySelectorAll("[data-pause]")) {
    const shownForm = runs.querySelector(`[data-pause="${newForm.dataset.pause}"]`);
    if (shownForm) newForm.replaceWith(shownForm);
  }
  const holdsFocus = template.content.contains(focused);
  runs.replaceChildren(template.content);
  if (holdsFocus) focused.focus();
}

/** Return the status of the session's run in the words of the page. */
function runText() {
  const runs = document.querySelector("#runs > .runs");
  const status = runs?.querySelector(".run-ended [data-status]")?.textContent.trim();
  if (document.querySelector("#runs > [data-pause]")) return "The run is paused";
  if (Number(runs?.dataset.active)) return "The agent runs";
  return status ? `The run: ${status}` : "The run is done";
}

let announcedRun = runText();

/** Announce the run's status to screen readers when it has changed. */
function announceRun() {
  const text = runText();
  if (text !== announcedRun) runAnnouncer.textContent = text;
  announcedRun = text;
}

function showName(name) {
  const headings = [...document.querySelectorAll("[data-session-name]")];
  if (headings[0].textContent.trim() === name.trim()) return;
  for (const heading of headings) heading.textContent = name;
  const isActive = document.title.startsWith("●");
  title = `${name} · DevUI`;
  document.title = isActive ? `● ${title}` : title;
}

/* --- A session that is deleted while it is looked at: it is said once, calmly, with the way back --- */

let isGone = false;

async function showGone() {
  if (isGone) return;
  isGone = true;
  page.toggleAttribute("data-gone", true);
  const headers = { "HX-Request": "true", "HX-Target": "gone" };
  const answer = await fetch(page.dataset.self, { headers }).catch(() => null);
  if (answer?.ok) {
    location.reload(); // it has come back meanwhile
    return;
  }
  const notice = document.getElementById("gone");
  notice.innerHTML = answer?.status === 404 ? await answer.text() : "This session was deleted.";
  showTimes(notice);
}

/** Requests about a deleted session are refused; the page shows that already. */
document.addEventListener("part:refused", (event) => {
  const { status, text } = event.detail;
  if (status !== 404 || !(isGone || text.includes('data-code="session_not_found"'))) return;
  event.preventDefault();
  live.refuse(DELETED);
});
addEventListener("htmx:responseError", (event) => {
  if (isGone && event.detail.xhr.status === 404) event.stopPropagation();
}, true);

let wantedBoard = "";

function takeEvents({ cursor, last, count, html, pending }) {
  const wasFollowing = timeline.isFollowing();
  const isNext = timeline.isNext({ cursor, count });
  newestSeq = Math.max(newestSeq, last);
  selection.setLast(newestSeq);
  announce(count);
  document.dispatchEvent(new CustomEvent("timeline:new-events"));
  if (isPaused) {
    timeline.count(count);
    return;
  }
  timeline.hear(last);
  countEvents();
  if (!html || !isNext || (last - cursor > FAR_BEHIND && wasFollowing)) {
    if (wasFollowing) openEnd();
    else if (!isFiltering()) timeline.count(count);
    rail.show();
    return;
  }
  const added = timeline.take({ html, cursor, count });
  timeline.showPending(pending);
  selection.mark();
  rail.noteErrors();
  rail.show();
  if (added.some((row) => row.querySelector(TOUCHES_OTHERS)) && timeline.isFollowing()) openEnd();
}

const refreshBoard = throttle(400, () => {
  refreshOverview(); // also if a reload of the board has already shown this change
  if (document.querySelector(".board")?.dataset.mark !== wantedBoard) selection.refreshBoard();
});

/** Without a selected event, the inspector shows the whole session, of which little is new but the number of events. */
const refreshOverview = throttle(3000, async () => {
  if (selection.selectedSeq()) return;
  await selection.refreshInspection();
  countEvents(); // it may have been read before the last event
});

/** Show the number of events in the overview, if that is what the inspector shows. */
function countEvents() {
  const count = document.querySelector("#inspection [data-event-count]");
  if (count) count.textContent = newestSeq.toLocaleString("en");
}

let unannounced = 0;
const announceCount = throttle(3000, () => {
  announcer.textContent = unannounced === 1 ? "1 new event" : `${unannounced} new events`;
  unannounced = 0;
});
function announce(count) {
  unannounced += count;
  announceCount();
}

/** Show the newest events and follow. */
async function openEnd() {
  if (await timeline.openEnd()) document.dispatchEvent(new CustomEvent("timeline:replaced"));
}

/** Update the page after it moved to another place in the session. */
function settleIn() {
  newestSeq = Math.max(newestSeq, timeline.lastKnown());
  selection.mark();
  rail.noteErrors();
  rail.show();
  if (wantsRows() !== hasRows) live.connect();
}

function goToEnd() {
  if (isPaused) togglePause();
  if (timeline.showsTheEnd()) timeline.toEnd();
  else openEnd();
}

async function togglePause() {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  pause.title = isPaused ? "Go on" : "Pause live updates";
  if (isPaused) {
    showState("live", "");
    return;
  }
  await timeline.catchUp(newestSeq);
  live.connect();
  refreshBoard();
}

const live = new Live(address, (message) => { HANDLERS[message.type]?.(message); }, showState);

pause.hidden = false;
pause.addEventListener("click", togglePause);
document.getElementById("unseen").addEventListener("click", goToEnd);
document.getElementById("to-end").addEventListener("click", (event) => {
  event.preventDefault();
  goToEnd();
});
document.getElementById("to-start").addEventListener("click", (event) => {
  event.preventDefault();
  goToStart();
});
declare("In this session", [{ keys: ["G"], does: "Go to the end and follow", work: goToEnd }]);
document.addEventListener("timeline:renewed", ({ detail }) => detail === selection.selectedSeq() && selection.refresh());
document.addEventListener("timeline:replaced", settleIn);
document.addEventListener("timeline:loaded", settleIn);
document.addEventListener("timeline:go-to-end", goToEnd);

/* The whole session by keys, and an event by its number. */
const goToStart = () => timeline.goTo(1);
declare("In this session", [
  { keys: ["Home"], does: "Go to the first event", work: goToStart },
  { keys: ["End"], does: "Go to the end and follow", work: goToEnd },
  { keys: ["PageUp"], does: "A screen up", when: isScreenKey, work: () => timeline.scrollScreens(-0.9) },
  { keys: ["PageDown"], does: "A screen down", when: isScreenKey, work: () => timeline.scrollScreens(0.9) },
]);
/** Scroll keys belong to the focused element, unless nothing has the focus. */
function isScreenKey() {
  return document.activeElement === document.body;
}
document.getElementById("go-to").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = event.target.elements.seq;
  const seq = Math.min(timeline.lastKnown(), Math.max(1, Math.round(Number(field.value)) || 1));
  field.blur();
  selection.select(seq);
});

const wantedPlace = new URLSearchParams(location.search);
const opened = selection.selectedSeq() && timeline.eventOf(selection.selectedSeq());
if (opened) timeline.reveal(opened, "center");
else if (wantedPlace.has("around")) timeline.goTo(Number(wantedPlace.get("around")));
else if (!wantedPlace.has("after")) timeline.toEnd();
rail.show();
timeline.fill();
live.connect();
