// Options of a message: loaded when opened, stored per app, never applied without being visible.

import { copyCall } from "./console-call.js";
import { fetchPart } from "../core/fragment.js";
import { NAMES, recall, remember } from "../core/storage.js";

const STORED_FIELDS = /^(config\.|run_config$)/;

/** Add the options to a form. Return the functions that the page needs. */
export function keepOptions(form) {
  const panel = document.getElementById("console-options");
  const opener = form.querySelector("[data-console-more]");
  const streaming = form.elements.namedItem("streaming");
  const name = NAMES.options(form.dataset.app);
  let loading = null;

  function load() {
    if (!loading) panel.textContent = "Asking the agent what can be set…";
    loading ??= fetchPart(opener.href, "console-options").then((html) => {
      if (html === null) {
        loading = null;
        show(false);
        return;
      }
      panel.innerHTML = html;
      fill();
      count();
    });
    return loading;
  }

  async function show(isWanted) {
    panel.hidden = !isWanted;
    opener.setAttribute("aria-expanded", String(isWanted));
    if (isWanted) await load();
  }

  /** Options that are set, by name; a name may have several values. State is not stored: it would be written again unasked. */
  function chosen(isKept = false) {
    const values = {};
    for (const [key, value] of new FormData(form)) {
      if (typeof value !== "string" || !value.trim()) continue;
      if (STORED_FIELDS.test(key) || (!isKept && key === "state_delta")) (values[key] ??= []).push(value);
    }
    return values;
  }

  function storedOptions() {
    try {
      const options = JSON.parse(recall(name) || "{}");
      return options && typeof options === "object" ? options : {};
    } catch {
      return {};
    }
  }

  function fill() {
    const { values } = storedOptions();
    for (const [key, texts] of Object.entries(values ?? {})) {
      for (const field of form.elements) {
        if (field.name !== key || !Array.isArray(texts)) continue;
        if (field.type === "checkbox") field.checked = texts.includes(field.value);
        else field.value = String(texts[0] ?? "");
        for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) {
          around.open = true;
        }
      }
    }
  }

  function count() {
    const set = Object.keys(chosen()).length;
    opener.querySelector("[data-set-count]").textContent = set ? ` · ${set} set` : "";
  }

  function keep() {
    remember(name, JSON.stringify({ streaming: streaming.checked, values: chosen(true) }));
  }

  panel.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy-call]");
    if (!button) return;
    event.preventDefault();
    copyCall(form, button);
  });
  panel.addEventListener("input", count);
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const field of panel.querySelectorAll("input, select, textarea")) {
      if (field.type === "checkbox") field.checked = false;
      else field.value = "";
    }
    count();
    keep();
  });
  opener.setAttribute("role", "button");
  opener.setAttribute("aria-expanded", "false");
  opener.addEventListener("click", (event) => {
    event.preventDefault();
    show(panel.hidden);
  });

  const { streaming: streamed, values } = storedOptions();
  if (typeof streamed === "boolean") streaming.checked = streamed;
  if (Object.keys(values ?? {}).length) load();

  return {
    open: () => show(true),
    toggle: () => show(panel.hidden),
    sent: () => {
      keep();
      const delta = form.elements.namedItem("state_delta");
      if (delta) delta.value = "";
      count();
      show(false);
    },
  };
}
