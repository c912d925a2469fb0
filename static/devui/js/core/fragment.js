// Fetches fragments of a page from its own address, as htmx does.

import { waitForRelease } from "./press.js";
import { errorOf, showError } from "./toasts.js";

const running = new Map();
const unreachable = new Set();

/** Tell whether the server was unreachable at the last request for this purpose. */
export const wasUnreachable = (purpose) => unreachable.has(purpose);

/**
 * Fetch the content of the element `target` from `url`; a newer request for the same `purpose` aborts this one. The caller
 * may replace content at once: the promise is fulfilled when no control is pressed.
 */
export async function fetchPart(url, target, purpose = target) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  try {
    const headers = { "HX-Request": "true", "HX-Target": target };
    const response = await fetch(url, { headers, signal: control.signal });
    const text = await response.text();
    unreachable.delete(purpose);
    await waitForRelease();
    if (control.signal.aborted) return null;
    if (response.ok) return text;
    if (isUnhandled(response.status, text)) showError(...errorOf(text, response.status));
  } catch (error) {
    if (error.name === "AbortError") return null;
    unreachable.add(purpose);
    showError("The server cannot be reached.", "Is it still running?");
  }
  return null;
}

/** Dispatch the refusal to the page, which may handle it. Return whether the error must still be shown. */
function isUnhandled(status, text) {
  return document.dispatchEvent(new CustomEvent("part:refused", { cancelable: true, detail: { status, text } }));
}

/** Attributes that identify an element within a fragment, in order of preference. */
const MARKS = ["id", "data-keep", "data-command", "data-attempt", "data-close-attempt", "href", "aria-label"];

/** Return a selector that finds the same control in newer content; "" if no attribute identifies it. */
function selectorOf(element) {
  const mark = MARKS.find((name) => element.hasAttribute(name));
  return mark ? `${element.localName}[${mark}="${CSS.escape(element.getAttribute(mark))}"]` : "";
}

/**
 * Change the content of an element by `change`. The focus stays on the same control; if that is gone,
 * it moves to the heading, so that keyboard users do not start at the top of the page again.
 */
export function keepFocus(place, change) {
  const focused = document.activeElement;
  const selector = place.contains(focused) ? selectorOf(focused) : null;
  change();
  if (selector === null || document.activeElement === focused) return;
  (selector ? place.querySelector(selector) : null)?.focus({ preventScroll: true });
  if (place.contains(document.activeElement)) return;
  const heading = place.querySelector("h1, h2, h3");
  if (heading) heading.tabIndex = -1;
  heading?.focus({ preventScroll: true });
}

/**
 * Return a function that runs `work` once at a time. Of the calls that arrive meanwhile, only the last one runs. Its promise
 * is fulfilled when that call is done.
 */
export function runLatest(work) {
  let pending = null;
  let running = null;
  const run = async () => {
    while (pending) {
      const args = pending;
      pending = null;
      await work(...args);
    }
  };
  return (...args) => {
    pending = args;
    return (running ??= run().finally(() => (running = null)));
  };
}

/** Return a function that calls `work` at most once in `wait` milliseconds, the last time too. */
export function throttle(wait, work) {
  let timer = 0;
  let last = -wait;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      work();
    }, Math.max(0, last + wait - performance.now()));
  };
}
