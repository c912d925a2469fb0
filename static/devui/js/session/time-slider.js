// The time axis: a slider over the events of the session, where on it one is, and which other moment is held.

const travel = document.querySelector(".travel");
const slider = travel.querySelector("input[type=range]");
const held = travel.querySelector("[data-held]");
const holder = travel.querySelector("[data-hold]");
const teller = document.getElementById("travel-teller");

/** The seq of the event that was open when the page came, 0 for none. */
export const openAtFirst = Number(travel.dataset.selected) || 0;

/** The seq of the session's last event. */
export const last = () => Number(travel.dataset.last);

/** Take note of how long the session is. */
export function setLast(seq) {
  slider.max = Math.max(1, seq);
  slider.disabled = !seq;
  travel.dataset.last = seq;
}

/** Show at which event one is; 0 is now. */
export function show(seq) {
  const end = last();
  slider.value = seq || end;
  slider.setAttribute("aria-valuetext", seq ? `event ${seq} of ${end}` : `now, after event ${end}`);
  const text = seq ? `${seq.toLocaleString("en")} / ${end.toLocaleString("en")}` : "now";
  travel.querySelector(".travel-at").textContent = text;
  travel.querySelector("[data-deselect]").hidden = !seq;
  showHeld();
}

/** The other moment that this one is compared with: a seq or `now`; null for none. */
export const heldMoment = () => new URLSearchParams(location.search).get("diff");

function showHeld() {
  const base = heldMoment();
  const end = last();
  held.hidden = base === null;
  holder.setAttribute("aria-pressed", String(base !== null));
  const at = base === "now" ? end : Number(base);
  held.style.insetInlineStart = `${(100 * Math.max(0, at - 1)) / Math.max(1, end - 1)}%`;
}

/** Say where one is, for those who do not see the board. */
export function tell(seq) {
  const changed = [...document.querySelectorAll("#board .entry.is-changed .change-key")].map((key) => key.textContent);
  const wrote = changed.length ? `, which wrote ${changed.slice(0, 5).join(", ")}` : "";
  teller.textContent = `${document.getElementById("board-title")?.textContent.trim() ?? ""}${seq ? wrote : ""}`;
}

/** Let the slider work: `move` takes the seq of an event. */
export function whenMoved(move) {
  slider.addEventListener("input", () => move(Number(slider.value)));
  slider.form.addEventListener("submit", (event) => event.preventDefault());
}

/** Let the button work that holds this moment, or lets go of it. */
export function whenHeld(work) {
  holder.hidden = false;
  holder.addEventListener("click", work);
}
