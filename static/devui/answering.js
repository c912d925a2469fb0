// Answers to what an agent asks: what is wrong with one stands at its fields, until it is sent again.

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
  if (form) forget(form);
});

document.addEventListener("htmx:afterSwap", (event) => {
  const form = questionOf(event.detail.target);
  if (form && event.detail.target.matches(".question-problems")) placeProblems(form, event.detail.target);
});
