// Form errors at their fields: fields with errors are marked, and the first one gets the focus.

/** Mark the fields that a `data-problem-for` in the element `problems` names. Return the fields with their messages. */
export function markProblems(form, problems) {
  unmark(form);
  const marked = [];
  for (const said of problems.querySelectorAll("[data-problem-for]")) {
    const field = [...form.elements].find((each) => each.name && each.name === said.dataset.problemFor);
    if (!field || field.type === "file") continue;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("data-marked", "");
    for (let around = field.closest("details"); around && form.contains(around); around = around.parentElement.closest("details")) {
      around.open = true;
    }
    marked.push({ field, said });
  }
  return marked;
}

/** Remove all marks. */
export function unmark(form) {
  for (const field of form.querySelectorAll("[data-marked]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("data-marked");
  }
}

/** Focus the first marked field. */
export const goToMarked = (form) => form.querySelector("[data-marked]")?.focus();
