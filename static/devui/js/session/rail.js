// Rail beside the timeline: position of the screen in the whole session, ticks for errors, and a handle to go anywhere.

import { seqOf } from "./timeline-rows.js";
import * as timeline from "./timeline.js";

const LEAST_HANDLE = 18;
const DRAG_PAUSE = 120;

const rail = document.getElementById("rail");
const handle = rail.querySelector(".rail-handle");
const bubble = rail.querySelector(".rail-at");
const ticks = rail.querySelector("svg");
const form = document.getElementById("go-to");

/** Show the position of the screen. */
export function show() {
  const total = timeline.lastKnown();
  const [first, last] = timeline.onScreen();
  rail.hidden = !total;
  form.hidden = !total;
  if (!first) return;
  place(first, last - first + 1, total);
  rail.setAttribute("aria-valuemax", total);
  rail.setAttribute("aria-valuenow", last);
  rail.setAttribute("aria-valuetext", `events ${first} to ${last} of ${total}`);
  ticks.setAttribute("viewBox", `0 0 1 ${total}`);
  form.querySelector("[data-total]").textContent = total.toLocaleString("en");
  const field = form.elements.seq;
  field.max = total;
  if (document.activeElement !== field) field.value = last;
}

/** Add ticks for errors in events that arrived after the page was loaded. */
export function noteErrors() {
  const path = ticks.querySelector("path");
  const pathData = path.getAttribute("d");
  const seqs = [...document.querySelectorAll("#events .event.is-error[data-seq]")].map(seqOf);
  const fresh = seqs.map((seq) => `M0 ${seq}h1`).filter((tick) => !pathData.includes(tick));
  if (fresh.length) path.setAttribute("d", pathData + fresh.join(""));
}

function place(first, number, total) {
  const height = rail.clientHeight;
  const size = Math.min(height, Math.max(LEAST_HANDLE, (number / total) * height));
  const most = Math.max(1, total - number);
  handle.style.height = `${size}px`;
  handle.style.translate = `0 ${Math.min(1, (first - 1) / most) * (height - size)}px`;
}

const seqAt = (y) => {
  const { top, height } = rail.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (y - top) / height));
  return Math.max(1, Math.round(share * timeline.lastKnown()));
};

let targetSeq = 0;
let timer = 0;

function aimAt(y) {
  targetSeq = seqAt(y);
  const { top, height } = rail.getBoundingClientRect();
  bubble.hidden = false;
  bubble.textContent = targetSeq.toLocaleString("en");
  bubble.style.top = `${Math.min(height - 12, Math.max(12, y - top))}px`;
  clearTimeout(timer);
  timer = setTimeout(go, DRAG_PAUSE);
}

function go() {
  clearTimeout(timer);
  if (targetSeq >= timeline.lastKnown()) document.dispatchEvent(new CustomEvent("timeline:go-to-end", { detail: "end" }));
  else timeline.goTo(targetSeq);
}

rail.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  event.preventDefault();
  rail.setPointerCapture(event.pointerId);
  rail.focus({ preventScroll: true });
  aimAt(event.clientY);
});
rail.addEventListener("pointermove", (event) => rail.hasPointerCapture(event.pointerId) && aimAt(event.clientY));
rail.addEventListener("pointerup", (event) => {
  if (!rail.hasPointerCapture(event.pointerId)) return;
  bubble.hidden = true;
  go();
});
rail.addEventListener("pointercancel", () => {
  bubble.hidden = true;
});

const STEPS = new Map([["ArrowUp", -0.15], ["ArrowDown", 0.15], ["PageUp", -0.9], ["PageDown", 0.9]]);
rail.addEventListener("keydown", (event) => {
  if (!STEPS.has(event.key)) return;
  event.preventDefault();
  timeline.scrollScreens(STEPS.get(event.key));
});

document.addEventListener("timeline:scrolled", show);
new ResizeObserver(show).observe(rail.parentElement);
