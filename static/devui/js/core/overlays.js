// Overlays: dialogs, menus and sheets, with all the ways to open and close them.

import { declare, showHelp } from "./shortcuts.js";

const dialog = document.getElementById("dialog");

/* A link whose target is the dialog's content is a page of its own; with scripts it opens in the dialog. On that page
   a form stays where it is when it comes back with its errors. */
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const { elt } = detail.requestConfig;
  const own = elt.matches("form") && elt.closest("main > .panel");
  if (own && detail.target.id === "dialog-content") detail.target = own;
});
let opener = null;
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id !== "dialog-content" || dialog.open) return;
  opener = document.activeElement.closest("a[hx-get]");
  dialog.showModal();
});

/* A live update may replace the link that opened the dialog: the focus goes to the link in its place. */
dialog.addEventListener("close", () => {
  if (!opener || opener.isConnected) return;
  document.querySelector(`a[hx-get="${CSS.escape(opener.getAttribute("hx-get"))}"]`)?.focus();
});
document.addEventListener("done", () => dialog.close());

/* A click beside a dialog closes it, but not one that began in it, as when text is marked. */
let pressedElement = null;
document.addEventListener("pointerdown", (event) => {
  pressedElement = event.target;
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
  if (event.target instanceof HTMLDialogElement && event.target === pressedElement) event.target.close();
  if (event.target.closest("a, button")) event.target.closest(":popover-open")?.hidePopover();
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target) || event.target.closest(".menu-list a:not([data-keeps-menu])")) menu.open = false;
  }
});

/* A menu that the focus has left is done with. */
document.addEventListener("focusout", ({ target, relatedTarget }) => {
  const menu = target.closest("details.menu[open]");
  if (menu && relatedTarget && !menu.contains(relatedTarget)) menu.open = false;
});

function closeMenus() {
  const menus = [...document.querySelectorAll("details.menu[open]")];
  for (const menu of menus) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  return menus.length > 0;
}

declare("Everywhere", [{ keys: ["Escape"], does: "Close the open dialog or menu", work: closeMenus }]);
