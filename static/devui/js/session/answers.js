// Answers to an agent's questions. An answer is sent once; its errors are shown at their fields.

import { focusFirstError, markErrors, clearMarks } from "../core/form-errors.js";

let number = 0;

const questionOf = (element) => element?.closest?.("form.question");

/** Move each field's error below the field; errors of the whole form stay in place. */
function placeErrors(form, problems) {
  for (const { field, message } of markErrors(form, problems)) {
    const error = document.createElement("span");
    error.className = "error-text small";
    error.id = `answer-problem-${++number}`;
    error.dataset.descriptionIds = field.getAttribute("aria-describedby") ?? "";
    error.append(...message.childNodes);
    field.setAttribute("aria-describedby", `${error.id} ${error.dataset.descriptionIds}`.trim());
    (field.closest(".checks") ?? field).after(error);
    message.remove();
  }
  focusFirstError(form);
}

/** Clear the errors. */
function clearErrors(form) {
  clearMarks(form);
  for (const error of form.querySelectorAll("[data-description-ids]")) {
    for (const field of form.querySelectorAll(`[aria-describedby~="${error.id}"]`)) {
      if (error.dataset.descriptionIds) field.setAttribute("aria-describedby", error.dataset.descriptionIds);
      else field.removeAttribute("aria-describedby");
    }
    error.remove();
  }
  form.querySelector(".question-problems")?.replaceChildren();
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const form = questionOf(event.detail.elt);
  if (!form) return;
  clearErrors(form);
  lock(form, "Sending…");
});

document.addEventListener("htmx:afterRequest", (event) => {
  const form = questionOf(event.detail.elt);
  if (!form) return;
  const { status } = event.detail.xhr; // htmx calls a refused form a success, because it is shown
  if (status >= 200 && status < 400) lock(form, "Answered. The agent continues.");
  else unlock(form);
});

/* --- An answered question is locked, until its run ends without taking the answer --- */

function lock(form, text) {
  const state = form.querySelector(".question-state");
  const hadFocus = form.contains(document.activeElement);
  form.querySelector(".question-fields").disabled = true;
  state.textContent = text;
  if (hadFocus) state.focus();
}

function unlock(form, text = "") {
  form.querySelector(".question-fields").disabled = false;
  form.querySelector(".question-state").textContent = text;
}

const runs = document.getElementById("runs");

if (runs) {
  new MutationObserver(() => {
    if (Number(runs.querySelector(".runs")?.dataset.active)) return;
    for (const form of document.querySelectorAll("form.question:not(.htmx-request):has(.question-fields:disabled)")) {
      unlock(form, "The run has ended, and the question is still open.");
    }
  }).observe(runs, { childList: true });
}

document.addEventListener("htmx:afterSwap", (event) => {
  const form = questionOf(event.detail.target);
  if (!form || !event.detail.target.matches(".question-problems")) return;
  unlock(form);
  placeErrors(form, event.detail.target);
});
