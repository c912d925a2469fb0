// Eval run page: attempts beside the matrix, and live updates.

import { fetchPart, keepFocus, throttle } from "../core/fragment.js";
import { declare, isPlainClick } from "../core/shortcuts.js";
import { Live } from "../core/live-socket.js";
import { showTimes } from "../core/times.js";

/* --- A run: the address says which attempt is open, so Back works and a link opens the same view. --- */

const page = document.querySelector(".run-page");
const pane = document.getElementById("attempt");
/** Width at which the attempt replaces the matrix. */
const narrow = matchMedia("(max-width: 1099px)");
const attemptOf = (url) => new URL(url, location.href).searchParams.get("attempt") ?? "";

/** Announce news in one line to screen readers. */
function announceText(text) {
  const line = text.replace(/\s+/g, " ").trim();
  const announcer = document.getElementById("run-announcer");
  if (announcer.textContent !== line) announcer.textContent = line;
}

/** Return this page's address with another attempt open, or with none. */
function addressOf(attempt) {
  const query = new URLSearchParams(location.search);
  query.delete("attempt");
  if (attempt) query.set("attempt", attempt);
  return `${location.pathname}?${query}`.replace(/\?$/, "");
}

async function show(attempt, { push = true } = {}) {
  if (push && attempt !== page.dataset.attemptShown) history.pushState(null, "", addressOf(attempt));
  page.dataset.attemptShown = attempt;
  mark();
  if (!attempt) {
    pane.replaceChildren();
    return;
  }
  const html = await fetchPart(addressOf(attempt), "attempt");
  if (html === null || page.dataset.attemptShown !== attempt) return;
  const open = new Set([...pane.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
  const first = !pane.childElementCount;
  if (!push && isBeingWritten()) return;
  keepFocus(pane, () => { pane.innerHTML = html; });
  if (push) announceText(`Opened: ${pane.querySelector("h2").textContent}`);
  if (first && push && narrow.matches) pane.scrollIntoView();
  for (const summary of pane.querySelectorAll("summary")) {
    if (open.has(summary.textContent)) summary.parentElement.open = true;
  }
  showTimes(pane);
}

/** Tell whether the shown attempt has unsaved input, which an update must not discard. */
const isBeingWritten = () => [...pane.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);

/** Show in the matrix which attempt is open. */
function mark() {
  for (const row of page.querySelectorAll("tr[aria-current]")) row.removeAttribute("aria-current");
  for (const link of page.querySelectorAll("a[aria-current]")) link.removeAttribute("aria-current");
  if (!page.dataset.attemptShown) return;
  for (const link of page.querySelectorAll(`[data-attempt="${CSS.escape(page.dataset.attemptShown)}"]`)) {
    link.setAttribute("aria-current", "true");
    link.closest("tr.case")?.setAttribute("aria-current", "true");
  }
}

function step(by) {
  const rows = [...page.querySelectorAll("#cases > tr.case")];
  const at = rows.findIndex((row) => row.hasAttribute("aria-current"));
  const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  if (!row) return;
  row.scrollIntoView({ block: "nearest" });
  show(row.querySelector("[data-attempt]").dataset.attempt);
}

if (page) {
  document.addEventListener("click", (event) => {
    if (!isPlainClick(event)) return;
    const link = event.target.closest("[data-attempt], [data-close-attempt]");
    const row = event.target.closest("#cases > tr.case");
    if (link) {
      event.preventDefault();
      show(link.dataset.attempt ?? "");
    } else if (row && !event.target.closest("a, button, summary") && getSelection().isCollapsed) {
      show(row.querySelector("[data-attempt]").dataset.attempt);
    }
  });
  addEventListener("popstate", () => show(attemptOf(location.href), { push: false }));
  declare("In this run", [
    { keys: ["j"], does: "Next attempt", work: () => step(1) },
    { keys: ["k"], does: "Previous attempt", work: () => step(-1) },
    { keys: ["Escape"], does: "Close the attempt", when: () => page.dataset.attemptShown, work: () => show("") },
  ]);
  mark();
}

/* --- While it runs: rows change in place, so nothing moves under the reader. --- */

const summary = document.getElementById("summary");

const filters = document.getElementById("filters");
const cases = () => document.getElementById("matrix");

async function countCases() {
  const html = await fetchPart(location.href, "filters");
  if (html !== null) keepFocus(filters, () => { filters.innerHTML = html; });
}
/** Whether the message about the run's end has arrived. */
let hasEnded = false;
/** Count the cases, at most once a second. Not after the run's end: a newer request would abort the last count. */
const countCasesSoon = throttle(1000, () => { if (!hasEnded) countCases(); });

/** Reload the cases of the page in their current order. */
async function reloadCases() {
  const url = new URL(location.href);
  if (!url.searchParams.has("order")) url.searchParams.set("order", "file");
  const html = await fetchPart(url.href, "matrix");
  if (html === null) return;
  keepFocus(cases(), () => { cases().innerHTML = html; });
  mark();
}

/** Announce the run's progress, but not with every attempt. */
const announce = throttle(5000, () => announceText(summary.querySelector(".outcome-count").textContent));

/** Milliseconds in which a click counts for the previous content if the pointer does not move. */
const MEANT_BEFORE_MS = 1000;

/** The control that moved under a resting pointer, until the pointer moves. */
let movedControl = null;

/** Replace the summary. A control that moves under the pointer is inactive until the pointer moves. */
function showSummary(html) {
  const under = summary.querySelector("a:hover, button:hover, summary:hover")?.dataset.command;
  keepFocus(summary, () => { summary.innerHTML = html; });
  showTimes(summary);
  if (under && !summary.querySelector(`[data-command="${CSS.escape(under)}"]`)) movedControl = performance.now();
}

summary?.addEventListener("pointermove", () => { movedControl = null; });
summary?.addEventListener("click", (event) => {
  if (movedControl === null || performance.now() - movedControl > MEANT_BEFORE_MS) return;
  event.preventDefault();
  event.stopPropagation();
}, true);

/** Replace the changed rows in place. */
function replaceRows(rows) {
  for (const { id, html } of rows) {
    const row = document.getElementById(id);
    if (!row) continue;
    const template = document.createElement("template");
    template.innerHTML = html;
    const newer = template.content.querySelector("tr");
    const focused = row.contains(document.activeElement) ? document.activeElement.dataset.attempt : undefined;
    row.replaceWith(newer);
    if (focused) newer.querySelector(`[data-attempt="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
  mark();
}

/** Apply an update of the run. At the end tabs, cases and summary change together. */
async function apply(message) {
  if (message.type === "beat") return;
  const isEnd = message.type === "end";
  summary.dataset.cursor = message.cursor;
  if (isEnd) {
    hasEnded = true;
    live.close();
    delete summary.dataset.state;
    await countCases();
  } else {
    countCasesSoon();
  }
  if (message.many) await reloadCases();
  else replaceRows(message.rows);
  if (message.summary) {
    showSummary(message.summary);
    announce();
  }
  if (message.attempts.map(String).includes(page.dataset.attemptShown)) show(page.dataset.attemptShown, { push: false });
}

const address = () => {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}${summary.dataset.live}?after=${summary.dataset.cursor}`;
};
const live = summary?.dataset.live ? new Live(address, apply, (state) => { summary.dataset.state = state; }) : null;
live?.connect();
