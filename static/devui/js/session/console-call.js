// What a form would send, as a call for other programs: made by the server, put into the clipboard.

import { chosenFiles } from "./console-files.js";
import { copy } from "../core/clipboard.js";
import { errorOf, showError } from "../core/toasts.js";

/** Copy the call in the language that a button names, or say what is wrong with the form. */
export async function copyCall(form, button) {
  const body = new FormData(form);
  body.delete("files");
  for (const file of chosenFiles()) body.append("file_name", file.name);
  const headers = { "HX-Request": "true", "HX-Target": "console-call" };
  const answer = await fetch(form.dataset.call, { method: "POST", body, headers }).catch(() => null);
  const html = await answer?.text();
  if (!answer?.ok) {
    showError(...(answer ? toldBy(html, answer.status) : ["The server cannot be reached."]));
    return;
  }
  const page = new DOMParser().parseFromString(html, "text/html");
  copy(button, page.getElementById(`call-${button.dataset.copyCall}`).textContent);
}

/** The problems of a form come as a list, other refusals as they always do. */
function toldBy(html, status) {
  const said = new DOMParser().parseFromString(html, "text/html").querySelector("[data-problem-for]");
  return said ? [said.textContent.trim()] : errorOf(html, status);
}
