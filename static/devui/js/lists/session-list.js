// Session list: actions on the selected rows, and keys.

import { declare } from "../core/shortcuts.js";
import { NAMES, rememberList } from "../core/storage.js";
import { boxes, boxOf, focusedRow, hasSelection, isOnRow, rowOf, tickedBoxes } from "./selection.js";

const form = document.getElementById("session-actions");
const linkOf = (row) => row?.querySelector(".row-link");

/* Escape, or a saved tag, moves the focus from the actions back to the row. */
const field = form.elements.tag;
let returnFocus = "";

function focusTag() {
  returnFocus = document.activeElement.id;
  field.focus();
  field.select();
}

function focusRow() {
  const row = document.getElementById(returnFocus) ?? linkOf(rowOf(tickedBoxes()[0]));
  row?.focus();
}

document.addEventListener("done", () => document.activeElement === field && focusRow());

document.addEventListener("selection-left", focusRow);

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

/* The session page shows the hits of the search from which it was opened. */
document.addEventListener("click", ({ target }) => {
  if (!target.closest("#sessions tbody a") || !new URLSearchParams(location.search).get("q")) return;
  const rows = [...document.querySelectorAll("#sessions tbody tr")].filter(linkOf);
  const hits = rows.map((row) => {
    const hit = row.querySelector(".session-last a") ?? linkOf(row);
    return `${hit.getAttribute("href")} ${linkOf(row).textContent.trim()} · ${hit.textContent.trim()}`;
  });
  rememberList(NAMES.hits, [location.pathname + location.search, ...hits]);
});

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
  if (!action.includes(":")) for (const box of tickedBoxes()) values.append("session", box.value);
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

const hasTarget = () => hasSelection() || isOnRow();

declare("Sessions", [
  { keys: ["e"], does: "Rename the session", when: isOnRow, work: () => focusedRow().querySelector(".row-actions a").click() },
  { keys: ["p"], does: "Pin the focused session, or the selected ones", when: hasTarget, work: () => run("pin") },
  { keys: ["t"], does: "Tag the selected sessions", when: hasSelection, work: focusTag },
  { keys: ["#", "Delete"], does: "Delete the focused session, or the selected ones; this can be undone", when: hasTarget, work: () => run("delete") },
]);
