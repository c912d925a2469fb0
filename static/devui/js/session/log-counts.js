// Numbers of log records below events, while a run goes on. An open log is loaded again.

import { eventOf, parse } from "./timeline-rows.js";

/** Show the numbers that the server rendered, a template each. */
export function show(html) {
  for (const change of parse(html).querySelectorAll("template")) {
    const fresh = change.content.querySelector(".log");
    const body = eventOf(change.dataset.seq)?.querySelector(":scope > .event-body");
    if (!body) continue;
    const shown = body.querySelector(":scope > .log");
    if (!shown) body.append(fresh);
    else if (shown.querySelector("summary").textContent === fresh.querySelector("summary").textContent) continue;
    else shown.replaceWith(fresh);
    window.htmx.process(fresh);
    fresh.open = shown?.open ?? false;
  }
}
