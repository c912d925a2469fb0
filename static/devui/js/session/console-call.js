// Copies the message form's request as a call for other programs. The server renders the call.

import { chosenFiles } from "./console-files.js";
import { copy } from "../core/clipboard.js";
import { errorOf, showError } from "../core/toasts.js";

/** Copy the call in the language of the button, or show the form's errors. */
export async function copyCall(form, button) {
  const body = new FormData(form);
  body.delete("files");
  for (const file of chosenFiles()) body.append("file_name", file.name);
  const headers = { "HX-Request": "true", "HX-Target": "console-call" };
  const response = await fetch(form.dataset.call, { method: "POST", body, headers }).catch(() => null);
  const html = await response?.text();
  if (!response?.ok) {
    showError(...(response ? problemOf(html, response.status) : ["The server cannot be reached."]));
    return;
  }
  const page = new DOMParser().parseFromString(html, "text/html");
  copy(button, page.getElementById(`call-${button.dataset.copyCall}`).textContent);
}

/** Return the message of a refusal: form errors arrive as an HTML list, others as the usual error responses. */
function problemOf(html, status) {
  const message = new DOMParser().parseFromString(html, "text/html").querySelector("[data-problem-for]");
  return message ? [message.textContent.trim()] : errorOf(html, status);
}
