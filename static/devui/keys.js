// Keyboard: single keys for places. None fires while a person writes or an input method composes.

const PREFIX_WAIT = 1200;
const WRITTEN_IN = "input:not([type=radio], [type=checkbox], [type=range]), textarea, select";
let prefixAt = -Infinity;

/** Tell whether a key event is meant for a shortcut. */
export function isShortcut(event) {
  if (event.defaultPrevented || event.isComposing || event.keyCode === 229) return false;
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (document.querySelector("dialog[open]")) return false;
  const target = event.target;
  return !(target instanceof HTMLElement && (target.isContentEditable || target.matches(WRITTEN_IN)));
}

function goTo(letter) {
  document.querySelector(`.places a[data-key="${CSS.escape(letter)}"]`)?.click();
}

function focusSearch() {
  const search = document.querySelector("[data-search]");
  search?.focus();
  search?.select();
  return Boolean(search);
}

/** Focus the row `step` rows further down a list. Without a focused row, the first. */
function moveInList(step) {
  const rows = [...document.querySelectorAll("main .row-link")];
  if (rows.length === 0) return false;
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))].focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (!isShortcut(event)) return;
  const waiting = performance.now() - prefixAt < PREFIX_WAIT;
  prefixAt = -Infinity;
  if (waiting && /^[a-z]$/.test(event.key)) {
    event.preventDefault();
    goTo(event.key);
  } else if (event.key === "g") {
    prefixAt = performance.now();
  } else if (event.key === "j" || event.key === "k") {
    if (moveInList(event.key === "j" ? 1 : -1)) event.preventDefault();
  } else if (event.key === "/") {
    if (focusSearch()) event.preventDefault();
  } else if (event.key === "?") {
    event.preventDefault();
    document.getElementById("help")?.showModal();
  }
});
