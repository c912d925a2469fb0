// Evalset page: cases that open, the label of the run button, and updates when the file changes.

import { fetchPart, keepFocus } from "../core/fragment.js";
import { Live } from "../core/live-socket.js";
import { showTimes } from "../core/times.js";
import { keysElsewhere, restoreTicked, tickedBoxes } from "../lists/selection.js";

/* --- Cases: one is loaded when it is opened; the button says what it will run, and rests when nothing can. --- */

const runLabel = document.querySelector("[data-run-label]");
const fileSection = document.getElementById("evalset-file");

/** Send the selected cases of other pages of the list along with those on this page. Return their number. */
function addCasesElsewhere() {
  const form = document.getElementById("run-form");
  for (const input of form.querySelectorAll("[data-case-elsewhere]")) input.remove();
  const keys = keysElsewhere();
  for (const value of keys) {
    const input = Object.assign(document.createElement("input"), { type: "hidden", name: "case", value });
    input.dataset.caseElsewhere = "";
    form.append(input);
  }
  return keys.length;
}

function sayWhatRuns() {
  if (!runLabel) return;
  const checkedCount = tickedBoxes().length + addCasesElsewhere();
  const total = Number(fileSection.querySelector("[data-runnable]")?.dataset.runnable ?? 0);
  runLabel.closest("button").disabled = !total;
  for (const why of document.querySelectorAll("[data-why-not]")) why.hidden = total > 0;
  if (!total) return;
  const matchCount = Number(document.querySelector("[data-cases-with]:checked")?.dataset.casesWith ?? 0);
  const whole = total === 1 ? "the case" : `all ${total.toLocaleString("en")} cases`;
  const count = checkedCount || matchCount;
  runLabel.textContent = count ? `Run ${count.toLocaleString("en")} of ${total.toLocaleString("en")} cases` : `Run ${whole}`;
}

async function fill(details) {
  const body = details.querySelector(".case-body");
  if (!details.open || body.childElementCount) return;
  const number = details.querySelector("summary").dataset.case;
  const html = await fetchPart(`${location.pathname}?case=${number}`, "case", `case-${number}`);
  if (html !== null) body.innerHTML = html;
}

document.addEventListener("toggle", (event) => {
  if (event.target.matches("details.case")) fill(event.target);
}, true);
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-cases-with]")) sayWhatRuns();
});
document.addEventListener("ticked", sayWhatRuns);
sayWhatRuns();

/* --- The file: the cases follow its changes; an open form reports a change and keeps its input. --- */

const disk = document.getElementById("disk");

/** Reload the cases from the file. Ticked and open cases stay so, by their ids. */
async function follow() {
  const html = await fetchPart(location.href, "evalset-file");
  if (html === null) return;
  const nameOf = (details) => details.querySelector(".case-name").textContent;
  const cases = () => [...fileSection.querySelectorAll("details.case")];
  const open = new Set(cases().filter((details) => details.open).map(nameOf));
  const focused = document.activeElement?.closest("#evalset-file details.case");
  const focusedName = focused ? nameOf(focused) : "";
  const searchBox = () => fileSection.querySelector("[data-search]");
  const [searchText, runsMatches] = [searchBox()?.value, document.querySelector("[data-cases-with]")?.checked];
  keepFocus(fileSection, () => { fileSection.innerHTML = html; });
  window.htmx.process(fileSection);
  if (searchBox() && searchText !== undefined) searchBox().value = searchText;
  const whole = document.querySelector("[data-cases-with]");
  if (whole && runsMatches) whole.checked = true;
  for (const details of cases()) {
    if (open.has(nameOf(details))) details.open = true;
    if (focusedName && nameOf(details) === focusedName) details.querySelector("summary").focus({ preventScroll: true });
  }
  showTimes(fileSection);
  restoreTicked(fileSection);
}

function take(message) {
  if (message.type !== "file") return;
  disk.dataset.digest = message.digest;
  if (fileSection) follow();
  else disk.hidden = false;
}

if (disk) {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const address = () => `${scheme}//${location.host}${disk.dataset.liveEvalset}?digest=${disk.dataset.digest}`;
  new Live(address, take, () => {}).connect();
}

/* --- A case's form: what was just added or moved has the focus, so that one can go on typing. --- */

document.addEventListener("htmx:afterSettle", (event) => {
  const button = event.detail.requestConfig?.elt;
  if (event.detail.target.id !== "case-fields" || button?.name !== "action") return;
  const [verb, path] = button.value.split(":");
  const parts = path.split(".");
  if (verb === "add") parts.push(lastRow(path));
  else parts.push(Number(parts.pop()) + { up: -1, down: 1, drop: 0 }[verb]);
  const name = `${parts.join(".")}.`;
  const field = document.querySelector(`#case-fields [name^="${name}"]:not([type=hidden])`);
  (field ?? document.querySelector(`#case-fields [value="add:${path}"]`))?.focus();
});

/** Return the number of the last row of a list of fields. */
function lastRow(path) {
  const fields = document.querySelectorAll(`#case-fields [name^="${path}."]`);
  const numbers = [...fields].map((field) => Number(field.name.slice(path.length + 1).split(".")[0]));
  return Math.max(0, ...numbers);
}
