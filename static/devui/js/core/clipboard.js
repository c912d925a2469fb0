// Copy buttons: <button data-copy="text"> copies its text; data-copy-from copies the text of the element with that id.

import { showError } from "./toasts.js";

/** Copy a text and confirm it on the button. Return whether it was copied. */
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    flash(button);
    return true;
  } catch {
    showError("The text could not be copied.", "This browser allows copying only on https or localhost.");
    return false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  copy(button, button.dataset.copy ?? document.getElementById(button.dataset.copyFrom)?.textContent ?? "");
});

function flash(button) {
  const use = button.querySelector("use");
  if (!use) return;
  const before = use.getAttribute("href");
  use.setAttribute("href", before.replace(/#.*$/, "#ok"));
  setTimeout(() => use.setAttribute("href", before), 1200);
}
