// A socket that comes back: it resumes from where the page stands, waits longer after each failure, and says how it is.

const FIRST_WAIT = 400;
const LONGEST_WAIT = 10_000;
const SILENCE = 45_000;
/** Why a session's line is closed for good when there is no such session any more. */
export const GONE = "deleted";
const REFUSALS = new Map([
  [4400, "the server did not accept the cursor"],
  [4404, GONE],
]);

/** A live connection. States: connecting, live, offline (will try again), refused (will not). */
export class Live {
  #socket = null;
  #retry = 0;
  #failures = 0;
  #silence = 0;

  /**
   * @param {() => string} address  where to connect, asked anew each time: it carries the cursor
   * @param {(message: object) => void} onMessage
   * @param {(state: string, why: string) => void} onState
   */
  constructor(address, onMessage, onState) {
    this.address = address;
    this.onMessage = onMessage;
    this.onState = onState;
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
  }

  /** Connect, or connect anew from where the page stands now. */
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
      this.onMessage(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => {
      if (socket === this.#socket) this.#lost(event.code);
    });
  }

  /** Close without coming back. */
  close() {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#retry = 0;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** Close for good, and say why. */
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
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#failures) * (0.75 + Math.random() / 2);
    this.#failures += 1;
    this.onState("offline", "");
    this.#retry = setTimeout(() => this.connect(), wait);
  }

  /** Try again at once when there is reason to hope. */
  #hurry() {
    if (this.#retry) this.connect();
  }

  /** A line that went dead without a word looks like a quiet agent; the server's beat tells them apart. */
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
