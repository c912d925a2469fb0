// Writing to the agent. Enter sends, Shift+Enter makes a line, and neither does while an input method composes.

import { declare } from "./keys.js";
import { toEnd } from "./timeline.js";

const form = document.querySelector("[data-console]");
const message = form?.elements.namedItem("message");

form?.addEventListener("keydown", (event) => {
  if (event.target !== message || event.key !== "Enter" || event.shiftKey) return;
  if (event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  if (message.value.trim()) form.requestSubmit();
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt !== form || !event.detail.successful) return;
  message.value = "";
  message.focus();
  toEnd();
});

declare("In this session", [
  { keys: ["m"], does: "Write a message", when: () => message, work: () => message.focus() },
]);
