// Folds of the timeline: events that are rewound, summarized or quiet. Their content is loaded when a fold is opened.

import { searchParams } from "./search-params.js";
import { fetchPart } from "../core/fragment.js";
import * as rows from "./timeline-rows.js";

/** Load the events of folds when they are opened. `change` keeps the visible rows in place, `done` is called afterwards. */
export function loadOpened(place, change, done) {
  place.addEventListener("toggle", async ({ target }) => {
    if (!target.open || !target.matches(".fold > details:has(> .is-stub)")) return;
    await load(target, change);
    done(target);
  }, true);
}

/** Load the events of a fold, a window at a time. */
async function load(fold, change) {
  let stub = fold.querySelector(":scope > .is-stub");
  while (stub && fold.open) {
    const seq = stub.dataset.seq;
    const html = await fetchPart(`${location.pathname}?seq=${seq}${searchParams()}`, "window", `fold-${seq}`);
    if (html === null) return;
    change(() => rows.fillFolded(html));
    if (stub.isConnected) return;
    stub = fold.querySelector(":scope > .is-stub");
  }
}
