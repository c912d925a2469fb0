// Modules that every page needs: local times, messages, shortcuts, dialogs, menus, forms and copying.

import { isSendKey } from "./input-method.js";
import "./clipboard.js";
import "./overlays.js";
import "./command-palette.js";
import "./focus.js";
import { showPdfs } from "./pdf-frame.js";
import { isPressed } from "./press.js";
import { showCurrent } from "./tab-strips.js";
import "./theme.js";
import { showTimes } from "./times.js";

const TICK = 30_000;
const POLL_PAUSE = 2_000;

showCurrent();
showTimes();
showPdfs();
setInterval(() => showTimes(), TICK);
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  showTimes(elt);
  showPdfs(elt);
  showCurrent(elt);
});

/* Poll the lists on screen for changes while the page is visible. */
setInterval(() => {
  if (document.visibilityState === "visible") document.body.dispatchEvent(new Event("poll"));
}, POLL_PAUSE);
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (isPressed() && detail.requestConfig.triggeringEvent?.type === "poll") detail.shouldSwap = false; // the next poll brings it
});

/* Details whose summary has an id stay as the reader left them when the part around them is loaded again. */
const openDetails = new Map();
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  openDetails.clear();
  for (const { id, parentElement } of detail.target.querySelectorAll("details > summary[id]")) openDetails.set(id, parentElement.open);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const [id, isOpen] of openDetails) document.getElementById(id)?.parentElement.toggleAttribute("open", isOpen);
});

/* Leave empty filters out of the address. */
document.addEventListener("htmx:configRequest", (event) => {
  if (!event.target.matches("form.filters")) return;
  for (const [name, value] of [...event.detail.formData]) {
    if (value === "") event.detail.formData.delete(name);
  }
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

/* Enter sends a message box and Shift Enter adds a line, except while an input method composes. */
document.addEventListener("keydown", (event) => {
  if (!event.target.matches?.("textarea[data-enter-sends]") || !isSendKey(event)) return;
  event.preventDefault();
  if (event.target.value.trim()) event.target.form.requestSubmit();
});

/* A second click must not send a form again. */
let sentForms = new WeakSet();
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !form.matches("[method=post]:not([data-repeats])")) return;
  if (sentForms.has(form)) event.preventDefault();
  sentForms.add(form);
});
addEventListener("pageshow", () => {
  sentForms = new WeakSet();
});
