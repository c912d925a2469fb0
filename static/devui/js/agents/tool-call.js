// Calls of tools by hand: a call can be cancelled while it runs.

const findControls = (form) => [form.querySelector("[data-cancel-call]"), form.querySelector("[data-call-status]")];

document.addEventListener("htmx:beforeRequest", ({ target }) => showStatus(target, false, "Calling…"));
document.addEventListener("htmx:afterRequest", ({ target }) => showStatus(target, true, ""));
document.addEventListener("htmx:abort", ({ target }) => showStatus(target, true, "Cancelled."));

function showStatus(form, isOver, text) {
  if (!form.matches?.(".tool-call-form")) return;
  const [button, status] = findControls(form);
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
