// Actions on the hovered event: copy its text, judge it, show why it is the answer, edit its message, say that it was wrong, fork.

import { copy } from "../core/clipboard.js";
import { showError } from "../core/toasts.js";

const bar = document.getElementById("event-bar");
const area = document.getElementById("window");
const judgeButtons = bar.querySelectorAll("[data-action=judge]");
const [copyButton, whyLink, editLink, wrongButton, forkLink] = ["copy", "why", "edit", "wrong", "fork"].map((name) =>
  bar.querySelector(`[data-action=${name}]`),
);

const TEXTS = ".event-body > :is(.message-text, .prose)";

/** Return the whole text of an event as it is stored: a row shows it formatted, and shortens it. */
async function fetchText(seq) {
  const response = await fetch(bar.dataset.jsonUrl.replace("/0/", `/${seq}/`));
  if (!response.ok) throw new Error(String(response.status));
  const { content } = await response.json();
  return (content?.parts ?? []).filter(({ text, thought }) => text && !thought).map(({ text }) => text).join("\n\n");
}

copyButton.addEventListener("click", async () => {
  const { seq } = bar.parentElement.dataset;
  try {
    await copy(copyButton, await fetchText(seq));
  } catch {
    showError("The text of the event cannot be read.", "Is the server still running?");
  }
});

/** Point a link and its dialog to an address. */
function setAddress(link, address) {
  link.setAttribute("href", address);
  link.setAttribute("hx-get", address);
  window.htmx.process(link);
}

/** Let a button send its value to an address. */
function setPostUrl(button, address) {
  button.setAttribute("hx-post", address);
  window.htmx.process(button);
}

function showAt(row) {
  if (bar.parentElement === row) return;
  const { seq } = row.dataset;
  copyButton.hidden = !row.querySelector(TEXTS);
  whyLink.hidden = !row.matches(".kind-agent, .kind-tool_call, .kind-error");
  whyLink.href = bar.dataset.whyUrl.replace("/0/", `/${seq}/`);
  setAddress(forkLink, `${bar.dataset.forkUrl}?seq=${seq}`);
  if (editLink) {
    editLink.hidden = !row.classList.contains("kind-user");
    setAddress(editLink, bar.dataset.editUrl.replace(/0\/$/, `${seq}/`));
  }
  const judgeUrl = bar.dataset.judgeUrl.replace("/0/", `/${seq}/`);
  for (const button of judgeButtons) setPostUrl(button, judgeUrl);
  if (wrongButton) {
    wrongButton.hidden = copyButton.hidden || !row.classList.contains("kind-agent");
    setPostUrl(wrongButton, `${judgeUrl}?${new URLSearchParams({ next: `${bar.dataset.wrongUrl}${seq}` })}`);
  }
  bar.hidden = false;
  row.append(bar);
}

area.addEventListener("pointerover", ({ target }) => {
  const row = target.closest("article.event[data-seq]:not(.is-stub)");
  if (row) showAt(row);
});
