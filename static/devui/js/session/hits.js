// The hits of the search from which this session was opened: a list beside the timeline, with the previous and next one.

import { NAMES, recallList } from "../core/storage.js";

const template = document.getElementById("hits-template");
const section = template.content.firstElementChild;
const [list = "", ...rows] = recallList(NAMES.hits);

/* Null for an address of another site, or none at all: the browser's storage may have anything. */
function readAddress(text) {
  try {
    const url = new URL(text, location.href);
    return url.origin === location.origin ? url : null;
  } catch {
    return null;
  }
}

/* Each is an address and, after a space, the texts of the row. */
const hits = rows
  .map((row) => {
    const [href, ...words] = row.split(" ");
    return { url: readAddress(href), text: words.join(" ") };
  })
  .filter(({ url }) => url);
const listAddress = readAddress(list);
const here = hits.findIndex(({ url }) => url.pathname === location.pathname);

function drawHit({ url, text }, number) {
  const link = document.createElement("a");
  link.href = url;
  if (number === here) link.setAttribute("aria-current", "page");
  const words = document.createElement("bdi");
  words.className = "truncate";
  words.textContent = text;
  link.append(words);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

function setStep(rel, hit) {
  const link = section.querySelector(`a[rel="${rel}"]`);
  link.hidden = !hit;
  if (hit) link.href = hit.url;
}

function show() {
  const back = section.querySelector("[data-hits-list]");
  back.href = listAddress;
  back.querySelector("bdi").textContent = listAddress.searchParams.get("q");
  section.querySelector("[data-hits-place]").textContent = `${here + 1} of ${hits.length}`;
  setStep("prev", hits[here - 1]);
  setStep("next", hits[here + 1]);
  section.querySelector("ul").replaceChildren(...hits.map(drawHit));
  template.replaceWith(section);
  section.querySelector("[aria-current]").scrollIntoView({ block: "nearest" });
}

if (listAddress && here >= 0) show();
