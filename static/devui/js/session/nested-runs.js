// Nested runs below their calls during a run: adds new ones, and updates the summary and events of the others.

import { eventOf, list, parse } from "./timeline-rows.js";

/** Show the nested runs that the server rendered, a template each, outer ones first. */
export function show(html) {
  for (const change of parse(html).querySelectorAll("template")) {
    const fresh = change.content.querySelector(".nested");
    const current = list().querySelector(`[data-nested="${CSS.escape(fresh.dataset.nested)}"]`);
    if (current) update(current, fresh);
    else place(fresh, change.dataset);
  }
}

/** Show a run's newest summary and events. The answer to a request under way may lack them: then load them after it. */
function update(current, fresh) {
  current.querySelector("summary").replaceWith(fresh.querySelector("summary"));
  const isLoading = current.matches(".htmx-request") || current.querySelector(":scope > .nested-events > .htmx-request");
  if (isLoading) current.dataset.outdated = "";
  else loadNewest(current);
}

function loadNewest(run) {
  const next = run.querySelector(":scope > .nested-events > .nested-next");
  if (next) window.htmx.trigger(next, "nested:changed");
}

document.addEventListener("htmx:afterSettle", ({ target }) => {
  const run = target.closest(".nested[data-outdated]");
  if (!run) return;
  delete run.dataset.outdated;
  loadNewest(run);
});

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
