// What is wrong with a form, said where it is: fields are marked, and the first of them is gone to.

/** Mark the fields of a form for which `problems`, an element, has a `data-problem-for`; return those fields. */
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

/** Take every mark away. */
export function unmark(form) {
  for (const field of form.querySelectorAll("[data-marked]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("data-marked");
  }
}

/** Go to the first marked field. */
export const goToMarked = (form) => form.querySelector("[data-marked]")?.focus();
