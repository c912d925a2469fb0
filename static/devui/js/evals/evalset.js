// Evalset page: cases that open, the label of the run button, and updates when the file changes.

import { fetchPart, keepFocus } from "../core/fragment.js";
import { Live } from "../core/live-socket.js";
import { showTimes } from "../core/times.js";

/* --- Cases: one is loaded when it is opened; the button says what it will run, and rests when nothing can. --- */

const runLabel = document.querySelector("[data-run-label]");
const fileSection = document.getElementById("evalset-file");

const boxes = () => [...document.querySelectorAll(".case > input[name=case]")];

function sayWhatRuns() {
  if (!runLabel) return;
  const all = boxes(); // there is none while the file cannot be run
  const checkedCount = all.filter((box) => box.checked).length;
  runLabel.closest("button").disabled = !all.length;
  for (const why of document.querySelectorAll("[data-why-not]")) why.hidden = all.length > 0;
  if (!all.length) return;
  const total = Number(fileSection.querySelector("[data-cases]").dataset.cases);
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
  if (event.target.matches(".case > details")) fill(event.target);
}, true);
document.addEventListener("change", (event) => {
  if (event.target.matches(".case > input[name=case], [data-cases-with]")) sayWhatRuns();
});
sayWhatRuns();

/* --- The file: the cases follow its changes; an open form reports a change and keeps its input. --- */

const disk = document.getElementById("disk");

/** Reload the cases from the file. Ticked and open cases stay so, by their ids. */
async function follow() {
  const html = await fetchPart(location.href, "evalset-file");
  if (html === null) return;
  const nameOf = (item) => item.querySelector(".case-name").textContent;
  const items = () => [...fileSection.querySelectorAll(".case")];
  const checkedIds = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
  const open = new Set(items().filter((item) => item.querySelector("details").open).map(nameOf));
  const focused = document.activeElement?.closest("#evalset-file .case");
  const focusedName = focused ? nameOf(focused) : "";
  const [searchText, runsMatches] = [document.getElementById("cases-with")?.value, document.querySelector("[data-cases-with]")?.checked];
  keepFocus(fileSection, () => { fileSection.innerHTML = html; });
  const search = document.getElementById("cases-with");
  if (search && searchText !== undefined) search.value = searchText;
  const whole = document.querySelector("[data-cases-with]");
  if (whole && runsMatches) whole.checked = true;
  for (const item of items()) {
    const box = item.querySelector("input[name=case]");
    if (box) box.checked = checkedIds.has(box.value);
    if (open.has(nameOf(item))) item.querySelector("details").open = true;
    if (focusedName && nameOf(item) === focusedName) item.querySelector("summary").focus({ preventScroll: true });
  }
  showTimes(fileSection);
  sayWhatRuns();
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
