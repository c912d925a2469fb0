// Modules that every page needs: local times, messages, shortcuts, dialogs, menus, forms and copying.

import "./input-method.js";
import "./clipboard.js";
import "./overlays.js";
import "./command-palette.js";
import "./focus.js";
import { showCurrent } from "./tab-strips.js";
import "./theme.js";
import { showTimes } from "./times.js";

const TICK = 30_000;
const LOOK = 2_000;

showCurrent();
showTimes();
setInterval(() => showTimes(), TICK);
document.addEventListener("htmx:load", ({ detail: { elt } }) => {
  showTimes(elt);
  showCurrent(elt);
});

/* Lists on screen look whether they have changed, as long as somebody sees them. */
setInterval(() => {
  if (document.visibilityState === "visible") document.body.dispatchEvent(new Event("look"));
}, LOOK);

/* A filter that is not set does not stand in the address. */
document.addEventListener("htmx:configRequest", (event) => {
  if (!event.target.matches("form.filters")) return;
  for (const [name, value] of [...event.detail.formData]) {
    if (value === "") event.detail.formData.delete(name);
  }
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

/* An impatient second click sends a form no second time. */
let sent = new WeakSet();
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !form.matches("[method=post]:not([data-repeats])")) return;
  if (sent.has(form)) event.preventDefault();
  sent.add(form);
});
addEventListener("pageshow", () => {
  sent = new WeakSet();
});
