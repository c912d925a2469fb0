// Scrolls strips of links or tabs so that the current one is visible.

const STRIPS = ".places, .tabs";
const CURRENT = "[aria-current], [aria-selected=true]";

/** Scroll the strips in `root` to their current link or tab if it is cut off. */
export function showCurrent(root = document) {
  for (const strip of root.querySelectorAll(STRIPS)) {
    const current = strip.querySelector(CURRENT);
    if (!current || strip.scrollWidth <= strip.clientWidth) continue;
    const { left, right, width } = current.getBoundingClientRect();
    const place = strip.getBoundingClientRect();
    if (left < place.left || right > place.right) strip.scrollLeft += left - place.left - (place.width - width) / 2;
  }
}
