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

/** Add a run below its call, in its event or in the newest event of the open nested run with a call of its id. */
function place(fresh, { seq, parent, of, agent }) {
  const ofId = (event) => [...event.querySelectorAll(":scope > .event-body > .call")].filter((call) => call.dataset.call === of);
  const nested = `[data-nested="${CSS.escape(parent)}"] > .nested-events > li > .event`;
  const event = parent ? [...list().querySelectorAll(nested)].findLast((each) => ofId(each).length) : eventOf(seq);
  const calls = event ? ofId(event) : [];
  const ofAgent = calls.filter((call) => call.dataset.name === agent);
  // as `call_pairing.py`: of several calls of the id, the first one with the fewest runs
  const [call] = (ofAgent.length ? ofAgent : calls).sort((one, other) => runsBelow(one).length - runsBelow(other).length);
  if (!call || (parent && runsBelow(call).length)) return; // the event of a reused id comes with its runs
  (runsBelow(call).at(-1) ?? call).after(fresh);
  window.htmx.process(fresh);
}

function runsBelow(call) {
  const runs = [];
  for (let next = call.nextElementSibling; next?.matches(".nested"); next = next.nextElementSibling) runs.push(next);
  return runs;
}
