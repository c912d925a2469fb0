// What every page needs: local times, messages, keys, dialogs, menus and copying.

import "./keys.js";
import "./theme.js";
import { showTimes } from "./times.js";
import { showError } from "./toasts.js";

const TICK = 30_000;
const LOOK = 2_000;

showTimes();
setInterval(() => showTimes(), TICK);
document.addEventListener("htmx:load", (event) => showTimes(event.detail.elt));

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

/* A link whose target is the dialog's content is a page of its own; with scripts it opens in the dialog. */
const dialog = document.getElementById("dialog");
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "dialog-content" && !dialog.open) dialog.showModal();
});

document.addEventListener("click", (event) => {
  const closer = event.target.closest("[data-close-dialog]");
  if (closer) {
    const open = closer.closest("dialog[open]");
    if (open) {
      event.preventDefault();
      open.close();
    }
  }
  const opener = event.target.closest("[data-open-dialog]");
  if (opener) document.getElementById(opener.dataset.openDialog)?.showModal();
  if (event.target instanceof HTMLDialogElement) event.target.close();
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target) || event.target.closest(".menu-list a")) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing) return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

/* <button data-copy="text"> copies its text; with data-copy-from, the text of the element of that id. */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  const text = button.dataset.copy ?? document.getElementById(button.dataset.copyFrom)?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    flash(button);
  } catch {
    showError("The text could not be copied.", "This browser allows copying only on https or localhost.");
  }
});

function flash(button) {
  const use = button.querySelector("use");
  if (!use) return;
  const before = use.getAttribute("href");
  use.setAttribute("href", before.replace(/#.*$/, "#ok"));
  setTimeout(() => use.setAttribute("href", before), 1200);
}
