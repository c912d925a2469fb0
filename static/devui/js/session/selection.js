// The selected event. The address holds it, so Back works and a link opens the same view.

import * as board from "./state-board.js";
import { fetchPart, runLatest, wasUnreachable } from "../core/fragment.js";
import { inspect } from "./inspector-loader.js";
import { declare, isPlainClick } from "../core/shortcuts.js";
import { entry, offer } from "../core/command-palette.js";
import * as timeline from "./timeline.js";
import * as timeSlider from "./time-slider.js";

/** Milliseconds without a step after which the inspector, the timeline and the address follow the board. */
const STEP_PAUSE = 150;

const seqOfAddress = () => {
  const query = new URLSearchParams(location.search);
  if (query.has("seq")) return Number(query.get("seq"));
  const id = query.get("event");
  const event = id && timeline.events().find((candidate) => candidate.dataset.eventId === id);
  return event ? Number(event.dataset.seq) : 0;
};

let selected = timeSlider.initialSeq;

/** The seq of the selected event, 0 for none. */
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

/** Select an event; 0 clears the selection. */
export async function select(seq, { push = true } = {}) {
  if (seq === selected && push) return;
  const address = push ? addressOf(seq) : location.href;
  settle();
  if (push) history.pushState({ event: seq }, "", address);
  turnTo(seq);
  const isElsewhere = seq && !timeline.eventOf(seq);
  await Promise.all([
    board.show(address),
    inspect(address, { isOther: true }),
    isElsewhere ? loadAround(address) : null,
  ]);
}

/** True while steps follow one another: the address and the parts around the board lag behind. */
let isStepping = false;
let stepTimer = 0;
let direction = 0;

/** Step to an event: load its board now, and the rest once no further step follows. */
function stepTo(seq) {
  if (seq === selected) return;
  const address = addressOf(seq);
  if (!isStepping) history.pushState({ event: seq }, "", address);
  isStepping = true;
  direction = seq - selected;
  clearTimeout(stepTimer);
  turnTo(seq);
  board.show(address).then(() => {
    clearTimeout(stepTimer);
    prepareNext();
    if (isStepping) stepTimer = setTimeout(finishSteps, STEP_PAUSE);
  });
}

function finishSteps() {
  settle();
  if (selected && !timeline.eventOf(selected)) loadAround(location.href);
  inspect(location.href, { isOther: true });
  timeSlider.announce(selected);
}

/** Prefetch the next boards: steps mostly continue in the same direction. */
function prepareNext() {
  if (Math.abs(direction) !== 1) return;
  const next = [selected + direction, selected + 2 * direction].filter((seq) => seq >= 1 && seq <= timeSlider.last());
  board.prepare(next.map((seq) => ({ url: addressOf(seq), seq })));
}

/** Update the address after steps. */
export function settle() {
  if (!isStepping) return;
  stopStepping();
  history.replaceState({ event: selected }, "", addressOf(selected));
}

function stopStepping() {
  isStepping = false;
  clearTimeout(stepTimer);
}

function turnTo(seq) {
  selected = seq;
  mark();
  showView(seq ? "detail" : "timeline");
  const event = seq && timeline.eventOf(seq);
  if (event) timeline.reveal(event);
  if (event && isFocusFree()) event.querySelector(".event-seq")?.focus({ preventScroll: true });
}

/** Reload the inspector and the board after a change. */
export async function refresh() {
  await Promise.all([board.renew({ live: true }), refreshInspection()]);
}

/** Reload the inspector. */
export const refreshInspection = () => (isStepping ? null : inspect(location.href));

/** Reload the parts that could not be loaded while the server was unreachable. */
export function catchUp() {
  if (wasUnreachable("board")) board.renew();
  if (isStepping) return;
  if (wasUnreachable("inspection")) inspect(location.href);
  if (selected && wasUnreachable("window") && !timeline.eventOf(selected)) loadAround(location.href);
}

/** Reload the board after a change of state; the inspector stays. */
export const refreshBoard = () => board.renew({ live: true });

/** Set the seq of the session's last event. */
export function setLast(last) {
  timeSlider.setLast(last);
  mark();
}

/** Tell whether the focus may follow the selection: it is not in another part of the page. */
function isFocusFree() {
  const focused = document.activeElement;
  return focused === document.body || Boolean(focused.closest("#timeline-scroll"));
}

/** Load the timeline around the selected event. */
const loadAround = runLatest(async (address) => {
  const html = await fetchPart(address, "window");
  if (html === null || !selected || timeline.eventOf(selected)) return;
  timeline.replace(html);
  mark();
  const event = timeline.eventOf(selected);
  if (event) timeline.reveal(event, "center");
  document.dispatchEvent(new CustomEvent("timeline:replaced"));
});

/** Mark the selected event on the page. */
export function mark() {
  for (const event of document.querySelectorAll(".event[aria-current]")) event.removeAttribute("aria-current");
  if (selected) timeline.eventOf(selected)?.setAttribute("aria-current", "true");
  timeSlider.show(selected);
}

/** Step by one event; a step back from now selects the newest event. */
export function step(by) {
  const last = timeSlider.last();
  const next = selected ? selected + by : by < 0 ? last : 0;
  if (next >= 1 && next <= last) stepTo(next);
}

function stepRow(by) {
  const heads = timeline.rowHeads();
  const event = timeline.eventOf(selected);
  const current = Number((event?.closest(".row:not(.fold)")?.firstElementChild ?? event)?.dataset.seq);
  const next = by < 0
    ? heads.findLast((head) => !(Number(head.dataset.seq) >= current))
    : heads.find((head) => !(Number(head.dataset.seq) <= current));
  if (next) select(Number(next.dataset.seq));
  else document.querySelector(by < 0 ? "#older > a" : "#newer > a")?.click();
}

function showView(name) {
  document.querySelector(`input[name=view][value=${name}]`).checked = true;
}

document.addEventListener("click", (event) => {
  if (!isPlainClick(event)) return;
  const link = event.target.closest("a:is([href^='?event='], [href^='?seq='], [data-deselect]):not([data-compare])");
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

timeSlider.onMove(stepTo);

addEventListener("popstate", ({ state }) => {
  stopStepping(); // the address is another one already
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
offer((query) => {
  const seq = Number(/^(?:#|event\s*)?(\d+)$/i.exec(query)?.[1]);
  const last = timeSlider.last();
  if (!(seq >= 1 && seq <= last)) return [];
  return [entry("In this session", "clock", `Event ${seq} of ${last}`, () => select(seq))];
});

declare("In this session", [
  { keys: ["j"], does: "Next row", steps: true, work: () => stepRow(1) },
  { keys: ["k"], does: "Previous row", steps: true, work: () => stepRow(-1) },
  { keys: ["]", "."], does: "One event forward in time", steps: true, work: () => step(1) },
  { keys: ["[", ","], does: "One event back in time", steps: true, work: () => step(-1) },
  { keys: ["Escape"], does: "Close the event", when: selectedSeq, work: () => select(0) },
]);
