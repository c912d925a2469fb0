// Audio player for the sound of a live model: raw 16-bit samples, played chunk after chunk.

const RATE = 24_000;

/** Plays chunks of sound without gaps; chunks that have not been played can be dropped. */
export class Sound {
  #context = null;
  #playing = new Set();
  #end = 0;

  /** Enable sound; browsers require a click before the first sound. */
  unlock() {
    this.#context ??= new AudioContext();
    this.#context.resume();
  }

  /** Queue bytes of a type such as `audio/pcm;rate=24000`. */
  play(bytes, type) {
    if (!this.#context || bytes.length < 2) return;
    const rate = Number(/rate=(\d+)/.exec(type)?.[1] ?? RATE);
    const samples = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1);
    const piece = this.#context.createBuffer(1, samples.length, rate);
    piece.copyToChannel(Float32Array.from(samples, (sample) => sample / 32_768), 0);
    const source = this.#context.createBufferSource();
    source.buffer = piece;
    source.connect(this.#context.destination);
    this.#end = Math.max(this.#end, this.#context.currentTime);
    source.start(this.#end);
    this.#end += piece.duration;
    this.#playing.add(source);
    source.addEventListener("ended", () => this.#playing.delete(source));
  }

  /** Stop playing at once. */
  stop() {
    for (const source of this.#playing) source.stop();
    this.#playing.clear();
    this.#end = 0;
  }
}
