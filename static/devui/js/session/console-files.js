// Files attached to a message: chosen, dropped or pasted, with a preview. Images are drawn, not loaded: the
// content security policy allows no images without an address.

import { showError } from "../core/toasts.js";

const TEXT_SHOWN = 120;
const TEXT_READ = 4096;
const THUMBNAIL = 72;

const form = document.querySelector("[data-console]");
const input = form?.elements.namedItem("files");
const list = document.getElementById("console-files");
const zone = document.getElementById("column-timeline");

let files = [];

/** Tell whether files are attached. */
export const hasFiles = () => files.length > 0;

/** The attached files. */
export const chosenFiles = () => files;

/** Remove all attached files. */
export function dropFiles() {
  if (files.length) set([]);
}

/** Attach more files, up to the limits. */
function add(more) {
  const newFiles = [...files, ...more.filter((file) => file.size)];
  const most = { files: Number(form.dataset.mostFiles), bytes: Number(form.dataset.mostBytes) };
  const empty = more.find((file) => !file.size);
  if (empty) showError(`${empty.name} is empty and was left out.`, "If it is a folder, choose the files in it.");
  if (newFiles.length > most.files) showError(`${newFiles.length} files are too many for one message.`, `${most.files} is the most.`);
  else if (sizeOf(newFiles) > most.bytes) showError(`The files have ${formatBytes(sizeOf(newFiles))} together.`, `${formatBytes(most.bytes)} is the most for one message.`);
  else return set(newFiles);
  return set(files);
}

function set(newFiles) {
  files = newFiles;
  const transfer = new DataTransfer();
  for (const file of files) transfer.items.add(file);
  input.files = transfer.files;
  list.hidden = !files.length;
  list.replaceChildren(...files.map(item), ...(files.length ? [total()] : []));
}

const sizeOf = (list) => list.reduce((sum, file) => sum + file.size, 0);

function formatBytes(bytes) {
  const units = ["B", "kB", "MB"];
  let number = bytes;
  while (number >= 1000 && units.length > 1) {
    number /= 1000;
    units.shift();
  }
  return `${number < 10 && units[0] !== "B" ? number.toFixed(1) : Math.round(number)} ${units[0]}`;
}

function item(file) {
  const entry = document.createElement("li");
  const name = Object.assign(document.createElement("bdi"), { className: "truncate", textContent: file.name });
  const facts = Object.assign(document.createElement("span"), { className: "faint small nowrap", textContent: formatBytes(file.size) });
  const remove = document.getElementById("remove-file").content.firstElementChild.cloneNode(true);
  remove.setAttribute("aria-label", `Remove ${file.name}`);
  remove.addEventListener("click", () => {
    set(files.filter((each) => each !== file));
    (list.querySelector("button") ?? form.elements.namedItem("message")).focus();
  });
  entry.append(name, facts, remove);
  preview(file, entry);
  return entry;
}

function total() {
  const most = Number(form.dataset.mostBytes);
  const text = `${files.length} of ${form.dataset.mostFiles} files, ${formatBytes(sizeOf(files))} of ${formatBytes(most)}`;
  return Object.assign(document.createElement("li"), { className: "faint small", textContent: text });
}

async function preview(file, entry) {
  try {
    if (file.type.startsWith("image/")) entry.prepend(await thumbnail(file));
    else if (/^text\/|json$|xml$/.test(file.type)) entry.lastElementChild.before(await beginning(file));
  } catch {
    // No preview; the name is enough.
  }
}

async function thumbnail(file) {
  const image = await createImageBitmap(file);
  const scale = Math.min(1, THUMBNAIL / Math.max(image.width, image.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, image.width * scale);
  canvas.height = Math.max(1, image.height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.role = "img";
  canvas.ariaLabel = `Preview of ${file.name}`;
  return canvas;
}

async function beginning(file) {
  const text = await file.slice(0, TEXT_READ).text();
  const start = text.length > TEXT_SHOWN ? `${text.slice(0, TEXT_SHOWN)}…` : text;
  return Object.assign(document.createElement("code"), { className: "truncate", textContent: start.replace(/\s+/g, " ") });
}

const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");

if (form) {
  form.toggleAttribute("data-scripted", true);
  input.addEventListener("change", () => {
    const inputFiles = [...input.files];
    add(inputFiles.filter((file) => !files.includes(file)));
  });
  form.addEventListener("paste", (event) => {
    const pastedFiles = [...(event.clipboardData?.files ?? [])];
    if (!pastedFiles.length) return;
    event.preventDefault();
    add(pastedFiles);
  });
  zone.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    zone.toggleAttribute("data-dropping", true);
  });
  zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || zone.removeAttribute("data-dropping"));
  zone.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    zone.removeAttribute("data-dropping");
    add([...event.dataTransfer.files]);
    form.elements.namedItem("message").focus();
  });
}
