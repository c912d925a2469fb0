// What this browser remembers. Nothing else touches its storage, which may be refused (a private window) or full: then
// a page goes on with what it has, and forgets it when it is left.

/** Under which name each thing is kept. `boot.js` reads the theme before any module is there. */
export const NAMES = {
  theme: "devui-theme",
  folded: "devui.session.folded",
  wide: "devui.session.wide",
  width: (column) => `devui.session.${column}`,
  watched: (app) => `devui.watched.${app}`,
  hiddenHints: (app) => `devui.hidden-hints.${app}`,
  messages: (app) => `devui.messages.${app}`,
  options: (app) => `devui.run-options.${app}`,
};

/** Return the text that is kept under a name, empty without one. */
export function recall(name) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

/** Keep a text under a name; an empty one takes away what is kept. */
export function remember(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
  } catch {
    // It holds for this page.
  }
}

/** Return the texts that are kept under a name; whatever else stands there counts as none. */
export function recallList(name) {
  try {
    const kept = JSON.parse(recall(name) || "[]");
    return Array.isArray(kept) ? kept.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}

/** Keep a list of texts under a name. */
export function rememberList(name, texts) {
  remember(name, texts.length ? JSON.stringify(texts) : "");
}

/** Call `work` when another window changes what is kept under a name. */
export function whenChanged(name, work) {
  addEventListener("storage", ({ key }) => (key === name || key === null) && work());
}
