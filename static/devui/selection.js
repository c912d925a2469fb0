// Which event is open: the address says it, so Back works and a link opens the same view.

import { fetchPart } from "./fragment.js";
import { isShortcut } from "./keys.js";
import * as timeline from "./timeline.js";
import { showTimes } from "./times.js";

const detail = document.getElementById("detail");
const travel = document.querySelector(".travel");
const slider = travel.querySelector("input[type=range]");

const seqOfAddress = () => {
  const query = new URLSearchParams(location.search);
  if (query.has("seq")) return Number(query.get("seq"));
  const id = query.get("event");
  const event = id && timeline.events().find((candidate) => candidate.dataset.eventId === id);
  return event ? Number(event.dataset.seq) : 0;
};

let selected = Number(travel.dataset.selected) || 0;

/** Tell which event is open: its seq, 0 for none. */
export const selectedSeq = () => selected;

/** Return this page's address for an event, or for none; the tabs stay as they are. */
function addressOf(seq) {
  const query = new URLSearchParams(location.search);
  for (const name of ["event", "seq", "before", "after", "find"]) query.delete(name);
  const event = seq && timeline.eventOf(seq);
  if (event) query.set("event", event.dataset.eventId);
  else if (seq) query.set("seq", seq);
  return `${location.pathname}?${query}`.replace(/\?$/, "");
}

/** Open an event; 0 closes the one that is open. */
export async function select(seq, { push = true } = {}) {
  if (seq === selected && push) return;
  const address = push ? addressOf(seq) : location.href;
  if (push) history.pushState({ event: seq }, "", address);
  selected = seq;
  mark();
  showView(seq ? "detail" : "timeline");
  const shown = seq && timeline.eventOf(seq);
  if (shown) timeline.reveal(shown);
  if (shown && isFocusFree()) shown.querySelector(".event-seq").focus({ preventScroll: true });
  await Promise.all([refresh(address), seq && !shown ? loadAround(address) : null]);
}

/** Load the inspector and the board anew. */
export async function refresh(address = location.href) {
  const html = await fetchPart(address, "detail");
  if (html !== null) put(detail, html);
}

/** Load the board anew; the event above it stays as it is. */
export async function refreshBoard() {
  const board = document.getElementById("board");
  const html = await fetchPart(location.href, "board");
  if (html !== null) put(board, html);
}

/** Tell the time axis how long the session is. */
export function setLast(last) {
  slider.max = Math.max(1, last);
  slider.disabled = !last;
  travel.dataset.last = last;
  mark();
}

/** Tell whether the focus may follow the selection: nobody has put it elsewhere. */
function isFocusFree() {
  const focused = document.activeElement;
  return focused === document.body || Boolean(focused.closest("#timeline-scroll"));
}

function put(place, html) {
  const scrolled = place.querySelector(".entries")?.scrollTop ?? 0;
  const open = new Set([...place.querySelectorAll(".entry:has(details[open])")].map((entry) => entry.dataset.key));
  place.innerHTML = html;
  window.htmx.process(place);
  showTimes(place);
  for (const entry of place.querySelectorAll(".entry")) {
    const details = open.has(entry.dataset.key) && entry.querySelector("details");
    if (details) details.open = true;
  }
  const entries = place.querySelector(".entries");
  if (entries) entries.scrollTop = scrolled;
}

async function loadAround(address) {
  const html = await fetchPart(address, "window");
  if (html === null) return;
  timeline.replace(html);
  mark();
  const event = timeline.eventOf(selected);
  if (event) timeline.reveal(event, "center");
  document.dispatchEvent(new CustomEvent("timeline:replaced"));
}

/** Show on the page what is selected. */
export function mark() {
  for (const event of document.querySelectorAll(".event[aria-current]")) event.removeAttribute("aria-current");
  if (selected) timeline.eventOf(selected)?.setAttribute("aria-current", "true");
  const last = Number(travel.dataset.last);
  slider.value = selected || last;
  travel.querySelector(".travel-at").textContent = selected
    ? `${selected.toLocaleString("en")} / ${last.toLocaleString("en")}`
    : "now";
}

/** One event back or forth; from now, back is the newest event. */
export function step(by) {
  const last = Number(travel.dataset.last);
  const next = selected ? selected + by : by < 0 ? last : 0;
  if (next >= 1 && next <= last) select(next);
}

function stepRow(by) {
  const heads = timeline.rowHeads();
  const current = timeline.eventOf(selected)?.closest(".row")?.firstElementChild;
  const at = current ? heads.indexOf(current) + by : by < 0 ? heads.length - 1 : 0;
  if (heads[at]) select(Number(heads[at].dataset.seq));
  else document.querySelector(by < 0 ? "#older > a" : "#newer > a")?.click();
}

function showView(name) {
  document.querySelector(`input[name=view][value=${name}]`).checked = true;
}

const isPlainClick = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

document.addEventListener("click", (event) => {
  if (!isPlainClick(event)) return;
  const comparing = event.target.closest("a[data-compare]");
  if (comparing) {
    event.preventDefault();
    compareWith(comparing.dataset.compare);
    return;
  }
  const link = event.target.closest("a[href^='?event='], a[href^='?seq='], a[data-deselect]");
  if (link) {
    event.preventDefault();
    openLink(link);
    return;
  }
  const row = event.target.closest(".event[data-seq]");
  if (!row || event.target.closest("a, button, summary, input, textarea, label, .question")) return;
  if (getSelection().isCollapsed) select(Number(row.dataset.seq));
});

function openLink(link) {
  if ("step" in link.dataset) step(Number(link.dataset.step));
  else if ("deselect" in link.dataset) select(0);
  else if (link.matches(".event-seq")) select(Number(link.closest("[data-seq]").dataset.seq));
  else select(Number(new URLSearchParams(link.search).get("seq")));
}

/** Show what differs between the open moment and another one; without one, show the state again. */
function compareWith(base) {
  const query = new URLSearchParams(location.search);
  if (base === "") query.delete("diff");
  else query.set("diff", base);
  history.pushState({ event: selected }, "", `${location.pathname}?${query}`.replace(/\?$/, ""));
  refreshBoard();
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-compare-form]")) return;
  event.preventDefault();
  compareWith(new FormData(event.target).get("diff"));
});

slider.addEventListener("input", () => {
  travel.querySelector(".travel-at").textContent = `${Number(slider.value).toLocaleString("en")} / ${slider.max}`;
});
slider.addEventListener("change", () => select(Number(slider.value)));
slider.form.addEventListener("submit", (event) => event.preventDefault());

addEventListener("popstate", () => select(seqOfAddress(), { push: false }));

document.addEventListener("change", (event) => {
  if (!event.target.matches("input[name=tab], input[name=scope]")) return;
  const query = new URLSearchParams(location.search);
  query.set(event.target.name, event.target.value);
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
});

document.addEventListener("keydown", (event) => {
  if (!isShortcut(event)) return;
  const work = KEYS.get(event.key);
  if (!work) return;
  event.preventDefault();
  work();
});

const KEYS = new Map([
  ["j", () => stepRow(1)],
  ["k", () => stepRow(-1)],
  ["]", () => step(1)],
  [".", () => step(1)],
  ["[", () => step(-1)],
  [",", () => step(-1)],
  ["Escape", () => select(0)],
]);
