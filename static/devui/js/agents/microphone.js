// Microphone of the live page.

import { explainRefusal, requireDevices } from "./media-devices.js";

/** Passes on what a microphone hears: `onSpeech` gets 16-bit samples at 16 kHz as bytes, `onLevel` a level from 0 to 1. */
export class Microphone {
  #stream = null;
  #context = null;

  constructor({ onSpeech, onLevel, onEnd }) {
    Object.assign(this, { onSpeech, onLevel, onEnd });
  }

  get isOn() {
    return this.#stream !== null;
  }

  /** Ask for the microphone and begin to listen. Throws an Error with a message for people. */
  async start(deviceId = "") {
    const echoless = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    const audio = deviceId ? { ...echoless, deviceId: { exact: deviceId } } : echoless;
    const devices = requireDevices("microphone");
    this.#stream = await devices.getUserMedia({ audio }).catch((error) => {
      throw explainRefusal(error, "microphone");
    });
    try {
      await this.#listen();
    } catch (error) {
      this.stop();
      throw error;
    }
  }

  async #listen() {
    this.#context = new AudioContext();
    await this.#context.audioWorklet.addModule(new URL("./microphone-worklet.js", import.meta.url));
    if (!this.#stream) return; // stopped meanwhile
    const sampler = new AudioWorkletNode(this.#context, "speech-sampler", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    sampler.port.addEventListener("message", ({ data }) => {
      this.onLevel(data.level);
      this.onSpeech(new Uint8Array(data.samples.buffer));
    });
    sampler.port.start();
    this.#context.createMediaStreamSource(this.#stream).connect(sampler);
    await this.#context.resume();
    for (const track of this.#stream.getTracks()) track.addEventListener("ended", () => this.onEnd());
  }

  stop() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#context?.close();
    this.#stream = this.#context = null;
    this.onLevel(0);
  }
}

/** Return the microphones, named once the browser has allowed one. */
export async function listMicrophones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return devices.filter(({ kind, deviceId }) => kind === "audioinput" && deviceId);
}
