// Tells whether a control is pressed. A control that is replaced between press and release gets no click.

/** What acts on a click. A row of a table opens what it shows. */
const CONTROLS = "a, button, label, summary, tr, [role=option]";

let release = null;
let released = Promise.resolve();

function end() {
  release?.();
  release = null;
}

addEventListener("pointerdown", ({ button, target }) => {
  end();
  if (button === 0 && target.closest(CONTROLS)) released = new Promise((resolve) => { release = resolve; });
}, true);
/* The click comes after `pointerup`, in the same task. A drag and a scroll by touch cancel the press. */
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => setTimeout(end), true);
addEventListener("pointermove", ({ buttons }) => buttons || end()); // released where no event was sent

export const isPressed = () => release !== null;

/** Return a promise that is fulfilled when no control is pressed. Callers go on in the order of their calls. */
export async function waitForRelease() {
  while (isPressed()) await released; // if a release was not seen, the next press ends the wait, and is waited for
}
