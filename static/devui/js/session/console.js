// Message form. Enter sends and Shift+Enter adds a line.

import { dropFiles, hasFiles } from "./console-files.js";
import { keepOptions } from "./console-options.js";
import { isSendKey } from "../core/input-method.js";
import { declare, focusOn } from "../core/shortcuts.js";
import { NAMES, recallList, rememberList } from "../core/storage.js";
import { focusFirstError, markErrors } from "../core/form-errors.js";
import { toEnd } from "./timeline.js";

const MAX_MESSAGES = 50;
const SENT_TEXT = "Sent";

const form = document.querySelector("[data-console]");
const message = form?.elements.namedItem("message");
const problems = document.getElementById("console-problems");

form?.addEventListener("keydown", (event) => {
  if (event.target !== message || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.isComposing || event.keyCode === 229) return;
  if (isSendKey(event)) {
    event.preventDefault();
    if (message.value.trim() || hasFiles()) form.requestSubmit();
  } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    if (!event.shiftKey && goThrough(event.key === "ArrowUp" ? -1 : 1)) event.preventDefault();
  }
});

/* --- Earlier messages --- */

let place = 0;
let unsent = "";
const storedMessages = () => recallList(NAMES.messages(form.dataset.app));

/** Recall the previous or next message; within a message of several lines the arrows move the caret. */
function goThrough(step) {
  const messages = storedMessages();
  const isAtEdge = step < 0 ? !message.value.slice(0, message.selectionStart).includes("\n")
    : !message.value.slice(message.selectionEnd).includes("\n");
  const next = place + step;
  if (!isAtEdge || next > 0 || -next > messages.length) return false;
  if (place === 0) unsent = message.value;
  place = next;
  message.value = place ? messages.at(place) : unsent;
  message.setSelectionRange(message.value.length, message.value.length);
  return true;
}

function storeMessage(text) {
  if (text.trim()) rememberList(NAMES.messages(form.dataset.app), [...storedMessages().filter((each) => each !== text), text].slice(-MAX_MESSAGES));
}

/* --- Sending: a form gives its run an id, so that what is sent twice runs once --- */

const runs = document.getElementById("runs");
const state = document.getElementById("console-state");
let hasRunState = false;

if (runs) {
  new MutationObserver(() => {
    hasRunState = true;
    if (state?.textContent === SENT_TEXT) state.textContent = "";
  }).observe(runs, { childList: true });
}

function renewId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  form.elements.namedItem("send_id").value = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt !== form) return;
  hasRunState = false;
  state.textContent = "Sending…";
});

document.addEventListener("htmx:afterRequest", (event) => {
  const { elt, xhr } = event.detail; // htmx calls a refused form a success, because it is shown
  if (elt !== form) return;
  state.textContent = "";
  if (xhr.status < 200 || xhr.status >= 400) return;
  renewId();
  if (!hasRunState) state.textContent = SENT_TEXT;
  storeMessage(message.value);
  place = 0;
  message.value = unsent = "";
  dropFiles();
  options.sent();
  form.querySelector(".pause-at")?.removeAttribute("open");
  showProblems("");
  message.focus();
  toEnd();
});

/** Show the form's errors and mark their fields. */
function showProblems(html) {
  problems.innerHTML = html;
  mark();
}

function mark() {
  for (const { field } of markErrors(form, problems)) {
    if (field.closest("#console-options")) options.open();
    field.closest(".pause-at")?.setAttribute("open", "");
  }
  focusFirstError(form);
}

document.addEventListener("htmx:afterSwap", (event) => event.detail.target === problems && mark());

const options = form && keepOptions(form);

declare("In this session", [
  { keys: ["m"], does: "Write a message", when: () => message, work: () => focusOn(message) },
  { keys: ["o"], does: "Options of a message", when: () => message, work: () => options.toggle() },
]);
