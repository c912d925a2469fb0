// Agent lanes of the rows on the page, extended when an agent that seemed to have ended speaks again.

const SVG = "http://www.w3.org/2000/svg";
/** Pixels between two lanes, as the server draws them. */
const STEP = 7;

/** Extend the lanes of new events through the rows before them, up to the agent's previous event. */
export function connectLanes(events) {
  for (const event of events) if (event.matches(".has-lanes")) leadTo(event);
}

function leadTo(event) {
  const number = laneOf(event);
  if (!number || lineOf(event, number)?.getAttribute("y1") !== "0") return;
  for (const before of eventsBefore(event)) {
    if (laneOf(before) === number) {
      lineOf(before, number)?.setAttribute("y2", "100%");
      return;
    }
    if (!lineOf(before, number)) drawThrough(before, number);
  }
}

/** The lane number of an event's author; undefined for a person. */
const laneOf = (event) => /\blane-([1-9])\b/.exec(event.className)?.[1];
const lineOf = (event, number) => event.querySelector(`:scope > .lanes > line.lane-${number}`);

/** The events above an event in its invocation, nearest first. */
function eventsBefore(event) {
  const name = CSS.escape(event.closest(".invocation").dataset.invocation);
  const all = [...event.closest("ol.groups").querySelectorAll(`[data-invocation="${name}"] .event.has-lanes:has(> .lanes)`)];
  return all.slice(0, all.indexOf(event)).reverse();
}

function drawThrough(event, number) {
  const line = document.createElementNS(SVG, "line");
  const x = (number - 0.5) * STEP;
  for (const [name, value] of Object.entries({ class: `lane-${number}`, x1: x, x2: x, y1: 0, y2: "100%" })) {
    line.setAttribute(name, value);
  }
  event.querySelector(":scope > .lanes").prepend(line);
}
