// Settings stored in the browser. Only this module uses the browser's storage, which may be unavailable (a private window) or full:
// then settings last until the page is left.

import { waitForRelease } from "./press.js";

/** Names of the stored settings. `boot.js` reads the theme and the timeline's mode, and deletes hits and messages on the sign-in page, before any module is loaded. */
export const NAMES = {
  theme: "devui-theme",
  folded: "devui.session.folded",
  timeline: "devui.session.timeline",
  hits: "devui.session.hits",
  width: (column) => `devui.session.${column}`,
  watched: (app) => `devui.watched.${app}`,
  hiddenHints: (app) => `devui.hidden-hints.${app}`,
  messages: (app) => `devui.messages.${app}`,
  options: (app) => `devui.run-options.${app}`,
};

/** Return the text stored under a name, or "". */
export function recall(name) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

/** Store a text under a name; an empty text deletes the stored one. */
export function remember(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
  } catch {
    // The setting lasts for this page.
  }
}

/** Return the list of texts stored under a name; anything else counts as an empty list. */
export function recallList(name) {
  try {
    const texts = JSON.parse(recall(name) || "[]");
    return Array.isArray(texts) ? texts.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}

/** Store a list of texts under a name. */
export function rememberList(name, texts) {
  remember(name, texts.length ? JSON.stringify(texts) : "");
}

/** Call `work` when another window changes the value stored under a name. */
export function whenChanged(name, work) {
  addEventListener("storage", ({ key }) => (key === name || key === null) && waitForRelease().then(work));
}
