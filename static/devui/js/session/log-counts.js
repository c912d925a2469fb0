// Logs below events during a run: updates their numbers of records. An open log is reloaded.

import { eventOf, parse } from "./timeline-rows.js";

/** Show the logs that the server rendered, a template for each event. */
export function show(html) {
  for (const change of parse(html).querySelectorAll("template")) {
    const fresh = change.content.querySelector(".log");
    const body = eventOf(change.dataset.seq)?.querySelector(":scope > .event-body");
    if (!body) continue;
    const current = body.querySelector(":scope > .log");
    if (!current) body.append(fresh);
    else if (current.querySelector("summary").textContent === fresh.querySelector("summary").textContent) continue;
    else current.replaceWith(fresh);
    window.htmx.process(fresh);
    fresh.open = current?.open ?? false;
  }
}
