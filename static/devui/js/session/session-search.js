// Search in the session: counts and marks hits, steps from hit to hit, or shows only the hits.

import { isFiltering, searchParams } from "./search-params.js";
import { fetchPart } from "../core/fragment.js";
import { declare, focusOn, isPlainClick } from "../core/shortcuts.js";
import "../lists/query-box.js";
import * as selection from "./selection.js";
import * as timeline from "./timeline.js";

const TYPING_PAUSE = 250;
/** Minimum wait in milliseconds before hits are refreshed, and the wait as a multiple of the last response time. */
const MIN_PAUSE = 300;
const PAUSE_FACTOR = 4;
/** Milliseconds before an unfinished search continues. */
const COUNT_PAUSE = 60;
const HIGHLIGHT = "search-hit";
const MAX_RANGES = 2000;

const form = document.getElementById("session-search");
const box = form.elements.q;
const only = form.elements.only;
const place = document.getElementById("search-results");
const view = document.getElementById("window");

const result = () => place.querySelector("[data-hits]");

/* --- Asking --- */

/** Search for the form's query. The timeline changes only if it shows only hits. */
async function search() {
  clearTimeout(typing);
  const wasFiltering = isFiltering();
  const before = searchParams();
  const query = new URLSearchParams(location.search);
  for (const name of ["q", "only", "before", "after"]) query.delete(name);
  if (box.value.trim()) query.set("q", box.value.trim());
  if (only.checked) query.set("only", "1");
  history.replaceState(history.state, "", `${location.pathname}?${query}`.replace(/\?$/, ""));
  if (searchParams() === before && isFiltering() === wasFiltering) return;
  await Promise.all([refresh(), wasFiltering || isFiltering() ? showWindow() : null]);
}

async function showWindow() {
  const html = await fetchPart(location.href, "window");
  if (html === null) return;
  timeline.replace(html);
  const open = selection.selectedSeq() && timeline.eventOf(selection.selectedSeq());
  if (open) timeline.reveal(open, "center");
  else if (!selection.selectedSeq()) timeline.toEnd();
  document.dispatchEvent(new CustomEvent("timeline:replaced"));
  timeline.fill();
}

let typing = 0;
box.addEventListener("input", (event) => {
  clearTimeout(typing);
  if (!event.isComposing) typing = setTimeout(search, TYPING_PAUSE);
});
box.addEventListener("compositionend", () => {
  typing = setTimeout(search, TYPING_PAUSE);
});
only.addEventListener("change", search);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  await search();
  go(1);
});

/* Escape in the box ends the search and leaves the box: a key that is pressed then is no word to be found. */
box.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  timeline.focus(selection.selectedSeq());
  end();
});

function end() {
  box.value = "";
  return search();
}

document.addEventListener("click", (event) => {
  const chip = event.target.closest("a[data-query]");
  const hit = event.target.closest("a[data-hit]");
  const surroundings = event.target.closest("a[data-surroundings]");
  if ((!chip && !hit && !surroundings) || !isPlainClick(event)) return;
  event.preventDefault();
  if (hit) go(hit.dataset.hit === "next" ? 1 : -1);
  else if (chip) applyQuery(chip.dataset.query);
  else showSurroundings();
});

function showSurroundings() {
  only.checked = false;
  search();
}

/* What a chip asks for depends on what stands in the box by then. */
form.querySelector(".menu")?.addEventListener("toggle", async ({ target }) => {
  if (!target.open) return;
  await search();
  const html = await fetchPart(location.href, "chips");
  if (html !== null) document.getElementById("chips").innerHTML = html;
});

function applyQuery(query) {
  box.value = query;
  for (const menu of document.querySelectorAll(".session-search details[open]")) menu.open = false;
  box.focus();
  search();
}

/* --- What was found --- */

/**
 * Refresh the number of hits and the hits among the events on the page. Return whether the server answered.
 * Without a query, the hits are cleared at once, so that a key pressed meanwhile does not step through old hits.
 */
async function refresh(purpose = "search-results") {
  if (!searchParams()) {
    place.replaceChildren();
    mark();
    return false;
  }
  const fresh = await fetchHits({}, purpose);
  if (!fresh) return false;
  place.replaceChildren(fresh);
  place.dataset.query = searchParams();
  mark();
  if (isCounting()) continueCount();
  return true;
}

/** Fetch the hits; null without a response, or if the query has changed since. */
async function fetchHits(parameters, purpose) {
  const { first, last } = timeline.list().dataset;
  const searchState = () => `${searchParams()} ${selection.selectedSeq()}`;
  const before = searchState();
  const query = new URLSearchParams(location.search);
  const position = { first, last, at: timeline.onScreen()[0], ...previousCount(), ...parameters };
  for (const [name, value] of Object.entries(position)) query.set(name, value);
  const html = await fetchPart(`${location.pathname}?${query}`, "search-results", purpose);
  if (html === null || searchState() !== before) return null;
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  return fresh.content;
}

/** Reuse the count of an earlier response to the same query. */
function previousCount() {
  const { counted, count } = result()?.dataset ?? {};
  return counted && place.dataset.query === searchParams() ? { counted, count } : {};
}

const isCounting = () => "counting" in (result()?.dataset ?? {});
let counting = 0;

/** Let the server continue counting from where it stopped. Announce only changes. */
function continueCount() {
  clearTimeout(counting);
  counting = setTimeout(async () => {
    if (!isCounting()) return;
    const previous = result();
    const fresh = (await fetchHits({ part: "count" }, "count"))?.querySelector("[data-hits]");
    if (!fresh || previous !== result()) return; // the hits were refreshed meanwhile, and this count may be older
    for (const name of ["earlier", "later", "down", "up"]) fresh.dataset[name] = previous.dataset[name];
    if (announcedText(fresh) === announcedText(previous)) {
      for (const name of ["counted", "count"]) previous.dataset[name] = fresh.dataset[name];
      previous.querySelector("progress").value = fresh.querySelector("progress").value;
    } else {
      previous.replaceWith(fresh);
    }
    mark();
    continueCount();
  }, COUNT_PAUSE);
}

const announcedText = (line) => [...line.querySelectorAll(":scope > span, :scope > a")].map((each) => each.textContent).join();

let waiting = 0;
let pause = MIN_PAUSE;

/** Refresh the hits soon; the longer the last response took, the less often. */
function refreshSoon() {
  if (!searchParams() || waiting) return;
  waiting = setTimeout(async () => {
    waiting = 0;
    const start = performance.now();
    await refresh();
    pause = Math.max(MIN_PAUSE, PAUSE_FACTOR * (performance.now() - start));
  }, pause);
}

for (const name of ["timeline:new-events", "timeline:loaded", "timeline:renewed", "timeline:replaced"]) {
  document.addEventListener(name, refreshSoon);
}
new MutationObserver(refreshSoon).observe(view, { subtree: true, attributeFilter: ["aria-current"] });

/** Mark the hits on the page and highlight the query's words in them. */
function mark() {
  const hits = new Set(JSON.parse(result()?.dataset.hits ?? "[]"));
  const isHit = (event) => isFiltering() || hits.has(Number(event.dataset.seq));
  for (const event of timeline.events()) event.classList.toggle("is-hit", Boolean(result()) && isHit(event));
  highlight();
}

function highlight() {
  if (!window.CSS?.highlights) return;
  CSS.highlights.delete(HIGHLIGHT);
  const words = JSON.parse(result()?.dataset.words ?? "[]").filter(Boolean);
  if (!words.length) return;
  const pattern = new RegExp(words.map(patternOf).join("|"), "giu");
  const ranges = [];
  for (const body of view.querySelectorAll(".is-hit .event-body")) {
    const texts = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode() && ranges.length < MAX_RANGES) ranges.push(...matches(texts.currentNode, pattern));
  }
  CSS.highlights.set(HIGHLIGHT, new Highlight(...ranges));
}

/** As in the index, any characters except letters may separate the words of a phrase. */
const patternOf = (text) => text
  .split(/[^\p{L}\p{N}]+/u)
  .filter(Boolean)
  .join("[^\\p{L}\\p{N}]*") || "(?!)";

function matches(node, pattern) {
  return [...node.data.matchAll(pattern)].map(({ index, 0: text }) => {
    const range = new Range();
    range.setStart(node, index);
    range.setEnd(node, index + text.length);
    return range;
  });
}

/* --- Going from hit to hit --- */

let steps = 0;
let isGoing = false;

/** Step by a number of hits. Steps requested while one is running are added up. */
async function go(by) {
  steps += by;
  if (isGoing) return;
  isGoing = true;
  while (steps && result()) if (!(await makeSteps())) steps = 0;
  steps = 0;
  isGoing = false;
}

/** Step as far as hits are known, or load more hits. Return whether a step was possible. */
async function makeSteps() {
  const [way, cursor] = steps > 0 ? ["later", "up"] : ["earlier", "down"];
  const seqs = JSON.parse(result().dataset[way]);
  if (!seqs.length) return loadHits(way, cursor);
  const stepCount = Math.min(Math.abs(steps), seqs.length);
  steps -= Math.sign(steps) * stepCount;
  await open(seqs[stepCount - 1]);
  return !steps || refresh("steps");
}

async function loadHits(way, cursor) {
  const place = Number(result().dataset[cursor]);
  const fresh = place && (await fetchHits({ part: way, [cursor]: place }, "steps"))?.querySelector("[data-hits]");
  if (!fresh || !result()) return false;
  for (const name of [way, cursor]) result().dataset[name] = fresh.dataset[name];
  return true;
}

async function open(seq) {
  if (seq !== selection.selectedSeq()) {
    const view = document.querySelector("input[name=view]:checked");
    const opened = selection.select(seq);
    view.checked = true; // on a narrow screen one goes from hit to hit in the timeline, not in the details
    await opened;
  }
  const event = timeline.eventOf(seq);
  if (event) timeline.reveal(event);
}

const hasResult = () => Boolean(result());

declare("In this session", [
  { keys: ["f"], does: "Find in this session", work: () => focusOn(box) },
  { keys: ["n"], does: "Next hit", when: hasResult, steps: true, work: () => go(1) },
  { keys: ["N"], does: "Previous hit", when: hasResult, steps: true, work: () => go(-1) },
  { keys: ["Escape"], does: "End the search", when: hasResult, work: () => end() },
]);

/* Back and forth in the history: the form says what the address says. */
addEventListener("popstate", () => {
  const query = new URLSearchParams(location.search);
  const isOther = box.value !== (query.get("q") ?? "") || only.checked !== query.has("only");
  box.value = query.get("q") ?? "";
  only.checked = query.has("only");
  if (!isOther) return;
  refresh();
  showWindow();
});

refreshSoon();
