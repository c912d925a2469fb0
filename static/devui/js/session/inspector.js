// Inspector of an event: expand its JSON, copy values and paths.

import { copy } from "../core/clipboard.js";
import { fetchPart } from "../core/fragment.js";
import { declare } from "../core/shortcuts.js";
import { showError } from "../core/toasts.js";
import { showTimes } from "../core/times.js";

const inspector = () => document.querySelector(".inspector[data-event]");

/** Load the JSON tree as the clicked link opens it. */
async function showRaw(opener) {
  const query = new URLSearchParams(location.search);
  query.set("tab", "raw");
  query.delete("open");
  if (opener.get("open")) query.set("open", opener.get("open"));
  const address = `${location.pathname}?${query}`;
  history.replaceState(history.state, "", address);
  const html = await fetchPart(address, "raw");
  const place = document.getElementById("raw");
  if (html === null || !place) return;
  place.innerHTML = html;
  place.removeAttribute("hx-get");
  window.htmx.process(place);
  showTimes(place);
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-raw-open]");
  if (!opener) return;
  event.preventDefault();
  showRaw(new URLSearchParams(opener.search));
});

/* --- An entry of a tree is picked by a click or by arrow keys; then its path and its value can be copied --- */

const TREE = ".inspector .json[data-source]";
let focusedEntry = null;

function focusEntry(entry) {
  focusedEntry?.classList.remove("is-picked");
  focusedEntry = entry;
  const place = inspector()?.querySelector(".json-place");
  if (!place) return;
  place.hidden = !entry;
  if (!entry) return;
  entry.classList.add("is-picked");
  place.querySelector("[data-json-path]").textContent = pathOf(entry);
}

const sourceOf = (entry) => new URL(entry.closest(TREE).dataset.source, location.href);

function pointerOf(entry) {
  return (sourceOf(entry).searchParams.get("base") ?? "") + entry.dataset.pointer;
}

/** Return the jq path of an entry. List indexes are written as numbers. */
function pathOf(entry) {
  const steps = [];
  let top = entry;
  for (let at = entry; at; at = at.parentElement.closest("li[data-pointer]")) {
    steps.unshift(step(at.dataset.pointer.split("/").at(-1), at.parentElement.matches(".json-list")));
    top = at;
  }
  const above = pointerOf(top).split("/").slice(1, -1);
  const path = above.map((name) => step(name, /^\d+$/.test(name))).join("") + steps.join("");
  return path.startsWith(".") ? path : `.${path}`;
}

function step(name, isIndex) {
  const plain = name.replaceAll("~1", "/").replaceAll("~0", "~");
  if (isIndex) return `[${plain}]`;
  return /^[A-Za-z_]\w*$/.test(plain) ? `.${plain}` : `[${JSON.stringify(plain)}]`;
}

document.addEventListener("click", ({ target }) => {
  const entry = target.closest(`${TREE} li[data-pointer]`);
  if (entry) focusEntry(entry);
});

document.addEventListener("focusin", ({ target }) => {
  const entry = target.closest(`${TREE} li[data-pointer]`);
  if (entry) focusEntry(entry);
});

const STEPS = {
  ArrowDown: (stops, at) => stops[at + 1],
  ArrowUp: (stops, at) => stops[at - 1],
  ArrowRight: (stops, at) => openOrEnter(stops, at),
  ArrowLeft: (stops, at) => closeOrLeave(stops[at]),
};

document.addEventListener("keydown", (event) => {
  const tree = event.target.closest(TREE);
  if (!tree || !(event.key in STEPS) || event.ctrlKey || event.metaKey || event.altKey) return;
  const stops = [...tree.querySelectorAll("summary, li[data-pointer]:not(:has(> details)), li > button")].filter(
    (stop) => stop.checkVisibility(),
  );
  const at = stops.indexOf(event.target);
  if (at < 0) return;
  event.preventDefault();
  const next = STEPS[event.key](stops, at);
  if (!next) return;
  if (next.matches("li")) next.tabIndex = -1;
  next.focus();
});

function openOrEnter(stops, at) {
  const details = stops[at].closest("details");
  if (!stops[at].matches("summary")) return null;
  if (details.open) return stops[at + 1];
  details.open = true;
  return null;
}

function closeOrLeave(stop) {
  if (stop.matches("summary") && stop.parentElement.open) {
    stop.parentElement.open = false;
    return null;
  }
  return stop.closest("li")?.parentElement.closest("details")?.querySelector("summary");
}

/* --- Copying --- */

async function copyFrom(button, url) {
  const response = await fetch(url).catch(() => null);
  if (!response?.ok) showError("The event could not be read.", "Is the server still running?");
  else copy(button, await response.text());
}

function valueAddress(pointer) {
  return `${inspector().dataset.event}?${new URLSearchParams({ pointer, form: "text" })}`;
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-copy-event], [data-copy-path], [data-copy-value]");
  if (!button) return;
  if ("copyEvent" in button.dataset) copyFrom(button, valueAddress(""));
  else if (!focusedEntry?.isConnected) focusEntry(null);
  else if ("copyPath" in button.dataset) copy(button, pathOf(focusedEntry));
  else copyFrom(button, valueAddress(pointerOf(focusedEntry)));
});

const clickOn = (selector) => {
  const element = document.querySelector(selector);
  element?.click();
  return Boolean(element);
};

declare("In this session", [
  { keys: ["p"], does: "Copy the path of the picked value", when: () => focusedEntry, work: () => clickOn("[data-copy-path]") },
  { keys: ["v"], does: "Copy the picked value", when: () => focusedEntry, work: () => clickOn("[data-copy-value]") },
]);

/* A picked value is forgotten when the part of the page around it is replaced. */
new MutationObserver(() => {
  if (focusedEntry && !focusedEntry.isConnected) focusEntry(null);
}).observe(document.getElementById("detail"), { childList: true, subtree: true });
