// The session page: what comes by the socket, and where it goes.

import "./columns.js";
import "./console.js";
import { atMostEvery, fetchPart } from "./fragment.js";
import { isShortcut } from "./keys.js";
import { Live } from "./live.js";
import * as selection from "./selection.js";
import * as timeline from "./timeline.js";
import { showTimes } from "./times.js";

const FAR_BEHIND = 500;
const MOST_UNREAD_ROWS = 600;
/** A rewind or a compaction changes how the events before it are shown. */
const TOUCHES_OTHERS = ".signal-rewindBeforeInvocationId, .signal-compaction";

const page = document.getElementById("session");
const state = document.querySelector("[data-live]");
const pause = document.getElementById("pause");
const announcer = document.getElementById("announcer");
const search = document.querySelector(".sibling-search");

const WORDS = { connecting: "connecting", live: "live", offline: "offline", paused: "paused", refused: "not live" };

const title = document.title;

let known = Number(timeline.list().dataset.cursor);
let isPaused = false;

function address() {
  const url = new URL(page.dataset.socket, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.searchParams.set("after", timeline.showsTheEnd() ? timeline.highestSeq() : known);
  if (!timeline.showsTheEnd()) url.searchParams.set("rows", "0");
  return url.href;
}

function showState(name, why) {
  const shown = isPaused && name === "live" ? "paused" : name;
  state.dataset.live = shown;
  state.querySelector("[data-connection]").textContent = why || WORDS[shown];
}

const HANDLERS = {
  events: takeEvents,
  pending: ({ html }) => isPaused || !timeline.showsTheEnd() || timeline.showPending(html),
  run: ({ html, active }) => {
    const runs = document.getElementById("runs");
    runs.innerHTML = html;
    window.htmx.process(runs);
    showTimes(runs);
    document.title = active ? `● ${title}` : title;
  },
  marks: ({ html, errors }) => isPaused || timeline.markRuns(html, errors),
  board: ({ mark }) => {
    wantedBoard = mark;
    if (!isPaused) refreshBoard();
  },
  sessions: ({ mark }) => {
    if (mark !== page.dataset.listMark) refreshSiblings(mark);
    page.dataset.listMark = mark;
  },
  reset: openEnd,
  gone: () => live.refuse("the session is gone"),
};

let wantedBoard = "";
let wasShownEnd = timeline.showsTheEnd();

function takeEvents({ cursor, last, count, html, pending }) {
  known = Math.max(known, last);
  selection.setLast(known);
  announce(count);
  if (isPaused || !timeline.showsTheEnd()) {
    timeline.count(count);
    return;
  }
  if (last - cursor > FAR_BEHIND && timeline.isFollowing()) {
    openEnd();
    return;
  }
  const added = timeline.append(html);
  timeline.showPending(pending);
  selection.mark();
  if (!timeline.isFollowing() && timeline.rowHeads().length > MOST_UNREAD_ROWS) {
    timeline.offer("newer", timeline.highestSeq());
    resume();
  }
  if (added.some((row) => row.querySelector(TOUCHES_OTHERS)) && timeline.isFollowing()) openEnd();
}

const refreshBoard = atMostEvery(400, () => {
  if (document.querySelector(".board")?.dataset.mark === wantedBoard) return;
  if (selection.selectedSeq()) selection.refreshBoard();
  else selection.refresh();
});

const refreshSiblings = atMostEvery(1000, async () => {
  const query = new URLSearchParams(new FormData(search));
  const html = await fetchPart(`${location.pathname}?${query}`, "siblings");
  if (html === null) return;
  const place = document.getElementById("siblings");
  const scrolled = place.scrollTop;
  place.innerHTML = html;
  place.scrollTop = scrolled;
  showTimes(place);
});

let unannounced = 0;
const sayCount = atMostEvery(3000, () => {
  announcer.textContent = unannounced === 1 ? "1 new event" : `${unannounced} new events`;
  unannounced = 0;
});
function announce(count) {
  unannounced += count;
  sayCount();
}

/** Show the newest events, and follow. */
async function openEnd() {
  const html = await fetchPart(location.pathname, "window");
  if (html === null) return;
  timeline.replace(html);
  known = Math.max(known, Number(timeline.list().dataset.cursor));
  selection.mark();
  timeline.toEnd();
  resume();
}

/** Connect from where the page stands now. */
function resume() {
  wasShownEnd = timeline.showsTheEnd();
  live.connect();
}

function goToEnd() {
  if (isPaused) togglePause();
  if (timeline.showsTheEnd()) timeline.toEnd();
  else openEnd();
}

function togglePause() {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  pause.title = isPaused ? "Go on" : "Pause live updates";
  if (isPaused) showState("live", "");
  else {
    resume();
    refreshBoard();
  }
}

const live = new Live(address, (message) => HANDLERS[message.type]?.(message), showState);

pause.hidden = false;
pause.addEventListener("click", togglePause);
document.getElementById("unseen").addEventListener("click", goToEnd);
document.getElementById("to-end").addEventListener("click", (event) => {
  event.preventDefault();
  goToEnd();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "G" || !isShortcut(event)) return;
  event.preventDefault();
  goToEnd();
});
document.addEventListener("timeline:renewed", ({ detail }) => detail === selection.selectedSeq() && selection.refresh());
document.addEventListener("timeline:replaced", () => {
  known = Math.max(known, Number(timeline.list().dataset.cursor));
  resume();
});

/* Older rows go above what is read, newer ones below; the last of them make the page live again. */
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target } = event.detail;
  if (target.id !== "older") return;
  event.detail.shouldSwap = false;
  const html = event.detail.xhr.responseText;
  timeline.holdStill(() => {
    target.insertAdjacentHTML("afterend", html);
    target.remove();
    timeline.joinLoaded();
    window.htmx.process(document.getElementById("older"));
  });
  selection.mark();
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id !== "newer") return;
  timeline.joinLoaded();
  selection.mark();
  if (timeline.showsTheEnd() && !wasShownEnd) resume();
});

const opened = selection.selectedSeq() && timeline.eventOf(selection.selectedSeq());
if (opened) timeline.reveal(opened, "center");
else timeline.toEnd();
live.connect();
