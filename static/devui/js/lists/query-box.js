// Search box with completions in a list below it. Nothing happens while an input method composes.

import { fetchPart } from "../core/fragment.js";

const WAIT = 120;
const box = document.getElementById("query");
const place = document.getElementById("query-completions");
let timer = 0;
let active = -1;
let newest = 0; // grows with each question and each closing: an answer to an earlier one comes too late

box.setAttribute("role", "combobox");
box.setAttribute("aria-autocomplete", "list");
box.setAttribute("aria-controls", "query-completions");
box.setAttribute("aria-haspopup", "listbox");
box.setAttribute("aria-expanded", "false");

const options = () => [...place.querySelectorAll("[role=option]")];
const isOpen = () => !place.hidden;

function close() {
  clearTimeout(timer);
  newest += 1;
  place.hidden = true;
  active = -1;
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}

async function ask() {
  const request = ++newest;
  const query = new URLSearchParams({ q: box.value, caret: box.selectionStart ?? box.value.length });
  const html = await fetchPart(`${box.dataset.completions}?${query}`, "query-completions");
  if (html === null || document.activeElement !== box || request !== newest) return;
  place.innerHTML = html;
  if (options().length === 0) {
    close();
    return;
  }
  active = -1;
  place.hidden = false;
  box.setAttribute("aria-expanded", "true");
  box.removeAttribute("aria-activedescendant");
}

function askSoon() {
  clearTimeout(timer);
  timer = setTimeout(ask, WAIT);
}

function move(step) {
  const all = options();
  active = (active + step + all.length + (active < 0 && step < 0 ? 1 : 0)) % all.length;
  for (const [at, option] of all.entries()) option.setAttribute("aria-selected", String(at === active));
  box.setAttribute("aria-activedescendant", all[active].id);
  all[active].scrollIntoView({ block: "nearest" });
}

function accept(option) {
  const { start, end, text } = option.dataset;
  const isPartial = /[:=<>~]$/.test(text);
  const isAtEnd = Number(end) >= box.value.length;
  box.setRangeText(isPartial || !isAtEnd ? text : `${text} `, Number(start), Number(end), "end");
  close();
  box.focus();
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

// The last word is the start of one until Enter is pressed: the address gets the star.
const LAST_WORD = /^(?:[^"]*\s)?-?(?!(?:ever|missing|never)$)[\p{L}\p{N}]{3,}$/iu;
const COMPARED_VALUE = /[=<>~]\s*\S*$/;
const TYPED_START = /(?<=^|\s|-)([\p{L}\p{N}]{3,})\*$/u;

let isComplete = true;

/* The address of a list with the star is that of a word that was being typed: typing goes on without it. */
if ("search" in box.dataset && TYPED_START.test(box.value)) {
  isComplete = false;
  box.value = box.value.replace(TYPED_START, "$1");
}

box.form.addEventListener("htmx:configRequest", ({ detail: { parameters } }) => {
  const query = parameters.q ?? "";
  if (!isComplete && LAST_WORD.test(query) && !COMPARED_VALUE.test(query)) parameters.q = `${query}*`;
});

/** Submit the form: a browser does not do so by Enter where a form has several fields and no button. */
function searchWholeWord(event) {
  event.preventDefault();
  isComplete = true;
  box.form.requestSubmit();
}

box.addEventListener("input", (event) => {
  isComplete = false;
  if (box.value.trim() === "") close();
  else if (!event.isComposing) askSoon();
});
box.addEventListener("blur", () => setTimeout(close, 150));
box.addEventListener("keydown", (event) => {
  if (event.isComposing || event.keyCode === 229) return;
  if (event.key === "Enter" && active < 0) searchWholeWord(event);
  const wantsOpen = event.key === "ArrowDown" || (event.key === " " && event.ctrlKey);
  if (!isOpen()) {
    if (event.key === "Enter") close(); // also what was asked and is on its way
    else if (wantsOpen) {
      event.preventDefault();
      ask();
    }
    return;
  }
  if (event.key === "ArrowDown") move(1);
  else if (event.key === "ArrowUp") move(-1);
  else if (event.key === "Escape") close();
  else if ((event.key === "Enter" || event.key === "Tab") && active >= 0) accept(options()[active]);
  else {
    if (event.key === "Enter") close();
    return;
  }
  event.preventDefault();
});
place.addEventListener("pointerdown", (event) => {
  const option = event.target.closest("[role=option]");
  if (!option) return;
  event.preventDefault();
  accept(option);
});
