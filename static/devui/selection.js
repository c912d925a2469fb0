// Which event is open: the address says it, so Back works and a link opens the same view.

import * as board from "./board.js";
import { fetchPart, wasCutOff } from "./fragment.js";
import { declare } from "./keys.js";
import { entry, offer } from "./palette.js";
import * as timeline from "./timeline.js";
import { showTimes } from "./times.js";

/** Milliseconds without a step after which what stands around the board follows, and the address says where one is. */
const REST = 150;

const inspection = document.getElementById("inspection");
const travel = document.querySelector(".travel");
const slider = travel.querySelector("input[type=range]");
const held = travel.querySelector("[data-held]");
const holder = travel.querySelector("[data-hold]");
const teller = document.getElementById("travel-teller");

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
  settle();
  if (push) history.pushState({ event: seq }, "", address);
  turnTo(seq);
  await Promise.all([board.show(address), inspect(address), seq && !timeline.eventOf(seq) ? loadAround(address) : null]);
}

/** Steps follow one another: the address and what stands around the board are behind. */
let isPassing = false;
let resting = 0;
let direction = 0;

/** Open an event that others may follow at once: its board now, the rest when there is a rest. */
function pass(seq) {
  if (seq === selected) return;
  const address = addressOf(seq);
  if (!isPassing) history.pushState({ event: seq }, "", address);
  isPassing = true;
  direction = seq - selected;
  clearTimeout(resting);
  turnTo(seq);
  board.show(address).then(() => {
    clearTimeout(resting);
    prepareNext();
    if (isPassing) resting = setTimeout(rest, REST);
  });
}

function rest() {
  settle();
  inspection.setAttribute("aria-busy", "true");
  if (selected && !timeline.eventOf(selected)) loadAround(location.href);
  inspect(location.href);
  tell();
}

/** Who steps goes on the same way, as a rule. */
function prepareNext() {
  const next = selected + direction;
  const isStep = Math.abs(direction) === 1 && next >= 1 && next <= Number(travel.dataset.last);
  if (isStep) board.prepare(addressOf(next));
}

/** The address follows the steps that were made. */
function settle() {
  if (!isPassing) return;
  stopPassing();
  history.replaceState({ event: selected }, "", addressOf(selected));
}

function stopPassing() {
  isPassing = false;
  clearTimeout(resting);
}

function turnTo(seq) {
  selected = seq;
  mark();
  showView(seq ? "detail" : "timeline");
  const shown = seq && timeline.eventOf(seq);
  if (shown) timeline.reveal(shown);
  if (shown && isFocusFree()) shown.querySelector(".event-seq").focus({ preventScroll: true });
}

/** Something has changed: load the inspector and the board anew. */
export async function refresh() {
  await Promise.all([board.renew({ live: true }), isPassing ? null : inspect(location.href)]);
}

/** The server answers again: load what it could not be asked for. */
export function catchUp() {
  if (wasCutOff("board")) board.renew();
  if (isPassing) return;
  if (wasCutOff("inspection")) inspect(location.href);
  if (selected && wasCutOff("window") && !timeline.eventOf(selected)) loadAround(location.href);
}

/** The state has changed: load the board anew; the event above it stays as it is. */
export const refreshBoard = () => board.renew({ live: true });

let inspected = "";

async function inspect(address) {
  const html = await fetchPart(address, "inspection");
  if (html === null) return;
  inspection.removeAttribute("aria-busy");
  if (html === inspected) return;
  inspected = html;
  inspection.innerHTML = html;
  window.htmx.process(inspection);
  showTimes(inspection);
}

/** Say where one is, for those who do not see the board. */
function tell() {
  const changed = [...document.querySelectorAll("#board .entry.is-changed .change-key")].map((key) => key.textContent);
  const wrote = changed.length ? `, which wrote ${changed.slice(0, 5).join(", ")}` : "";
  teller.textContent = `${document.getElementById("board-title")?.textContent.trim() ?? ""}${selected ? wrote : ""}`;
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
  const text = selected ? `${selected.toLocaleString("en")} / ${last.toLocaleString("en")}` : "now";
  slider.value = selected || last;
  slider.setAttribute("aria-valuetext", selected ? `event ${selected} of ${last}` : `now, after event ${last}`);
  travel.querySelector(".travel-at").textContent = text;
  travel.querySelector("[data-deselect]").hidden = !selected;
  markHeld(last);
}

/** Show on the time axis which other moment this one is compared with. */
function markHeld(last) {
  const base = new URLSearchParams(location.search).get("diff");
  held.hidden = base === null;
  holder.setAttribute("aria-pressed", String(base !== null));
  const at = base === "now" ? last : Number(base);
  held.style.insetInlineStart = `${(100 * Math.max(0, at - 1)) / Math.max(1, last - 1)}%`;
}

/** One event back or forth; from now, back is the newest event. */
export function step(by) {
  const last = Number(travel.dataset.last);
  const next = selected ? selected + by : by < 0 ? last : 0;
  if (next >= 1 && next <= last) pass(next);
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
  settle();
  const query = new URLSearchParams(location.search);
  if (base === "") query.delete("diff");
  else query.set("diff", base);
  history.pushState({ event: selected }, "", `${location.pathname}?${query}`.replace(/\?$/, ""));
  markHeld(Number(travel.dataset.last));
  board.show(location.href).then(tell);
}

/** Keep this moment as the one that others are compared with, or let go of it. */
function hold() {
  settle();
  compareWith(new URLSearchParams(location.search).has("diff") ? "" : String(selected || "now"));
}

holder.hidden = false;
holder.addEventListener("click", hold);

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-compare-form]")) return;
  event.preventDefault();
  compareWith(new FormData(event.target).get("diff"));
});

slider.addEventListener("input", () => pass(Number(slider.value)));
slider.form.addEventListener("submit", (event) => event.preventDefault());

addEventListener("popstate", ({ state }) => {
  stopPassing(); // the address is another one already
  select(state?.event ?? seqOfAddress(), { push: false });
});

document.addEventListener("change", (event) => {
  if (!event.target.matches("input[name=tab], input[name=scope]")) return;
  settle();
  const query = new URLSearchParams(location.search);
  query.set(event.target.name, event.target.value);
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
});

/* An event by its number, typed into the palette. */
offer((typed) => {
  const seq = Number(/^(?:#|event\s*)?(\d+)$/i.exec(typed)?.[1]);
  const last = Number(travel.dataset.last);
  if (!(seq >= 1 && seq <= last)) return [];
  return [entry("In this session", "clock", `Event ${seq} of ${last}`, () => select(seq))];
});

declare("In this session", [
  { keys: ["j"], does: "Next row", work: () => stepRow(1) },
  { keys: ["k"], does: "Previous row", work: () => stepRow(-1) },
  { keys: ["]", "."], does: "One event forth in time", work: () => step(1) },
  { keys: ["[", ","], does: "One event back in time", work: () => step(-1) },
  { keys: ["d"], does: "Compare other moments with this one, or no longer", work: hold },
  { keys: ["Escape"], does: "Close the event", when: selectedSeq, work: () => select(0) },
]);
