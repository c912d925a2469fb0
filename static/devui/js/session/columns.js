// Columns of the session page: they fold and resize, and the browser stores both.

import { NAMES, recall, remember } from "../core/storage.js";

const page = document.getElementById("session");
const STEP = 16;
const LIMITS = { sessions: [160, 480], detail: [280, 900] };

function fold(names) {
  page.dataset.folded = names.join(" ");
  for (const button of page.querySelectorAll("[data-fold]")) {
    const isFolded = names.includes(button.dataset.fold);
    button.setAttribute("aria-expanded", String(!isFolded));
    button.title = isFolded ? "Unfold" : "Fold";
  }
}

function widen(column, width) {
  const [least, most] = LIMITS[column];
  const pixels = Math.round(Math.min(most, Math.max(least, width)));
  page.style.setProperty(`--${column}-width`, `${pixels}px`);
  page.querySelector(`[data-splits=${column}]`).setAttribute("aria-valuenow", pixels);
  remember(NAMES.width(column), String(pixels));
}

const widthOf = (column) => document.getElementById(`column-${column}`).getBoundingClientRect().width;

page.addEventListener("click", (event) => {
  const button = event.target.closest("[data-fold]");
  if (!button) return;
  const names = (page.dataset.folded ?? "").split(" ").filter(Boolean);
  const name = button.dataset.fold;
  const folded = names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
  fold(folded);
  remember(NAMES.folded, folded.join(" "));
});

/* A key leads to a field in a column that is not shown: it is then, on a screen and in a layout of any kind. */
page.addEventListener("wanted", ({ target }) => {
  const name = target.closest(".column")?.id.replace("column-", "");
  if (!name) return;
  page.querySelector(`input[name=view][value=${name}]`).checked = true;
  if ("wide" in page.dataset && name !== "detail") page.querySelector("button[data-wide]").click();
  if ((page.dataset.folded ?? "").split(" ").includes(name)) page.querySelector(`[data-fold=${name}]`).click();
});

for (const splitter of page.querySelectorAll("[data-splits]")) {
  const column = splitter.dataset.splits;
  const direction = column === "sessions" ? 1 : -1;
  splitter.addEventListener("pointerdown", (event) => {
    const start = event.clientX;
    const width = widthOf(column);
    const drag = (move) => widen(column, width + direction * (move.clientX - start));
    splitter.setPointerCapture(event.pointerId);
    splitter.classList.add("is-dragged");
    splitter.addEventListener("pointermove", drag);
    splitter.addEventListener("lostpointercapture", () => {
      splitter.classList.remove("is-dragged");
      splitter.removeEventListener("pointermove", drag);
    }, { once: true });
  });
  splitter.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (!by) return;
    event.preventDefault();
    widen(column, widthOf(column) + direction * by);
  });
  const [least, most] = LIMITS[column];
  splitter.setAttribute("aria-valuemin", least);
  splitter.setAttribute("aria-valuemax", most);
  splitter.setAttribute("aria-valuenow", Math.round(widthOf(column)));
  const storedWidth = Number(recall(NAMES.width(column)));
  if (storedWidth) widen(column, storedWidth);
}
fold(recall(NAMES.folded).split(" ").filter((name) => name in LIMITS));
