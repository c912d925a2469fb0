// Judging an event: by keys, and what the server answers.

import { declare } from "../core/shortcuts.js";
import { selectedSeq } from "./selection.js";
import * as timeline from "./timeline.js";

/* The answer to a judgement is put into the timeline; the socket of a paused or offline page would not bring it. */
document.addEventListener("htmx:afterRequest", ({ detail: { successful, xhr } }) => {
  const isJudgement = successful && xhr.getResponseHeader("HX-Trigger-After-Swap")?.includes("judged");
  if (isJudgement) timeline.showJudgements(xhr.responseText);
});

/** Judge the open event; if it is judged, open its judgement. */
function judge(verdict) {
  document.querySelector(`.event-actions [data-judge=${verdict}], .inspector > .judgement a`)?.click();
}

declare("In this session", [
  { keys: ["+"], does: "Judge the event as good", when: selectedSeq, work: () => judge("good") },
  { keys: ["-"], does: "Judge the event as bad", when: selectedSeq, work: () => judge("bad") },
]);
