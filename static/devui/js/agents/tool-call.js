// Calls of tools by hand: a call can be cancelled while it runs.

const partsOf = (form) => [form.querySelector("[data-cancel-call]"), form.querySelector("[data-call-status]")];

document.addEventListener("htmx:beforeRequest", ({ target }) => show(target, false, "Calling…"));
document.addEventListener("htmx:afterRequest", ({ target }) => show(target, true, ""));
document.addEventListener("htmx:abort", ({ target }) => show(target, true, "Cancelled."));

function show(form, isOver, text) {
  if (!form.matches?.(".tool-call-form")) return;
  const [button, status] = partsOf(form);
  button.hidden = isOver;
  if (text || status.textContent !== "Cancelled.") status.textContent = text;
}

/* The server cancels the call when its request ends. */
document.addEventListener("click", ({ target }) => {
  const form = target.closest("[data-cancel-call]")?.form;
  if (!form) return;
  form.dispatchEvent(new CustomEvent("htmx:abort", { bubbles: true, detail: { elt: form } }));
  form.querySelector(".button-primary").focus();
});
