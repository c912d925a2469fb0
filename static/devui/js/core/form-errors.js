// Form errors at their fields: fields with errors are marked, and the first one gets the focus.

/** Mark the fields that a `data-problem-for` in the element `problems` names. Return the fields with their messages. */
export function markErrors(form, problems) {
  clearMarks(form);
  const errorFields = [];
  for (const message of problems.querySelectorAll("[data-problem-for]")) {
    const field = [...form.elements].find((each) => each.name && each.name === message.dataset.problemFor);
    if (!field || field.type === "file") continue;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("data-marked", "");
    for (let details = field.closest("details"); details && form.contains(details); details = details.parentElement.closest("details")) {
      details.open = true;
    }
    errorFields.push({ field, message });
  }
  return errorFields;
}

/** Remove all marks. */
export function clearMarks(form) {
  for (const field of form.querySelectorAll("[data-marked]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("data-marked");
  }
}

/** Focus the first marked field. */
export const focusFirstError = (form) => form.querySelector("[data-marked]")?.focus();
