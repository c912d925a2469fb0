// Microphone, camera and screen of a live connection: their buttons, and the messages that they send.

import { encodeBase64 } from "./base64.js";
import { Camera } from "./camera.js";
import { listMicrophones, Microphone } from "./microphone.js";

const element = (name) => document.getElementById(`live-${name}`);
const [inputs, microphoneButton, talk, device, level, camera, screen, rate, preview, marks] = [
  "inputs", "microphone", "talk", "device", "level", "camera", "screen", "rate", "preview", "marks",
].map(element);

const SPEECH_TYPE = "audio/pcm;rate=16000";

/**
 * The inputs of a connection. `send` takes ADK's messages (`LiveRequest`), `warn` a line for people.
 * What the microphone hears is sent while it is "open", or while a person holds the talk button ("held").
 */
export class LiveInputs {
  #speech = "off";
  #starting = null;

  constructor(send, warn) {
    this.send = send;
    this.warn = warn;
    this.microphone = new Microphone({
      onSpeech: (bytes) => this.#speech !== "off" && send({ blob: { mime_type: SPEECH_TYPE, data: encodeBase64(bytes) } }),
      onLevel: (value) => (level.value = Math.min(1, value * 4)),
      onEnd: () => this.#lose("microphone"),
    });
    this.camera = new Camera(preview, {
      onPicture: (data) => send({ blob: { mime_type: "image/jpeg", data } }),
      onEnd: () => this.#lose(this.camera.source),
    });
    microphoneButton.addEventListener("click", () => (this.#speech === "open" ? this.#mute() : this.#listen("open")));
    device.addEventListener("change", () => this.#changeMicrophone());
    for (const button of [camera, screen]) button.addEventListener("click", () => this.#toggleCamera(button.value));
    rate.addEventListener("change", () => rate.reportValidity() && this.camera.setRate(rate.valueAsNumber));
    this.#listenToTalkButton();
  }

  /** Enable the buttons of an open connection, or end everything with the connection. */
  setOpen(isOpen) {
    inputs.disabled = !isOpen;
    if (isOpen) return;
    this.microphone.stop();
    this.camera.stop();
    this.#setSpeech("off");
  }

  #setSpeech(speech) {
    this.#speech = speech;
    this.#show();
  }

  /** Send what the microphone hears from now on, once the browser has allowed it. */
  async #listen(speech) {
    this.#setSpeech(speech);
    const isOn = this.microphone.isOn || (await this.#startMicrophone());
    if (!isOn) return this.#setSpeech("off");
    if (this.#speech === "held" && marks.checked) this.send({ activity_start: {} });
  }

  #mute() {
    const wasMarked = this.#speech === "held" && marks.checked;
    this.#setSpeech("off");
    if (this.microphone.isOn) this.send(wasMarked ? { activity_end: {} } : { audio_stream_end: true });
  }

  /** Start the microphone once, however often it is asked for while the browser asks the person. */
  #startMicrophone() {
    this.#starting ??= this.#requestMicrophone().finally(() => (this.#starting = null));
    return this.#starting;
  }

  async #requestMicrophone() {
    const isAllowed = await this.#tryTo(() => this.microphone.start(device.value));
    if (this.#speech === "off") this.microphone.stop(); // muted meanwhile, or the connection has ended
    if (isAllowed) await fillDevices();
    return this.microphone.isOn;
  }

  async #changeMicrophone() {
    if (!this.microphone.isOn) return;
    this.microphone.stop();
    if (!(await this.#startMicrophone())) this.#setSpeech("off");
  }

  /** Held with the pointer, with the space bar or with Enter. */
  #listenToTalkButton() {
    const isKey = ({ key }) => key === " " || key === "Enter";
    const release = () => this.#speech === "held" && this.#mute();
    talk.addEventListener("pointerdown", ({ pointerId }) => {
      talk.setPointerCapture(pointerId);
      this.#listen("held");
    });
    talk.addEventListener("keydown", (event) => isKey(event) && !event.repeat && this.#listen("held"));
    talk.addEventListener("keyup", (event) => isKey(event) && release());
    for (const name of ["pointerup", "pointercancel", "blur"]) talk.addEventListener(name, release);
  }

  async #toggleCamera(source) {
    const wasOn = this.camera.source === source;
    this.camera.stop();
    if (!wasOn) await this.#tryTo(() => this.camera.start(source, rate.valueAsNumber || 1));
    if (inputs.disabled) this.camera.stop();
    this.#show();
  }

  async #tryTo(start) {
    try {
      await start();
      return true;
    } catch (error) {
      this.warn(error.message);
      return false;
    }
  }

  #lose(name) {
    this.warn(`The ${name} has ended.`);
    if (name === "microphone") {
      this.microphone.stop();
      this.#setSpeech("off");
    } else {
      this.camera.stop();
      this.#show();
    }
  }

  #show() {
    microphoneButton.setAttribute("aria-pressed", String(this.#speech === "open"));
    microphoneButton.querySelector("span").textContent = this.#speech === "open" ? "Mute" : "Open microphone";
    talk.setAttribute("aria-pressed", String(this.#speech === "held"));
    for (const button of [camera, screen]) button.setAttribute("aria-pressed", String(this.camera.source === button.value));
  }
}

async function fillDevices() {
  const chosen = device.value;
  const options = (await listMicrophones()).map(({ label, deviceId }) => new Option(label || "microphone", deviceId));
  device.replaceChildren(new Option("Default microphone", ""), ...options);
  device.value = options.some(({ value }) => value === chosen) ? chosen : "";
}
