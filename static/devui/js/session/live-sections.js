// Sections of the page that are loaded again when what they show has changed.

import { fetchPart, throttle } from "../core/fragment.js";
import { showTimes } from "../core/times.js";

const PAUSE = 2_000;

/**
 * An element with `data-refresh-on` is such a section: the attribute has the type of the socket's messages, `data-mark` the mark
 * that is shown. Its part of the page is requested by its id, with the fields of the form that htmx uses for it.
 */
const sections = [...document.querySelectorAll("[data-refresh-on]")].map((element) => ({
  element,
  load: throttle(PAUSE, () => load(element)),
}));

/** Load the sections for this type of message again that show another mark. */
export function noteMark({ type, mark }) {
  for (const { element, load } of sections) {
    if (element.dataset.refreshOn !== type || element.dataset.mark === mark) continue;
    element.dataset.mark = mark;
    load();
  }
}

async function load(element) {
  const form = document.querySelector(`form[hx-target="#${element.id}"]`);
  const query = form ? new URLSearchParams(new FormData(form)) : new URLSearchParams(location.search);
  const html = await fetchPart(`${location.pathname}?${query}`, element.id);
  if (html === null) return;
  const scrolled = element.scrollTop;
  element.innerHTML = html;
  element.scrollTop = scrolled;
  window.htmx.process(element);
  showTimes(element);
}
