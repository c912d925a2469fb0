// Theme button: cycles through system, light and dark. The browser stores the choice.

import { NAMES, remember } from "./storage.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const LABEL = { system: "as the system", light: "light", dark: "dark" };

function current() {
  return document.documentElement.dataset.theme ?? "system";
}

function choose(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  remember(NAMES.theme, theme === "system" ? "" : theme);
}

function show(button) {
  const theme = current();
  const use = button.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*$/, `#theme-${theme}`));
  button.setAttribute("aria-label", `Theme: ${LABEL[theme]}. Switch to ${LABEL[NEXT[theme]]}`);
  button.title = `Theme: ${LABEL[theme]}`;
}

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  show(button);
  button.addEventListener("click", () => {
    choose(NEXT[current()]);
    show(button);
  });
}
