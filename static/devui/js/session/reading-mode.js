// Conversation or everything: how much of each event the timeline shows. `boot.js` applies the stored choice before the first paint.

import { declare } from "../core/shortcuts.js";
import { NAMES, recall, remember, whenChanged } from "../core/storage.js";
import * as scrollAnchor from "./scroll-anchor.js";

const EVERYTHING = "everything";
const button = document.querySelector("[data-shows-everything]");
const scroller = document.getElementById("timeline-scroll");

function apply(mode) {
  if (mode === EVERYTHING) document.documentElement.dataset.timeline = EVERYTHING;
  else delete document.documentElement.dataset.timeline;
  button.setAttribute("aria-pressed", String(mode === EVERYTHING));
}

function toggle() {
  const mode = recall(NAMES.timeline) === EVERYTHING ? "" : EVERYTHING;
  remember(NAMES.timeline, mode);
  const rows = () => [...scroller.querySelectorAll("article.event")];
  scrollAnchor.keepPosition(scroller, rows, () => apply(mode));
}

button.hidden = false;
button.addEventListener("click", toggle);
apply(recall(NAMES.timeline));
whenChanged(NAMES.timeline, () => apply(recall(NAMES.timeline)));

declare("In this session", [{ keys: ["e"], does: "Show the conversation or everything", work: toggle }]);
