// Watched keys, pinned on top of the state board in every session of the app.

import { NAMES, recallList, rememberList, whenChanged } from "../core/storage.js";
import { plain } from "../core/visible-characters.js";

const app = document.getElementById("session").dataset.app;
const STORE = NAMES.watched(app);
const MOST = 50;

const announcer = document.getElementById("watch-announcer");

/** Last value of each watched key, so that only real changes are announced, not steps through time. */
const last = new Map();

let keys = recallList(STORE).slice(0, MOST);

/** The watched keys with their prefixes, in the order in which they were added. */
export const names = () => keys;

/** Start or stop watching a key. */
function toggle(name) {
  const isWatched = keys.includes(name);
  keys = isWatched ? keys.filter((key) => key !== name) : [...keys, name].slice(-MOST);
  rememberList(STORE, keys);
  show();
  announce(isWatched ? `${plain(name)} is no longer watched` : `${plain(name)} is watched`);
}

/**
 * Show the watched keys with their values on the board.
 *
 * @param {boolean} live  the state has changed: highlight differences
 */
export function show(live = false) {
  const place = document.getElementById("watched");
  if (!place) return;
  for (const button of document.querySelectorAll("#board [data-watch]")) mark(button);
  place.hidden = !keys.length;
  const focused = document.activeElement?.closest("#watched [data-name]")?.dataset.name;
  place.replaceChildren(...keys.map((name) => pinned(name, live)));
  if (focused) place.querySelector(`[data-name="${CSS.escape(focused)}"] button`)?.focus({ preventScroll: true });
}

function mark(button) {
  const isWatched = keys.includes(button.dataset.watch);
  button.hidden = false;
  button.setAttribute("aria-pressed", String(isWatched));
}

const entryOf = (name) =>
  document.querySelector(`#board .columns .entry[data-key="${CSS.escape(name)}"]:not([data-untracked])`);

/** Tell whether a watched key is missing from the board, because it has no value or is beyond the shown keys. */
export const isAnyMissing = () => keys.some((name) => !entryOf(name));

function pinned(name, live) {
  const item = document.getElementById("watched-template").content.firstElementChild.cloneNode(true);
  const entry = entryOf(name);
  const value = entry?.querySelector(":scope > .entry-value");
  const text = (value?.querySelector("summary") ?? value)?.textContent.trim() ?? "";
  item.dataset.name = name;
  item.querySelector("[data-key-name]").textContent = plain(name);
  const scope = entry?.querySelector(".scope");
  if (scope) item.prepend(scope.cloneNode(true));
  item.querySelector("code").textContent = text;
  item.querySelector("[data-none]").hidden = Boolean(value);
  item.classList.toggle("is-changed", Boolean(entry?.classList.contains("is-changed")));
  const button = item.querySelector("button");
  button.dataset.watch = name;
  button.setAttribute("aria-label", `No longer watch ${plain(name)}`);
  if (live && last.has(name) && last.get(name) !== text) {
    item.classList.add("is-fresh");
    announce(text ? `${plain(name)} is now ${text.slice(0, 80)}` : `${plain(name)} has no value`);
  }
  last.set(name, text);
  return item;
}

let pendingTexts = [];
let announceTimer = 0;

/** Announce a text politely, together with texts that follow shortly after. */
function announce(text) {
  pendingTexts.push(text);
  announceTimer ||= setTimeout(() => {
    announcer.textContent = pendingTexts.slice(-3).join(". ");
    pendingTexts = [];
    announceTimer = 0;
  }, 300);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("#board [data-watch]");
  if (button) toggle(button.dataset.watch);
});

whenChanged(STORE, () => {
  keys = recallList(STORE).slice(0, MOST);
  show();
  document.dispatchEvent(new Event("watched:changed"));
});
