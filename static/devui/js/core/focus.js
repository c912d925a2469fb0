// Keeps the focus and open menus when htmx replaces a changed part of the page.

const REACHABLE = "a, button, input, select, summary";

const controlsOf = (element) => [...element.querySelectorAll(REACHABLE)];
const labelOf = (control) => control.getAttribute("aria-label") ?? control.textContent.trim();

/** Return the control in a new fragment that matches an old one. */
function findControl(piece, control) {
  return controlsOf(piece).find((candidate) => candidate.tagName === control.tagName && labelOf(candidate) === labelOf(control));
}

const focusStates = new Map();

document.addEventListener("htmx:oobBeforeSwap", ({ detail: { target } }) => {
  const focused = controlsOf(target).find((control) => control === document.activeElement);
  const sheet = target.querySelector(":popover-open")?.id;
  const isOpen = Boolean(target.querySelector("details.menu[open]"));
  if (target.id && (focused || sheet || isOpen)) focusStates.set(target.id, { focused, sheet, isOpen });
});

document.addEventListener("htmx:oobAfterSwap", () => {
  for (const [id, { focused, sheet, isOpen }] of focusStates) {
    const piece = document.getElementById(id);
    if (!piece) continue;
    if (sheet) document.getElementById(sheet)?.showPopover();
    const menu = piece.querySelector("details.menu");
    if (menu && isOpen) menu.open = true;
    if (focused) findControl(piece, focused)?.focus({ preventScroll: true });
  }
  focusStates.clear();
});
