// Judgements of people on events: shows those that changed.

import { showTimes } from "../core/times.js";
import { eventOf, parse } from "./timeline-rows.js";

/** Show the judgements that the server rendered, a template for each event. The template of a withdrawn one is empty. */
export function showJudgements(html) {
  for (const { content, dataset } of parse(html).querySelectorAll("template")) {
    const body = eventOf(dataset.seq)?.querySelector(":scope > .event-body");
    const current = body?.querySelector(":scope > .judgement");
    const fresh = content.querySelector(".judgement");
    if (body && current?.dataset.judged === fresh?.dataset.judged) continue;
    current?.remove();
    if (body && fresh) {
      showTimes(fresh);
      body.append(fresh);
      window.htmx.process(fresh);
    }
    document.dispatchEvent(new CustomEvent("timeline:renewed", { detail: Number(dataset.seq) }));
  }
}
