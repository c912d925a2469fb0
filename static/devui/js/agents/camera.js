// Camera and screen of the live page: pictures at a chosen rate.

import { explainRefusal, requireDevices } from "./media-devices.js";

const MAX_SIDE = 768; // pixels: what the Live API makes of a picture anyway
const QUALITY = 0.7;
const SOURCES = {
  camera: (devices) => devices.getUserMedia({ video: true }),
  screen: (devices) => devices.getDisplayMedia({ video: true }),
};

/** Passes on pictures of a camera or a screen: `onPicture` gets a JPEG in base64. */
export class Camera {
  #stream = null;
  #timer = 0;
  #canvas = document.createElement("canvas");

  constructor(preview, { onPicture, onEnd }) {
    Object.assign(this, { preview, onPicture, onEnd, source: "" });
  }

  /** Ask for a source, "camera" or "screen", and begin. Throws an Error with a message for people. */
  async start(source, picturesPerSecond) {
    const devices = requireDevices(source);
    const stream = await SOURCES[source](devices).catch((error) => {
      throw explainRefusal(error, source);
    });
    this.stop(); // what was allowed meanwhile
    this.#stream = stream;
    this.source = source;
    this.preview.srcObject = this.#stream;
    this.preview.hidden = false;
    for (const track of this.#stream.getTracks()) track.addEventListener("ended", () => this.onEnd());
    await this.preview.play();
    this.setRate(picturesPerSecond);
  }

  setRate(picturesPerSecond) {
    clearInterval(this.#timer);
    if (this.#stream) this.#timer = setInterval(() => this.#take(), 1_000 / picturesPerSecond);
  }

  #take() {
    const { videoWidth, videoHeight } = this.preview;
    if (!videoWidth) return;
    const scale = Math.min(1, MAX_SIDE / Math.max(videoWidth, videoHeight));
    this.#canvas.width = Math.round(videoWidth * scale);
    this.#canvas.height = Math.round(videoHeight * scale);
    this.#canvas.getContext("2d").drawImage(this.preview, 0, 0, this.#canvas.width, this.#canvas.height);
    this.onPicture(this.#canvas.toDataURL("image/jpeg", QUALITY).split(",")[1]);
  }

  stop() {
    clearInterval(this.#timer);
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#stream = this.preview.srcObject = null;
    this.preview.hidden = true;
    this.source = "";
  }
}
