// Time slider over the events of the session. It also shows the point in time that the board is compared with.

const travel = document.querySelector(".travel");
const slider = travel.querySelector("input[type=range]");
const held = travel.querySelector("[data-held]");
const holder = travel.querySelector("[data-hold]");
const teller = document.getElementById("travel-teller");

/** The seq of the event that was open when the page loaded, 0 for none. */
export const openAtFirst = Number(travel.dataset.selected) || 0;

/** The seq of the session's last event. */
export const last = () => Number(travel.dataset.last);

/** Set the seq of the session's last event. */
export function setLast(seq) {
  slider.max = Math.max(1, seq);
  slider.disabled = !seq;
  travel.dataset.last = seq;
}

/** Show the selected event; 0 is now. */
export function show(seq) {
  const end = last();
  slider.value = seq || end;
  slider.setAttribute("aria-valuetext", seq ? `event ${seq} of ${end}` : `now, after event ${end}`);
  const text = seq ? `${seq.toLocaleString("en")} / ${end.toLocaleString("en")}` : "now";
  travel.querySelector(".travel-at").textContent = text;
  travel.querySelector("[data-deselect]").hidden = !seq;
  showHeld();
}

/** The point in time that the board is compared with: a seq or `now`; null for none. */
export const heldMoment = () => new URLSearchParams(location.search).get("diff");

function showHeld() {
  const base = heldMoment();
  const end = last();
  held.hidden = base === null;
  holder.setAttribute("aria-pressed", String(base !== null));
  const at = base === "now" ? end : Number(base);
  held.style.insetInlineStart = `${(100 * Math.max(0, at - 1)) / Math.max(1, end - 1)}%`;
}

/** Announce the selected event and the keys it wrote to screen readers. */
export function tell(seq) {
  const changed = [...document.querySelectorAll("#board .entry.is-changed .change-key")].map((key) => key.textContent);
  const wrote = changed.length ? `, which wrote ${changed.slice(0, 5).join(", ")}` : "";
  teller.textContent = `${document.getElementById("board-title")?.textContent.trim() ?? ""}${seq ? wrote : ""}`;
}

/** Call `move` with the seq of an event when the slider moves. */
export function whenMoved(move) {
  slider.addEventListener("input", () => move(Number(slider.value)));
  slider.form.addEventListener("submit", (event) => event.preventDefault());
}

/** Enable the button that starts or ends a comparison with this point in time. */
export function whenHeld(work) {
  holder.hidden = false;
  holder.addEventListener("click", work);
}
