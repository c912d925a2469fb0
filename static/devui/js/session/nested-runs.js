// Nested runs under their calls, while they run: new ones are added, known ones get their newest first line and events.

import { eventOf, list, parse } from "./timeline-rows.js";

/** Show the nested runs that the server rendered, a template each, outer ones first. */
export function show(html) {
  for (const change of parse(html).querySelectorAll("template")) {
    const fresh = change.content.querySelector(".nested");
    const shown = list().querySelector(`[data-nested="${CSS.escape(fresh.dataset.nested)}"]`);
    if (shown) update(shown, fresh);
    else place(fresh, change.dataset);
  }
}

function update(shown, fresh) {
  shown.querySelector("summary").replaceWith(fresh.querySelector("summary"));
  const next = shown.querySelector(":scope > .nested-events > .nested-next");
  if (next) window.htmx.trigger(next, "nested:changed");
}

/** Add a run below its call, in its event or in the open nested run that made the call. */
function place(fresh, { seq, parent, of }) {
  const calls = parent
    ? list().querySelectorAll(`[data-nested="${CSS.escape(parent)}"] > .nested-events > li > .event .call`)
    : eventOf(seq)?.querySelectorAll(":scope > .event-body > .call") ?? [];
  let last = [...calls].find((call) => call.dataset.call === of);
  if (!last) return;
  while (last.nextElementSibling?.matches(".nested")) last = last.nextElementSibling;
  last.after(fresh);
  window.htmx.process(fresh);
}
