// While an input method composes, no search runs and nothing closes; its text counts once it is complete.

let isComposing = false;

/** Tell whether a key event is Enter alone, which sends a message, and does not confirm what an input method offers. */
export function isSendKey(event) {
  const hasModifier = event.shiftKey || event.altKey || event.ctrlKey || event.metaKey;
  return event.key === "Enter" && !hasModifier && !event.isComposing && event.keyCode !== 229;
}

document.addEventListener("compositionstart", () => {
  isComposing = true;
});
document.addEventListener("keydown", (event) => {
  isComposing &&= event.isComposing || event.keyCode === 229;
}, true);
document.addEventListener("compositionend", (event) => {
  isComposing = false;
  event.target.dispatchEvent(new InputEvent("input", { bubbles: true }));
});
document.addEventListener("htmx:confirm", (event) => event.detail.triggeringEvent?.isComposing && event.preventDefault());
document.addEventListener("cancel", (event) => isComposing && event.preventDefault(), true);
