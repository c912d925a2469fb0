// Live connection to an agent over ADK's own socket: text, speech and pictures in, text and sound out.

import { Sound } from "./audio-player.js";
import { decodeBase64 } from "./base64.js";
import { LiveInputs } from "./live-inputs.js";
import { plain } from "../core/visible-characters.js";

const page = document.getElementById("live");
const [form, text, send, connect, modality, log, state] = ["form", "text", "send", "connect", "modality", "transcript", "state"].map(
  (name) => document.getElementById(`live-${name}`),
);
const options = document.getElementById("live-options");
const sound = new Sound();
const OPEN = 1;
const LEAVE_MS = 1_000;
const NORMAL_CLOSES = new Set([1000, 1005]);

let socket = null;
let answer = null; // the element that the agent's words go into until its turn is complete
let finalText = ""; // what of them is final
let heard = null; // the element with the words that the model has heard and still corrects

function sendMessage(message) {
  if (socket?.readyState === OPEN) socket.send(JSON.stringify(message));
}

const inputs = new LiveInputs(sendMessage, (words) => show(words, "error"));

/* --- Transcript --- */

function show(words, kind) {
  const line = document.createElement("li");
  line.className = `is-${kind}`;
  line.textContent = plain(words);
  log.append(line);
  log.scrollTop = log.scrollHeight;
  return line;
}

/** Show text of the agent. Chunks are appended to the final text; a complete text becomes final. */
function showAgentText(words, isPiece) {
  answer ??= Object.assign(show("", "answer"), { pieces: "" });
  answer.pieces = isPiece ? answer.pieces + words : "";
  if (!isPiece) finalText += words;
  answer.textContent = plain(finalText + answer.pieces);
  log.scrollTop = log.scrollHeight;
}

/** Show what the model has heard. Chunks are appended; the finished text replaces them. */
function showHeardText({ text: words, finished }) {
  heard ??= Object.assign(show("", "mine"), { pieces: "" });
  heard.pieces = finished ? words : heard.pieces + words;
  heard.textContent = plain(heard.pieces);
  if (finished) heard = null;
}

function endTurn() {
  answer = null;
  finalText = "";
}

function handleEvent(event) {
  if (event.errorCode || event.errorMessage) show(event.errorMessage || event.errorCode, "error");
  if (event.interrupted) sound.stop();
  for (const part of event.content?.parts ?? []) handlePart(part, event);
  if (event.inputTranscription?.text) showHeardText(event.inputTranscription);
  const transcription = event.outputTranscription;
  if (transcription?.text) showAgentText(transcription.text, !transcription.finished);
  if (event.turnComplete || event.interrupted) endTurn();
}

function handlePart(part, event) {
  const mime = part.inlineData?.mimeType ?? "";
  if (mime.startsWith("audio/")) sound.play(decodeBase64(part.inlineData.data), mime);
  else if (part.functionCall) show(`calls ${part.functionCall.name}(${JSON.stringify(part.functionCall.args ?? {})})`, "note");
  else if (part.functionResponse) show(`${part.functionResponse.name} answers ${JSON.stringify(part.functionResponse.response ?? {})}`, "note");
  else if (part.text && !part.thought && event.content.role !== "user") showAgentText(part.text, Boolean(event.partial));
}

/* --- The connection --- */

function showState(words, isOpen) {
  state.textContent = words;
  state.dataset.open = String(isOpen);
  text.disabled = send.disabled = !isOpen;
  modality.disabled = options.disabled = socket !== null;
  inputs.setOpen(isOpen);
  text.placeholder = isOpen ? "Message" : "Connect, then write";
  connect.querySelector("span").textContent = socket ? "Hang up" : "Connect";
}

function open() {
  sound.unlock();
  const address = new URL(page.dataset.socket, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  address.searchParams.set("modalities", modality.value);
  for (const { name } of options.querySelectorAll("input:checked")) address.searchParams.set(name, "true");
  const opened = new WebSocket(address);
  socket = opened;
  showState("connecting", false);
  opened.addEventListener("open", () => {
    showState("connected", true);
    text.focus();
  });
  opened.addEventListener("message", (message) => handleEvent(JSON.parse(message.data)));
  opened.addEventListener("close", ({ code, reason }) => {
    socket = null;
    heard = null;
    endTurn();
    showState("not connected", false);
    if (!NORMAL_CLOSES.has(code)) show(`The connection was closed (${code}). ${reason}`, "error");
    connect.focus();
  });
}

/** Send the end of the conversation and let the agent finish: closing the socket at once would cancel its run. */
function disconnect() {
  const left = socket;
  sound.stop();
  if (left.readyState === OPEN) left.send(JSON.stringify({ close: true }));
  showState("hanging up", false);
  setTimeout(() => left.close(), left.readyState === OPEN ? LEAVE_MS : 0);
}

connect.addEventListener("click", () => (socket ? disconnect() : open()));
connect.disabled = false; // a press before this would be lost

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const words = text.value;
  if (!words.trim() || socket?.readyState !== OPEN) return;
  sendMessage({ content: { role: "user", parts: [{ text: words }] } });
  show(words, "mine");
  text.value = "";
});

text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  form.requestSubmit();
});
