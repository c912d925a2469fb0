// Selection of the rows of a list: ticked boxes, ranges, keys, and a bar of actions on the ticked rows, if the list has one.

import { declare } from "../core/shortcuts.js";

const BOXES = "main td.pick > input";
const selectedKeys = new Set();
let lastTicked = null;

const bar = document.querySelector(".selection-bar");

export const boxes = () => [...document.querySelectorAll(BOXES)];
export const tickedBoxes = () => boxes().filter((box) => box.checked);
export const rowOf = (element) => element?.closest("tr");
export const boxOf = (row) => row?.querySelector("td.pick > input");
export const focusedRow = () => rowOf(document.activeElement?.closest("main tbody tr > *"));
export const isOnRow = () => boxOf(focusedRow());
export const hasSelection = () => tickedBoxes().length > 0;

/** Return the keys of selected rows that are not on this page of the list. */
export function keysElsewhere() {
  const here = new Set(boxes().map(({ value }) => value));
  return [...selectedKeys].filter((key) => !here.has(key));
}

/** Store which rows are selected. */
function keepTicked() {
  for (const box of boxes()) selectedKeys[box.checked ? "add" : "delete"](box.value);
  showTicked();
}

/** Show how many rows are ticked, and dispatch `ticked` so that a page can say what its actions do. */
function showTicked() {
  const all = boxes();
  const count = tickedBoxes().length;
  if (bar) bar.querySelector("[data-selected-count]").textContent = `${count.toLocaleString("en")} selected`;
  const head = document.querySelector("[data-tick-all]");
  if (head) {
    head.checked = count > 0 && count === all.length;
    head.indeterminate = count > 0 && count < all.length;
  }
  document.dispatchEvent(new Event("ticked"));
}

/** Tick a box, or with `isRange` all from the last one to it. */
function tick(box, isOn, isRange) {
  const all = boxes();
  const from = isRange && lastTicked ? all.findIndex(({ value }) => value === lastTicked) : -1;
  const to = all.indexOf(box);
  const range = from < 0 ? [box] : all.slice(Math.min(from, to), Math.max(from, to) + 1);
  for (const ticked of range) ticked.checked = isOn;
  lastTicked = box.value;
  keepTicked();
}

function clearSelection() {
  selectedKeys.clear();
  for (const box of boxes()) box.checked = false;
  keepTicked();
}

/** Tick the boxes within an element whose rows are selected: rows that were replaced stay so. */
export function restoreTicked(element) {
  for (const box of element.querySelectorAll("td.pick > input")) box.checked = selectedKeys.has(box.value);
  showTicked();
}

document.addEventListener("click", (event) => {
  if (event.target.matches(BOXES)) tick(event.target, event.target.checked, event.shiftKey);
  if (event.target.matches("[data-tick-all]")) {
    for (const box of boxes()) box.checked = event.target.checked;
    keepTicked();
  }
});

bar?.addEventListener("reset", clearSelection);

bar?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  document.dispatchEvent(new Event("selection-left"));
  bar.reset();
});

document.addEventListener("htmx:load", ({ detail: { elt } }) => restoreTicked(elt));

declare("Rows", [
  { keys: ["x"], does: "Tick the row", when: isOnRow, work: () => tick(isOnRow(), !isOnRow().checked, false) },
  { keys: ["X"], does: "Tick all rows from the last one to it", when: isOnRow, work: () => tick(isOnRow(), true, true) },
  { keys: ["Escape"], does: "Clear the selection", when: hasSelection, work: () => (bar ? bar.reset() : clearSelection()) },
]);

keepTicked();
