// Session list: ticked rows, actions on them, and keys.

import { declare } from "../core/shortcuts.js";

const form = document.getElementById("session-actions");
const ticked = new Set();
let lastTicked = null;

const boxes = () => [...document.querySelectorAll("main .pick input[name=session]")];
const rowOf = (element) => element?.closest("tr");
const boxOf = (row) => row?.querySelector(".pick input[name=session]");
const linkOf = (row) => row?.querySelector(".row-link");
const focusedRow = () => rowOf(document.activeElement?.closest("main tbody tr > *"));

/** Store which rows are ticked. */
function keepTicked() {
  for (const box of boxes()) ticked[box.checked ? "add" : "delete"](box.value);
  showTicked();
}

function showTicked() {
  const all = boxes();
  const count = all.filter((box) => ticked.has(box.value)).length;
  form.querySelector("[data-ticked]").textContent = `${count} ticked`;
  const head = document.querySelector("[data-tick-all]");
  if (!head) return;
  head.checked = count > 0 && count === all.length;
  head.indeterminate = count > 0 && count < all.length;
}

function tick(box, isOn, upTo) {
  const all = boxes();
  const from = upTo && lastTicked ? all.findIndex((each) => each.value === lastTicked) : -1;
  const to = all.indexOf(box);
  const range = from < 0 ? [box] : all.slice(Math.min(from, to), Math.max(from, to) + 1);
  for (const each of range) each.checked = isOn;
  lastTicked = box.value;
  keepTicked();
}

document.addEventListener("click", (event) => {
  const box = event.target.closest(".pick input[name=session]");
  if (box) tick(box, box.checked, event.shiftKey);
  if (event.target.matches("[data-tick-all]")) {
    for (const each of boxes()) each.checked = event.target.checked;
    keepTicked();
  }
});

form.addEventListener("reset", () => {
  for (const box of boxes()) box.checked = false;
  setTimeout(keepTicked);
});

/* Escape, or a tag that was put on, leaves what is done with the ticked rows for the row that one came from. */
const field = form.elements.tag;
let returnFocus = "";

function focusTag() {
  returnFocus = document.activeElement.id;
  field.focus();
  field.select();
}

function focusRow() {
  const row = document.getElementById(returnFocus) ?? linkOf(rowOf(boxes().find((box) => box.checked)));
  row?.focus();
}

document.addEventListener("done", () => document.activeElement === field && focusRow());

form.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  focusRow();
  form.reset();
});

/* A row that is shown anew stays ticked. */
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  for (const box of elt.querySelectorAll(".pick input[name=session]")) box.checked = ticked.has(box.value);
  showTicked();
});

/* A look that goes on adds to what the page shows by now. A new search ends it. */
document.addEventListener("htmx:configRequest", ({ detail: { elt, parameters } }) => {
  const asks = elt.id === "looking" && document.getElementById("watch")?.getAttribute("hx-get");
  const watched = new URLSearchParams(asks ? asks.split("?")[1] : "");
  for (const name of ["rows", "since", "new_count"]) if (watched.has(name)) parameters.set(name, watched.get(name));
});

let look = null;
document.addEventListener("htmx:beforeSend", ({ detail: { elt, xhr } }) => {
  if (elt.id === "looking") look = xhr;
});

/* The next look may be due while the search waits for its answer, so this happens at both ends. */
for (const name of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
  document.addEventListener(name, ({ detail: { target } }) => {
    if (target.id === "sessions") look?.abort();
  });
}

let mayExport = false;

/* Everything happens without leaving the page. An export that is refused would leave it, so it is asked for first. */
form.addEventListener("submit", (event) => {
  if (event.submitter?.formMethod === "get") return; // it leads to a page of its own
  const act = event.submitter?.value ?? "tag";
  if (act === "export" && mayExport) {
    mayExport = false;
    return;
  }
  event.preventDefault();
  const values = new URLSearchParams({ act, tag: field.value });
  if (!act.includes(":")) for (const box of boxes()) if (box.checked) values.append("session", box.value);
  if (act.startsWith("delete")) leave(act);
  send(values);
});

function send(values) {
  const sent = { act: values.get("act"), tag: values.get("tag"), session: values.getAll("session") };
  window.htmx.ajax("POST", form.action, { source: "#toasts", target: "#toasts", swap: "beforeend", values: sent });
}

/** Move the focus to a remaining row when the focused row is removed. */
function leave(act) {
  const key = act.split(":")[1];
  const isGoing = (row) => (key ? boxOf(row).value === key : boxOf(row).checked);
  const rows = boxes().map(rowOf);
  const at = rows.indexOf(focusedRow());
  if (at < 0 || !isGoing(rows[at])) return;
  const next = rows.slice(at).find((row) => !isGoing(row)) ?? rows.slice(0, at).findLast((row) => !isGoing(row));
  linkOf(next)?.focus();
}

document.addEventListener("export-ready", () => {
  mayExport = true;
  form.requestSubmit(form.querySelector("button[value=export]"));
});

/** Restored sessions are sorted by time, so the list is reloaded. */
document.addEventListener("sessions-back", () => {
  window.htmx.ajax("GET", location.pathname + location.search, { source: "#sessions", target: "#sessions" });
});

/** Apply an action to the ticked rows, or to the focused row. */
function act(verb) {
  const row = focusedRow();
  if (hasTicked()) form.querySelector(`button[value="${verb}"]`).click();
  else row.querySelector(`.row-actions button[value^="${verb}"], .row-actions button[value^="un${verb}"]`).click();
}

const hasTicked = () => boxes().some((box) => box.checked);
const isOnRow = () => boxOf(focusedRow());
const hasTarget = () => hasTicked() || isOnRow();

declare("Sessions", [
  { keys: ["x"], does: "Tick the session", when: isOnRow, work: () => tick(isOnRow(), !isOnRow().checked, false) },
  { keys: ["X"], does: "Tick all from the last one to it", when: isOnRow, work: () => tick(isOnRow(), true, true) },
  { keys: ["e"], does: "Rename the session", when: isOnRow, work: () => focusedRow().querySelector(".row-actions a").click() },
  { keys: ["p"], does: "Pin it, or those that are ticked", when: hasTarget, work: () => act("pin") },
  { keys: ["t"], does: "Tag those that are ticked", when: hasTicked, work: focusTag },
  { keys: ["#", "Delete"], does: "Delete it, or those that are ticked; this can be undone", when: hasTarget, work: () => act("delete") },
  { keys: ["Escape"], does: "Untick all", when: hasTicked, work: () => form.reset() },
]);

keepTicked();
