// State board: loads only differences and replaces them key by key, so that unchanged keys do not move.

import { fetchPart, runLatest } from "../core/fragment.js";
import { waitForRelease } from "../core/press.js";
import "./hints.js";
import { declare, isPlainClick } from "../core/shortcuts.js";
import { showTimes } from "../core/times.js";
import * as watched from "./watched-keys.js";

const place = document.getElementById("board");

let address = location.href;
let isLoading = false;
let loading = Promise.resolve();

/** True if the page's board is incomplete: the whole board is loaded, not the differences. */
let isIncomplete = false;

const board = () => place.querySelector(".board");

/**
 * Show the board of an address.
 *
 * @param {string} url
 * @param {{live?: boolean}} options  `live`: the state has changed, not the selected point in time
 * @returns {Promise<void>} fulfilled when the last requested board is on the page
 */
export function show(url, { live = false } = {}) {
  address = url;
  loading = load(live);
  return loading;
}

/** Reload the board of the same point in time. */
export const renew = (options) => show(address, options);

const load = runLatest(async (live) => {
  isLoading = true;
  const html = await answer(addressFrom(address));
  isLoading = isIncomplete = false;
  if (html !== null) replaceBoard(html, live);
  if (isIncomplete) load(live);
});

/** Prefetched responses by address. */
let ahead = new Map();

/**
 * Prefetch the boards that are likely to be requested next, one after the other: each as the differences from the one
 * before. With two at a time, the first has arrived when a held key requests it.
 *
 * @param {{url: string, seq: number}[]} steps
 */
export function prepare(steps) {
  if (isLoading) return;
  const before = [board()?.dataset.at, ...steps.map(({ seq }) => seq)];
  const requests = steps.map(({ url, seq }, place) => [addressFrom(url, before[place]), `ahead${seq % 2}`]);
  ahead = new Map(requests.map(([url, purpose]) => [url, ahead.get(url) ?? fetchPart(url, "board", purpose)]));
}

async function answer(url) {
  const prefetched = await ahead.get(url);
  ahead.delete(url);
  await waitForRelease();
  return prefetched ?? fetchPart(url, "board");
}

/** Return the address with the board that the page has, or will have: the one at the event `at`. */
function addressFrom(url, at = board()?.dataset.at) {
  const requestUrl = new URL(url, location.href);
  const { mark, like, begin } = board()?.dataset ?? {};
  const isSame = (name, value) => value === (requestUrl.searchParams.get(name) ?? "");
  const isSameSearch = isSame("key", like) && isSame("begin", begin);
  if (Number(at) && isSameSearch && !isIncomplete && !requestUrl.searchParams.has("diff")) {
    requestUrl.searchParams.set("known_event", at);
    requestUrl.searchParams.set("mark", mark);
  }
  for (const name of watched.names()) requestUrl.searchParams.append("watch", name);
  return requestUrl.href;
}

function replaceBoard(html, live) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const now = board();
  const next = fresh.content.querySelector(".board");
  const isPatch = now?.dataset.at !== undefined && next.dataset.at !== undefined;
  const scroller = () => place.querySelector(".columns, .board > .entries");
  const scrollTop = scroller()?.scrollTop ?? 0;
  if (isPatch) patch(now, next, live);
  else {
    place.replaceChildren(fresh.content);
    settle(place);
    if (scroller()) scroller().scrollTop = scrollTop;
  }
  finish(live);
}

function patch(now, next, live) {
  Object.assign(now.dataset, next.dataset);
  replaceChanged(now.querySelector(".board-head"), next.querySelector(".board-head"));
  for (const part of [".radio-tabs", ".columns"]) copyCounts(now.querySelector(part), next.querySelector(part));
  now.querySelector(".key-search").hidden = next.querySelector(".key-search").hidden;
  replaceContent(now.querySelector(".board-more"), next.querySelector(".board-more"));
  const scroller = now.querySelector(".columns");
  const anchor = live ? firstInView(scroller) : null;
  const before = anchor?.getBoundingClientRect().top;
  const lists = [...scroller.querySelectorAll(".entries")];
  const hints = [...scroller.querySelectorAll(".column-more, .empty-scope")];
  for (const [at, list] of [...next.querySelectorAll(".columns .entries")].entries()) patchList(lists[at], list, live);
  for (const [at, hint] of [...next.querySelectorAll(".column-more, .empty-scope")].entries()) {
    replaceContent(hints[at], hint);
  }
  if (anchor?.isConnected) scroller.scrollTop += anchor.getBoundingClientRect().top - before;
}

/** Replace entries that differ; equal entries stay, open and focused. */
function patchList(list, next, live) {
  const had = new Map([...list.children].map((entry) => [entry.dataset.id, entry]));
  const fresh = new Map([...next.children].map((entry) => [entry.dataset.id, entry]));
  const entries = [];
  for (const id of next.dataset.order ? JSON.parse(next.dataset.order) : fresh.keys()) {
    const [old, entry] = [had.get(id), fresh.get(id)];
    if (old && (!entry || old.dataset.version === entry.dataset.version)) entries.push(old);
    else if (entry) entries.push(takePlace(list, entry, old, live));
    else isIncomplete = true;
  }
  const newEntries = new Set(entries);
  for (const old of had.values()) if (!newEntries.has(old)) old.remove();
  let at = list.firstElementChild;
  for (const entry of entries) {
    if (entry === at) at = at.nextElementSibling;
    else list.insertBefore(entry, at);
  }
}

function takePlace(list, entry, old, live) {
  const isOpen = old?.querySelector("details[open]");
  const focused = focusedIn(old);
  if (old) old.replaceWith(entry);
  else list.append(entry);
  settle(entry);
  if (live) entry.classList.add("is-fresh");
  if (isOpen && entry.querySelector("details")) entry.querySelector("details").open = true;
  reachable(entry)[focused]?.focus({ preventScroll: true });
  return entry;
}

const reachable = (element) => [...element.querySelectorAll("a, button, summary")];
const focusedIn = (element) => (element ? reachable(element).indexOf(document.activeElement) : -1);

function settle(element) {
  window.htmx.process(element);
  showTimes(element);
}

function replaceChanged(old, next) {
  if (old.dataset.version === next.dataset.version) return;
  const focused = focusedIn(old);
  old.dataset.version = next.dataset.version;
  replaceContent(old, next);
  reachable(old)[focused]?.focus();
}

/**
 * Replace the children of an element. The element itself stays: sibling selectors that start at the tabs would
 * otherwise restyle every entry of the board, which takes 15 ms of a step through 300 keys.
 */
function replaceContent(old, next) {
  if (old.innerHTML === next.innerHTML) return;
  old.replaceChildren(...next.childNodes);
  settle(old);
}

function copyCounts(old, next) {
  const counts = next.querySelectorAll("[data-count]");
  for (const [at, count] of [...old.querySelectorAll("[data-count]")].entries()) {
    if (count.textContent !== counts[at].textContent) count.textContent = counts[at].textContent;
  }
}

function firstInView(scroller) {
  const top = scroller.getBoundingClientRect().top;
  return [...scroller.querySelectorAll(".entry")].find((entry) => entry.getBoundingClientRect().bottom > top);
}

/** Add what needs a script to a board that was put on the page. */
function finish(live) {
  watched.show(live);
  showWidth();
  document.dispatchEvent(new CustomEvent("board:shown"));
}

/* --- Wait for the board that is loading before following a link of its head --- */

const nameOf = (link) => link.getAttribute("aria-label");

function holdBack(event) {
  const link = event.target.closest("#board .board-head .actions > a");
  if (!link || !isLoading || !isPlainClick(event)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const isSame = (other) => nameOf(other) === nameOf(link) || other.pathname === link.pathname;
  loading.then(() => [...place.querySelectorAll(".board-head .actions > a")].find(isSame)?.click());
}

document.addEventListener("click", holdBack, { capture: true });

/* --- Search for keys that are not shown --- */

const TYPING_PAUSE = 200;
let typing = 0;

function search() {
  clearTimeout(typing);
  const query = new URLSearchParams(location.search);
  const keyName = place.querySelector(".key-search input[name=key]").value.trim();
  if (keyName === (query.get("key") ?? "")) return;
  if (keyName) query.set("key", keyName);
  else query.delete("key");
  query.delete("begin");
  history.replaceState(history.state, "", `${location.pathname}?${query}`.replace(/\?$/, ""));
  show(location.href);
}

place.addEventListener("input", (event) => {
  if (!event.target.matches(".key-search input")) return;
  clearTimeout(typing);
  if (!event.isComposing) typing = setTimeout(search, TYPING_PAUSE);
});
place.addEventListener("compositionend", (event) => {
  if (event.target.matches(".key-search input")) typing = setTimeout(search, TYPING_PAUSE);
});
place.addEventListener("submit", (event) => {
  if (!event.target.matches(".key-search")) return;
  event.preventDefault();
  search();
});

/* --- The next keys of a scope, where there are very many --- */

async function turnOver(link) {
  const column = link.closest("[data-column]");
  history.pushState(history.state, "", link.href);
  await show(location.href);
  column.scrollIntoView({ block: "start" });
  place.querySelector(".columns").focus({ preventScroll: true });
}

place.addEventListener("click", (event) => {
  const link = event.target.closest(".column-more > a");
  if (!link || !isPlainClick(event)) return;
  event.preventDefault();
  turnOver(link);
});

/* --- As wide as the page: scopes side by side --- */

const page = document.getElementById("session");

function showWidth() {
  const button = place.querySelector("button[data-wide]");
  if (!button) return;
  button.hidden = false;
  button.setAttribute("aria-pressed", String("wide" in page.dataset));
}

function widen() {
  page.toggleAttribute("data-wide");
  showWidth();
}

page.addEventListener("click", (event) => event.target.closest("button[data-wide], [data-to-timeline]") && widen());
declare("In this session", [{ keys: ["b"], does: "Widen or narrow the state board", work: widen }]);

/** Load watched keys that are beyond the shown ones. */
function complete() {
  if (!place.querySelector(".board-more > *") || !watched.isAnyMissing()) return;
  isIncomplete = true;
  renew();
}

document.addEventListener("watched:changed", complete);
finish(false);
complete();
