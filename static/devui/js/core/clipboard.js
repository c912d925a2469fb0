// Copy buttons: <button data-copy="text"> copies its text; data-copy-from copies the text of the element with that id.

import { showError } from "./toasts.js";

const announcer = document.getElementById("announcer");

/** Copy a text; confirm it on the button and, on pages with an announcer, to screen readers. */
export async function copy(button, text) {
  announce(""); // the same text is not announced twice
  try {
    await navigator.clipboard.writeText(text);
    flash(button);
    announce("Copied");
  } catch {
    showError("The text could not be copied.", "This browser allows copying only on https or localhost.");
  }
}

function announce(text) {
  if (announcer) announcer.textContent = text;
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
