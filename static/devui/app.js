// What every page needs: local times, messages, keys, dialogs, menus and copying.

import "./copying.js";
import { declare, showHelp } from "./keys.js";
import "./palette.js";
import "./theme.js";
import { showTimes } from "./times.js";

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
  if (event.target.closest("[data-show-help]")) showHelp();
  if (event.target instanceof HTMLDialogElement) event.target.close();
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target) || event.target.closest(".menu-list a")) menu.open = false;
  }
});

function closeMenus() {
  const menus = [...document.querySelectorAll("details.menu[open]")];
  for (const menu of menus) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  return menus.length > 0;
}

declare("Everywhere", [{ keys: ["Escape"], does: "Close what is open", work: closeMenus }]);

document.addEventListener("done", () => dialog.close());
document.addEventListener("click", (event) => event.target.closest("[data-close-toast]")?.closest(".toast").remove());
