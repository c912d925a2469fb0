// Agent drawing: fits its pane where that is readable; buttons zoom it and dragging moves it.

const READABLE = 0.5;
const SMALLEST = 0.1;
const LARGEST = 2;
const STEP = 1.25;
/** Pixels that a pointer moves before a click becomes a drag. */
const DRAG = 4;

const between = (low, value, high) => Math.min(high, Math.max(low, value));

function prepare(figure) {
  const pane = figure.querySelector(".drawing-pane");
  const svg = pane.querySelector("svg");
  const { width, height } = svg.viewBox.baseVal;
  let scale = 1;
  let isOwn = false;

  function zoomTo(newScale) {
    const [x, y] = [pane.scrollLeft + pane.clientWidth / 2, pane.scrollTop + pane.clientHeight / 2];
    const factor = between(SMALLEST, newScale, LARGEST) / scale;
    scale *= factor;
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    pane.scrollTo(x * factor - pane.clientWidth / 2, y * factor - pane.clientHeight / 2);
    pane.toggleAttribute("data-pans", pane.scrollWidth > pane.clientWidth || pane.scrollHeight > pane.clientHeight);
  }

  const highest = () => parseFloat(getComputedStyle(pane).maxBlockSize);
  const asWide = () => Math.min(1, pane.clientWidth / width);
  const whole = () => Math.min(asWide(), highest() / height);
  const zooms = { in: () => scale * STEP, out: () => scale / STEP, fit: whole };

  for (const button of figure.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      isOwn = true;
      zoomTo(zooms[button.dataset.zoom]());
    });
  }
  new ResizeObserver(() => {
    if (isOwn) return;
    figure.querySelector(".drawing-tools").hidden = whole() === 1;
    zoomTo(Math.max(READABLE, asWide()));
  }).observe(pane);
  letDrag(pane);
}

function letDrag(pane) {
  let from = null;
  let isDragged = false;
  pane.addEventListener("dragstart", (event) => event.preventDefault());
  pane.addEventListener("pointerdown", ({ button, pointerType, clientX, clientY }) => {
    isDragged = false;
    if (button || pointerType !== "mouse") return; // a finger scrolls by itself
    from = { x: clientX + pane.scrollLeft, y: clientY + pane.scrollTop, clientX, clientY };
  });
  pane.addEventListener("pointermove", ({ clientX, clientY, pointerId }) => {
    if (!from) return;
    if (!isDragged && Math.hypot(clientX - from.clientX, clientY - from.clientY) < DRAG) return;
    isDragged = true;
    pane.setPointerCapture(pointerId);
    pane.scrollTo(from.x - clientX, from.y - clientY);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    pane.addEventListener(end, () => {
      from = null;
    });
  }
  pane.addEventListener("click", (event) => isDragged && event.preventDefault(), true);
}

function prepareAll(root) {
  root.querySelectorAll(".agent-drawing").forEach(prepare);
}

prepareAll(document);
document.addEventListener("htmx:load", ({ detail: { elt } }) => elt === document.body || prepareAll(elt));
