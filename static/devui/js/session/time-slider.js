// Time slider over the events of the session. It also shows the point in time that the board is compared with.

const axis = document.querySelector(".time-slider");
const slider = axis.querySelector("input[type=range]");
const marker = axis.querySelector("[data-base]");
const compareButton = axis.querySelector("[data-hold]");
const announcer = document.getElementById("time-announcer");

/** The seq of the event that was open when the page loaded, 0 for none. */
export const initialSeq = Number(axis.dataset.selected) || 0;

/** The seq of the session's last event. */
export const last = () => Number(axis.dataset.last);

/** Set the seq of the session's last event. */
export function setLast(seq) {
  slider.max = Math.max(1, seq);
  slider.disabled = !seq;
  axis.dataset.last = seq;
}

/** Show the selected event; 0 is now. */
export function show(seq) {
  const end = last();
  slider.value = seq || end;
  slider.setAttribute("aria-valuetext", seq ? `event ${seq} of ${end}` : `now, after event ${end}`);
  const text = seq ? `${seq.toLocaleString("en")} / ${end.toLocaleString("en")}` : "now";
  axis.querySelector(".time-slider-position").textContent = text;
  axis.querySelector("[data-deselect]").hidden = !seq;
  showComparedPoint();
}

/** The point in time that the board is compared with: a seq or `now`; null for none. */
export const comparedPoint = () => new URLSearchParams(location.search).get("diff");

function showComparedPoint() {
  const base = comparedPoint();
  const end = last();
  marker.hidden = base === null;
  compareButton.setAttribute("aria-pressed", String(base !== null));
  const at = base === "now" ? end : Number(base);
  marker.style.insetInlineStart = `${(100 * Math.max(0, at - 1)) / Math.max(1, end - 1)}%`;
}

/** Announce the selected event and the keys it wrote to screen readers. */
export function announce(seq) {
  const changed = [...document.querySelectorAll("#board .entry.is-changed .change-key")].map((key) => key.textContent);
  const writes = changed.length ? `, which wrote ${changed.slice(0, 5).join(", ")}` : "";
  announcer.textContent = `${document.getElementById("board-title")?.textContent.trim() ?? ""}${seq ? writes : ""}`;
}

/** Call `move` with the seq of an event when the slider moves. */
export function onMove(move) {
  slider.addEventListener("input", () => move(Number(slider.value)));
  slider.form.addEventListener("submit", (event) => event.preventDefault());
}

/** Enable the button that starts or ends a comparison with this point in time. */
export function onCompare(work) {
  compareButton.hidden = false;
  compareButton.addEventListener("click", work);
}
