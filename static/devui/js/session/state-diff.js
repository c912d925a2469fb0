// State diff between two points in time. It replaces the state board, and the address holds the other point.

import * as board from "./state-board.js";
import { declare, isPlainClick } from "../core/shortcuts.js";
import { selectedSeq, settle } from "./selection.js";
import * as timeSlider from "./time-slider.js";

/** Show the diff between the selected point in time and another one; without another one, show the state. */
function compareWith(base) {
  settle();
  const query = new URLSearchParams(location.search);
  query.delete("begin");
  if (base === "") query.delete("diff");
  else query.set("diff", base);
  history.pushState({ event: selectedSeq() }, "", `${location.pathname}?${query}`.replace(/\?$/, ""));
  timeSlider.show(selectedSeq());
  board.show(location.href).then(() => timeSlider.announce(selectedSeq()));
}

/** Start comparing with this point in time, or stop. */
function hold() {
  compareWith(timeSlider.comparedPoint() === null ? String(selectedSeq() || "now") : "");
}

timeSlider.onCompare(hold);

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-compare]");
  if (!link || !isPlainClick(event)) return;
  event.preventDefault();
  compareWith(link.dataset.compare);
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-compare-form]")) return;
  event.preventDefault();
  compareWith(new FormData(event.target).get("diff"));
});

declare("In this session", [
  { keys: ["d"], does: "Start or stop comparing with this point in time", work: hold },
]);
