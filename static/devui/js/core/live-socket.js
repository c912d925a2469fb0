// Reconnecting socket: resumes from the page's cursor, waits longer after each failure, and reports its state.

import { waitForRelease } from "./press.js";

const FIRST_WAIT = 400;
const MAX_WAIT = 10_000;
const SILENCE = 45_000;
/** Close reason of a deleted session; the socket does not reconnect. */
export const DELETED = "deleted";
const REFUSALS = new Map([
  [4400, "the server did not accept the cursor"],
  [4404, DELETED],
]);

/** Live connection. States: connecting, live, offline (reconnects), refused (does not). */
export class Live {
  #socket = null;
  #retry = 0;
  #failures = 0;
  #silence = 0;
  #queue = Promise.resolve();

  /**
   * @param {() => string} address  where to connect; called for each attempt, as it carries the cursor
   * @param {(message: object) => void | Promise<void>} onMessage  called for one message after the other, while no control is
   *     pressed
   * @param {(state: string, why: string) => void} onState
   */
  constructor(address, onMessage, onState) {
    this.address = address;
    this.onMessage = onMessage;
    this.onState = onState;
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
  }

  /** Connect, or reconnect from the page's current cursor. */
  connect() {
    this.close();
    this.onState("connecting", "");
    const socket = new WebSocket(this.address());
    this.#socket = socket;
    socket.addEventListener("open", () => {
      if (socket !== this.#socket) return;
      this.onState("live", "");
      this.#listenForSilence(socket);
    });
    socket.addEventListener("message", (event) => {
      if (socket !== this.#socket) return;
      this.#failures = 0;
      this.#listenForSilence(socket);
      this.#enqueue(() => this.onMessage(JSON.parse(event.data)));
    });
    socket.addEventListener("close", (event) => {
      this.#enqueue(() => socket === this.#socket && this.#lost(event.code)); // after the messages that came before
    });
  }

  #enqueue(work) {
    this.#queue = this.#queue.then(waitForRelease).then(work).catch(reportError);
  }

  /** Close without reconnecting. */
  close() {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#retry = 0;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** Close permanently and report the reason. */
  refuse(why) {
    this.close();
    this.onState("refused", why);
  }

  #lost(code) {
    clearTimeout(this.#silence);
    this.#socket = null;
    if (REFUSALS.has(code)) {
      this.refuse(REFUSALS.get(code));
      return;
    }
    const wait = Math.min(MAX_WAIT, FIRST_WAIT * 2 ** this.#failures) * (0.75 + Math.random() / 2);
    this.#failures += 1;
    this.onState("offline", "");
    this.#retry = setTimeout(() => this.connect(), wait);
  }

  /** Reconnect at once when the network or the page becomes available. */
  #hurry() {
    if (this.#retry) this.connect();
  }

  /** The server's heartbeat tells a dead connection from a quiet agent. */
  #listenForSilence(socket) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => {
      if (socket !== this.#socket) return;
      this.#socket = null;
      socket.close();
      this.#lost(0);
    }, SILENCE);
  }
}
