// Answers to what an agent asks: an answer is given once; what is wrong with it stands at its fields.

import { goToMarked, markProblems, unmark } from "./problems.js";

let number = 0;

const questionOf = (element) => element?.closest?.("form.question");

/** Put what is said of a field below it; what is said of the whole stays where it is. */
function placeProblems(form, problems) {
  for (const { field, said } of markProblems(form, problems)) {
    const told = document.createElement("span");
    told.className = "error-text small";
    told.id = `answer-problem-${++number}`;
    told.dataset.told = field.getAttribute("aria-describedby") ?? "";
    told.append(...said.childNodes);
    field.setAttribute("aria-describedby", `${told.id} ${told.dataset.told}`.trim());
    (field.closest(".checks") ?? field).after(told);
    said.remove();
  }
  goToMarked(form);
}

/** Forget what was wrong. */
function forget(form) {
  unmark(form);
  for (const told of form.querySelectorAll("[data-told]")) {
    for (const field of form.querySelectorAll(`[aria-describedby~="${told.id}"]`)) {
      if (told.dataset.told) field.setAttribute("aria-describedby", told.dataset.told);
      else field.removeAttribute("aria-describedby");
    }
    told.remove();
  }
  form.querySelector(".question-problems")?.replaceChildren();
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const form = questionOf(event.detail.elt);
  if (!form) return;
  forget(form);
  close(form, "Sending…");
});

document.addEventListener("htmx:afterRequest", (event) => {
  const form = questionOf(event.detail.elt);
  if (!form) return;
  const { status } = event.detail.xhr; // htmx calls a refused form a success, because it is shown
  if (status >= 200 && status < 400) close(form, "Answered. The agent goes on.");
  else open(form);
});

/* --- What was answered is not answered again, unless its run ends and nothing came of it --- */

function close(form, told) {
  const said = form.querySelector(".question-state");
  const hadFocus = form.contains(document.activeElement);
  form.querySelector(".question-fields").disabled = true;
  said.textContent = told;
  if (hadFocus) said.focus();
}

function open(form, told = "") {
  form.querySelector(".question-fields").disabled = false;
  form.querySelector(".question-state").textContent = told;
}

const runs = document.getElementById("runs");

if (runs) {
  new MutationObserver(() => {
    if (Number(runs.querySelector(".runs")?.dataset.active)) return;
    for (const form of document.querySelectorAll("form.question:not(.htmx-request):has(.question-fields:disabled)")) {
      open(form, "The run has ended, and the question is still open.");
    }
  }).observe(runs, { childList: true });
}

document.addEventListener("htmx:afterSwap", (event) => {
  const form = questionOf(event.detail.target);
  if (!form || !event.detail.target.matches(".question-problems")) return;
  open(form);
  placeProblems(form, event.detail.target);
});
