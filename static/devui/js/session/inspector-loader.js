// Loads the inspector of the selected event, or the session's overview if none is selected.

import { fetchPart, runLatest } from "../core/fragment.js";
import { showTimes } from "../core/times.js";

const place = document.getElementById("inspection");

let markup = "";

/**
 * Show the inspector of an address.
 *
 * @param {string} url
 * @param {{isOther?: boolean}} options  `isOther`: the page shows another event, and looks so until the new one is loaded
 */
export const inspect = runLatest(async (url, { isOther = false } = {}) => {
  if (isOther) place.setAttribute("aria-busy", "true");
  const html = await fetchPart(url, "inspection");
  if (html === null) return; // what is on the page is about another event still
  place.removeAttribute("aria-busy");
  if (html === markup) return;
  markup = html;
  place.innerHTML = html;
  window.htmx.process(place);
  showTimes(place);
});
