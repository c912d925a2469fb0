// Command palette: finds pages, sessions and actions of this page by a few typed letters.

import { fetchPart } from "./fragment.js";
import { score } from "./fuzzy-match.js";
import { declare } from "./shortcuts.js";
import { showTimes } from "./times.js";

const SEARCH_WAIT = 120;
const MAX_PER_SECTION = 8;
const MAX_WITHOUT_QUERY = 20;
const PAGE_SECTION = "On this page";
const PAGE_STEP = 8;

/**
 * What can be chosen.
 * @typedef {object} Entry
 * @property {string} section  heading of its section
 * @property {string} text  the text that is matched
 * @property {Node[]} content  what is shown; cloned
 * @property {string} [href]  target, if it is a link
 * @property {number} [least]  minimum score, whatever was typed
 * @property {() => void} run
 */

const dialog = document.getElementById("palette");
const input = dialog.querySelector("input");
const list = document.getElementById("palette-list");
const status = dialog.querySelector("[role=status]");
const opener = document.querySelector("[data-open-palette]");

const providers = [];
const places = { others: [], sessions: [] };
let commands = [];
let shown = [];
let selected = null;
let hasMoved = false;
let searching = 0;
let query = ""; // what is typed, without letters that an input method still composes

/** Register a provider of entries that are listed first: `provider(typed)` returns them. */
export function offer(provider) {
  providers.push(provider);
}

/** Return an entry that shows an icon of the page's sprite and a text. */
export function entry(section, icon, text, run) {
  const mark = opener.querySelector("svg").cloneNode(true);
  mark.querySelector("use").setAttribute("href", mark.querySelector("use").getAttribute("href").replace(/#.*/, `#${icon}`));
  return { section, text, content: [mark, nameElement(text)], run };
}

function nameElement(text) {
  const name = document.createElement("span");
  name.className = "go-name truncate";
  name.textContent = text;
  return name;
}

/* --- What can be chosen --- */

/** Return the page's own actions: buttons and links with `data-command`, whose value overrides the label. */
function commandsHere() {
  return [...document.querySelectorAll("[data-command]")].filter(isUsable).map((element) => {
    const text = element.dataset.command || element.getAttribute("aria-label") || element.textContent.trim();
    const base = entry(PAGE_SECTION, "next", text, () => element.click());
    const icon = element.querySelector("svg");
    return { ...base, content: [icon ?? base.content[0], base.content[1]] };
  });
}

/** Tell whether an element can be used. Entries of closed menus can, unless the role or the session rules them out. */
function isUsable(element) {
  if (element.disabled || element.ariaDisabled === "true" || element.closest("[hidden]")) return false;
  const ruled = element.closest("[data-needs], [data-needs-events]");
  return !ruled || getComputedStyle(ruled).display !== "none";
}

function placesHere() {
  return [...document.querySelectorAll(":is(.places, .subplaces) a[data-key]")].map((link) => {
    const base = entry("Go to", "next", link.textContent, () => link.click());
    return { ...base, content: [...base.content, ...keysOf(link)], href: link.href };
  });
}

function keysOf(link) {
  const keys = document.createElement("span");
  keys.className = "go-key";
  keys.setAttribute("aria-hidden", "true");
  for (const key of ["g", link.dataset.key]) {
    keys.append(document.createElement("kbd"), " ");
    keys.lastElementChild.textContent = key;
  }
  return [keys];
}

/** Return the entries of a list of links. */
function linksIn(root) {
  return [...root.querySelectorAll("section a")].map((link) => ({
    section: link.closest("section").querySelector("h2").textContent,
    text: link.textContent,
    content: [...link.childNodes],
    href: link.href,
    least: link.closest("[data-answers]") ? 1 : 0,
    run: () => location.assign(link.href),
  }));
}

async function search(typed) {
  const target = typed ? "go-sessions" : "go-results";
  const html = await fetchPart(`${opener.href}?${new URLSearchParams({ q: typed })}`, target);
  if (html === null) return;
  const template = document.createElement("template");
  template.innerHTML = html;
  const links = linksIn(template.content);
  if (!typed) places.others = links.filter(({ least }) => !least);
  if (query === typed) places.sessions = links.filter(({ least }) => least);
  show();
}

function matchingEntries(typed) {
  const answers = providers.flatMap((provider) => provider(typed)).map((one) => ({ ...one, least: Infinity }));
  const all = [...answers, ...commands, ...places.sessions, ...places.others];
  if (!typed) return all.map((one) => ({ ...one, score: 1 }));
  const matches = all
    .map((one) => ({ ...one, score: Math.max(score(typed, one.text), one.least ?? 0) }))
    .filter(({ score }) => score)
    .sort((one, other) => (other.score === one.score ? 0 : other.score - one.score));
  return [...matches, searchEntry(typed)];
}

/** Return the last entry, which searches the events of all sessions. */
function searchEntry(typed) {
  const href = `${opener.dataset.searchUrl}?${new URLSearchParams({ q: typed })}`;
  return { ...entry("Search", "search", `Search sessions for “${typed}”`, () => location.assign(href)), href };
}

/* --- What is shown --- */

function show() {
  const sections = Map.groupBy(matchingEntries(query), ({ section }) => section);
  const parts = [];
  shown = [];
  for (const [name, entries] of sections) parts.push(sectionOf(name, entries, query ? MAX_PER_SECTION : MAX_WITHOUT_QUERY));
  list.replaceChildren(...parts);
  showTimes(list);
  list.hidden = !shown.length;
  input.setAttribute("aria-expanded", String(!list.hidden));
  status.textContent = shown.length ? "" : "No matches.";
  const index = hasMoved ? shown.findIndex((one) => isSame(one, selected)) : -1;
  select(Math.max(0, index), { scroll: hasMoved });
}

const isSame = (one, other) => one.section === other?.section && one.text === other.text && one.href === other.href;

function sectionOf(name, entries, most) {
  const section = document.createElement("div");
  const title = lineOf(name);
  title.id = `palette-section-${shown.length}`;
  section.setAttribute("role", "group");
  section.setAttribute("aria-labelledby", title.id);
  section.append(title, ...entries.slice(0, most).map(optionOf));
  if (entries.length > most) section.append(lineOf(`${entries.length - most} more: type some of their letters`));
  return section;
}

function lineOf(text) {
  const line = document.createElement("p");
  line.className = "palette-title";
  line.textContent = text;
  return line;
}

function optionOf(one) {
  const option = document.createElement("div");
  option.id = `palette-option-${shown.length}`;
  option.className = "go-link";
  option.setAttribute("role", "option");
  option.append(...one.content.map((node) => node.cloneNode(true)));
  option.addEventListener("click", (event) => choose(one, event));
  shown.push({ ...one, option });
  return option;
}

function select(at, { scroll = true } = {}) {
  selected = shown[at] ?? null;
  for (const one of shown) one.option.setAttribute("aria-selected", String(one === selected));
  if (selected) input.setAttribute("aria-activedescendant", selected.option.id);
  else input.removeAttribute("aria-activedescendant");
  if (scroll) selected?.option.scrollIntoView({ block: "nearest" });
  else list.scrollTop = 0;
}

function move(by) {
  if (!shown.length) return;
  hasMoved = true;
  const at = shown.indexOf(selected) + by;
  const last = shown.length - 1;
  if (Math.abs(by) > 1) select(Math.min(last, Math.max(0, at)));
  else select((at + shown.length) % shown.length);
}

function choose(one, event) {
  dialog.close();
  if (one.href && (event.ctrlKey || event.metaKey)) window.open(one.href);
  else one.run();
}

/* --- Opening, typing, keys --- */

function open() {
  input.value = query = "";
  hasMoved = false;
  commands = [...placesHere(), ...commandsHere()];
  dialog.showModal();
  show();
  search("");
}

function type() {
  hasMoved = false;
  query = input.value.trim();
  show();
  clearTimeout(searching);
  const typed = query;
  searching = setTimeout(() => search(typed), SEARCH_WAIT);
}

const KEYS = {
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  PageDown: () => move(PAGE_STEP),
  PageUp: () => move(-PAGE_STEP),
  Enter: (event) => selected && choose(selected, event),
};

input.addEventListener("input", (event) => event.isComposing || type());
list.addEventListener("mousedown", (event) => event.preventDefault());
dialog.addEventListener("keydown", (event) => {
  if (event.isComposing || event.keyCode === 229 || event.target !== input || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key](event);
});

opener.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open();
});

declare("Everywhere", [{ keys: ["Mod+k"], does: "Go to a page or session, or run a command", work: open }]);
