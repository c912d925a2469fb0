// Session list: selected rows, actions on them, and keys.

import { declare } from "../core/shortcuts.js";

const form = document.getElementById("session-actions");
const selectedKeys = new Set();
let lastTicked = null;

const boxes = () => [...document.querySelectorAll("main .pick input[name=session]")];
const rowOf = (element) => element?.closest("tr");
const boxOf = (row) => row?.querySelector(".pick input[name=session]");
const linkOf = (row) => row?.querySelector(".row-link");
const focusedRow = () => rowOf(document.activeElement?.closest("main tbody tr > *"));

/** Store which rows are selected. */
function keepTicked() {
  for (const box of boxes()) selectedKeys[box.checked ? "add" : "delete"](box.value);
  showTicked();
}

function showTicked() {
  const all = boxes();
  const count = all.filter((box) => selectedKeys.has(box.value)).length;
  form.querySelector("[data-selected-count]").textContent = `${count} selected`;
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

/* Escape, or a saved tag, moves the focus from the actions back to the row. */
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

/* Keep replaced rows selected. */
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  for (const box of elt.querySelectorAll(".pick input[name=session]")) box.checked = selectedKeys.has(box.value);
  showTicked();
});

/* A continued scan adds to the rows on the page. A new search ends it. */
document.addEventListener("htmx:configRequest", ({ detail: { elt, parameters } }) => {
  const watchUrl = elt.id === "scan-progress" && document.getElementById("watch")?.getAttribute("hx-get");
  const parametersOfWatch = new URLSearchParams(watchUrl ? watchUrl.split("?")[1] : "");
  for (const name of ["rows", "since", "new_count"]) if (parametersOfWatch.has(name)) parameters.set(name, parametersOfWatch.get(name));
});

let scanRequest = null;
document.addEventListener("htmx:beforeSend", ({ detail: { elt, xhr } }) => {
  if (elt.id === "scan-progress") scanRequest = xhr;
});

/* The next scan request may start while the search waits for its response, so abort at both ends. */
for (const name of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
  document.addEventListener(name, ({ detail: { target } }) => {
    if (target.id === "sessions") scanRequest?.abort();
  });
}

let mayExport = false;

/* Act without leaving the page. An export may be refused, so ask first and download then. */
form.addEventListener("submit", (event) => {
  if (event.submitter?.formMethod === "get") return; // it leads to a page of its own
  const action = event.submitter?.value ?? "tag";
  if (action === "export" && mayExport) {
    mayExport = false;
    return;
  }
  event.preventDefault();
  const values = new URLSearchParams({ action, tag: field.value });
  if (!action.includes(":")) for (const box of boxes()) if (box.checked) values.append("session", box.value);
  if (action.startsWith("delete")) moveFocusFrom(action);
  send(values);
});

function send(values) {
  const fields = { action: values.get("action"), tag: values.get("tag"), session: values.getAll("session") };
  window.htmx.ajax("POST", form.getAttribute("action"), { source: "#toasts", target: "#toasts", swap: "beforeend", values: fields });
}

/** Move the focus to a remaining row when the focused row is removed. */
function moveFocusFrom(action) {
  const key = action.split(":")[1];
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

/** Apply an action to the selected rows, or to the focused row. */
function run(verb) {
  const row = focusedRow();
  if (hasSelection()) form.querySelector(`button[value="${verb}"]`).click();
  else row.querySelector(`.row-actions button[value^="${verb}"], .row-actions button[value^="un${verb}"]`).click();
}

const hasSelection = () => boxes().some((box) => box.checked);
const isOnRow = () => boxOf(focusedRow());
const hasTarget = () => hasSelection() || isOnRow();

declare("Sessions", [
  { keys: ["x"], does: "Tick the session", when: isOnRow, work: () => tick(isOnRow(), !isOnRow().checked, false) },
  { keys: ["X"], does: "Tick all from the last one to it", when: isOnRow, work: () => tick(isOnRow(), true, true) },
  { keys: ["e"], does: "Rename the session", when: isOnRow, work: () => focusedRow().querySelector(".row-actions a").click() },
  { keys: ["p"], does: "Pin the focused session, or the selected ones", when: hasTarget, work: () => run("pin") },
  { keys: ["t"], does: "Tag the selected sessions", when: hasSelection, work: focusTag },
  { keys: ["#", "Delete"], does: "Delete the focused session, or the selected ones; this can be undone", when: hasTarget, work: () => run("delete") },
  { keys: ["Escape"], does: "Clear the selection", when: hasSelection, work: () => form.reset() },
]);

keepTicked();
