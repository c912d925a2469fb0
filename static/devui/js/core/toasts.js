// Toasts. They stay until they are closed, because an error that disappears cannot be read.

import { plain } from "./visible-characters.js";

const MOST = 5;
const region = document.getElementById("toasts");
const askers = new WeakMap(); // an error → who asked for what was refused

/** Move the toasts into the open dialog, if there is one, where they can be seen, announced and closed. */
function place() {
  const [dialog] = document.querySelectorAll("dialog:modal");
  (dialog ?? document.body).append(region);
}

document.addEventListener("close", (event) => event.target.contains(region) && document.body.append(region), true);

/** Show an error with an optional hint. It disappears when a later request of `asker` succeeds. */
export function showError(message, hint = "", asker = null) {
  if (!region.closest("dialog[open]")) place();
  const toast = document.getElementById("toast-template").content.firstElementChild.cloneNode(true);
  toast.querySelector("[data-message]").textContent = plain(message);
  toast.querySelector("[data-hint]").textContent = plain(hint);
  for (const same of [...region.children].filter((each) => each.textContent === toast.textContent)) same.remove();
  region.append(toast);
  if (asker) askers.set(toast, asker);
  while (region.children.length > MOST) region.firstElementChild.remove();
}

document.addEventListener("click", (event) => event.target.closest("[data-close-toast]")?.closest(".toast").remove());

/** Parse an error response: DevUI's JSON, or the HTML error page. */
export function errorOf(text, status) {
  try {
    const body = JSON.parse(text);
    if (typeof body.detail === "string") return [body.detail, body.hint ?? ""];
  } catch {
    const page = new DOMParser().parseFromString(text, "text/html");
    const message = page.querySelector("[data-error-message]")?.textContent.trim();
    if (message) return [message, page.querySelector("[data-error-hint]")?.textContent.trim() ?? ""];
  }
  return [`The server answered ${status}.`, "Reload the page; if it stays, look at the server's log."];
}

/** Return the origin of a request. A question keeps its identity when its form is rendered again. */
const askerOf = ({ elt }) => elt?.dataset?.question ?? elt;

/* What a page asks by itself fails quietly: it asks again. */
const isQuiet = (event) => event.detail.elt?.matches?.("[data-quiet]");

document.addEventListener("htmx:responseError", (event) => {
  if (isQuiet(event)) return;
  const { xhr } = event.detail;
  showError(...errorOf(xhr.responseText, xhr.status), askerOf(event.detail));
});
document.addEventListener("htmx:sendError", (event) => {
  event.detail.elt?.classList?.add("is-cut-off");
  if (isQuiet(event)) return;
  showError("The server cannot be reached.", "Is it still running? Nothing was changed.", askerOf(event.detail));
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (!event.detail.successful) return;
  event.detail.elt?.classList?.remove("is-cut-off");
  const asker = askerOf(event.detail);
  for (const toast of [...region.children].filter((each) => asker && askers.get(each) === asker)) toast.remove();
});
