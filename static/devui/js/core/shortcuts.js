// Keyboard shortcuts: each is declared once with its description. The same table handles keys and fills the help.

const PREFIX_WAIT = 1200;
/** On pages with a message box, the pause after which a letter is a shortcut: typing continues sooner. */
const TYPING_PAUSE = 250;
const TEXT_FIELDS = "input:not([type=radio], [type=checkbox], [type=range]), textarea, select";
const IS_MAC = "mac" in document.documentElement.dataset;
const NAMES = { Escape: "Esc", Mod: IS_MAC ? "⌘" : "Ctrl" };

const groups = new Map();
let prefix = "";
let prefixAt = -Infinity;
/** On pages with a message box: keys pressed in quick succession, their text, and the timer that ends the succession. */
let pressedKeys = [];
let typedText = "";
let typingTimer = 0;

/**
 * Declare shortcuts under a heading of the help.
 *
 * A key is `j`, a sequence `g s`, or with ⌘ or Ctrl `Mod+k`. Several keys of one shortcut mean the same.
 * Shortcuts declared first are tried first; work that returns false leaves the key to the next.
 *
 * @param {string} group  heading in the help
 * @param {{keys: string[], does: string, work: () => unknown, when?: () => unknown, steps?: boolean}[]} added
 *   `when` tells whether the shortcut is available on the page; `steps` marks one that is pressed many times in a row:
 *   it runs at once, and begins no message.
 */
export function declare(group, added) {
  groups.set(group, [...(groups.get(group) ?? []), ...added]);
}

/** Tell whether a key event is unhandled, no input method composes, and nothing is open above the page. */
function isFree(event) {
  if (event.defaultPrevented || event.isComposing || event.keyCode === 229) return false;
  return !document.querySelector("dialog[open], :popover-open");
}

function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches(TEXT_FIELDS));
}

/** Tell whether a click has no modifier that opens a new tab or window. */
export function isPlainClick({ button, ctrlKey, metaKey, shiftKey, altKey }) {
  return button === 0 && !(ctrlKey || metaKey || shiftKey || altKey);
}

/** Return the key as declared; on non-Latin layouts, the Latin letter of the same position. */
function keyOf(event) {
  if (event.key.length > 1 || /[!-~]/.test(event.key)) return event.key;
  const letter = /^Key([A-Z])$/.exec(event.code)?.[1] ?? event.key;
  return event.shiftKey ? letter : letter.toLowerCase();
}

/** Return the shortcut name of a key event, or null. */
function shortcutOf(event) {
  if (!isFree(event) || event.altKey || (IS_MAC ? event.ctrlKey : event.metaKey)) return null;
  if (event.ctrlKey || event.metaKey) return event.shiftKey ? null : `Mod+${keyOf(event).toLowerCase()}`;
  return isWriting(event.target) ? null : keyOf(event);
}

document.addEventListener("keydown", (event) => {
  const key = shortcutOf(event);
  if (key === null) return;
  const isCharacter = key.length === 1 && (key !== " " || pressedKeys.length > 0);
  if (isCharacter && messageBox()) {
    takeCharacter(event, key);
    return;
  }
  const sequence = performance.now() - prefixAt < PREFIX_WAIT ? `${prefix} ${key}` : key;
  prefixAt = -Infinity;
  if (run(sequence)) event.preventDefault();
  else if (isPrefix(key)) {
    prefix = key;
    prefixAt = performance.now();
  }
});

const available = () => [...groups.values()].flat().filter(isAvailable);
const matching = (sequence) => available().filter((shortcut) => shortcut.keys.includes(sequence));
const run = (sequence) => matching(sequence).some(({ work }) => work() !== false);
const isPrefix = (sequence) => available().some((shortcut) => shortcut.keys.some((name) => name.startsWith(`${sequence} `)));
const isStep = (key) => matching(key).some(({ steps }) => steps);

/* --- Where there is a message box, text typed beside it goes into it --- */

const messageBox = () => document.querySelector("textarea[data-takes-text]");

/** Take a letter as a shortcut if a pause follows, else with the next ones as the beginning of a message. */
function takeCharacter(event, key) {
  if (event.repeat && !isStep(key)) return;
  clearTimeout(typingTimer);
  pressedKeys.push(key);
  typedText += event.key;
  const sequence = pressedKeys.join(" ");
  const isSequence = isPrefix(sequence);
  typingTimer = setTimeout(() => finishTyping(sequence), isSequence ? PREFIX_WAIT : TYPING_PAUSE);
  if (pressedKeys.every(isStep)) run(key);
  else if (pressedKeys.length === 1 && !/[a-z]/i.test(key) && run(key)) finishTyping("");
  else if (!isSequence && !matching(sequence).length) writeMessage();
  else return;
  event.preventDefault();
}

function finishTyping(sequence) {
  clearTimeout(typingTimer);
  const isDone = pressedKeys.every(isStep);
  pressedKeys = [];
  typedText = "";
  if (!isDone && !isWriting(document.activeElement)) run(sequence);
}

/** Move the typed text to the message box, where typing continues. */
function writeMessage() {
  const box = messageBox();
  box.dispatchEvent(new Event("wanted", { bubbles: true }));
  box.focus();
  box.setRangeText(typedText, box.value.length, box.value.length, "end");
  box.dispatchEvent(new Event("input", { bubbles: true }));
  finishTyping("");
}

/** Return the labels of a shortcut's keys, in the order in which they are pressed. */
const keyLabels = (name) => name.split(" ").flatMap((part) => {
  if (/^[A-Z]$/.test(part)) return ["Shift", part];
  if (part.startsWith("Mod+")) return [NAMES.Mod, part.slice("Mod+".length).toUpperCase()];
  return [NAMES[part] ?? part];
});

/** Tell whether a shortcut is available on the page. */
const isAvailable = ({ when }) => !when || Boolean(when());

function element(tag, text = "") {
  const node = document.createElement(tag);
  node.textContent = text;
  return node;
}

function helpEntry({ keys, does }) {
  const term = element("dt");
  for (const [at, name] of keys.entries()) {
    if (at) term.append(" or ");
    keyLabels(name).forEach((key, number) => term.append(number ? " " : "", element("kbd", key)));
  }
  return [term, element("dd", does)];
}

/** Show all shortcuts that are available on the page. */
export function showHelp() {
  const help = document.getElementById("help");
  const parts = [];
  for (const [group, shortcuts] of groups) {
    const available = shortcuts.filter(isAvailable);
    if (!available.length) continue;
    const list = element("dl");
    list.className = "keys";
    list.append(...available.flatMap(helpEntry));
    parts.push(element("h3", group), list);
  }
  help.querySelector("[data-keys]").replaceChildren(...parts);
  help.showModal();
}

/* --- What every page has --- */

const search = () => document.querySelector("[data-search]");
const rows = () => [...document.querySelectorAll("main .row-link, main tbody tr:not(:has(.row-link)) > .pick > input")];

/** Focus the row `step` rows further down; the first row if none has the focus. */
function moveInList(step) {
  const all = rows();
  const at = all.indexOf(document.activeElement);
  all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step))].focus();
}

/** Focus a field. The event `wanted` is sent first, so that a page that hides the field can show it. */
export function focusOn(field) {
  field.dispatchEvent(new Event("wanted", { bubbles: true }));
  field.focus();
  if (field.value) field.select();
}

const hasRows = () => rows().length > 0;

declare("Everywhere", [
  { keys: ["?"], does: "Show these keys", work: showHelp },
  { keys: ["/"], does: "Search on this page", when: search, work: () => focusOn(search()) },
  { keys: ["j"], does: "Next row", when: hasRows, work: () => moveInList(1) },
  { keys: ["k"], does: "Previous row", when: hasRows, work: () => moveInList(-1) },
]);

declare("Go to", [...document.querySelectorAll(":is(.places, .subplaces) a[data-key]")].map((place) => ({
  keys: [`g ${place.dataset.key}`], does: place.textContent, work: () => place.click(),
})));
