// Audio worklet of the live page: what the microphone hears as 16-bit samples at 16 kHz, which live models take.

const RATE = 16_000;
const CHUNK = 1_600; // a tenth of a second

class SpeechSampler extends AudioWorkletProcessor {
  #step = sampleRate / RATE; // samples of the device in one of ours
  #sum = 0;
  #summed = 0;
  #due = this.#step;
  #samples = new Int16Array(CHUNK);
  #filled = 0;
  #power = 0;

  process([[input]]) {
    for (const sample of input ?? []) this.#take(sample);
    return true;
  }

  /** Average the device's samples, so that sounds above 8 kHz do not come back as lower ones. */
  #take(sample) {
    this.#sum += sample;
    this.#summed += 1;
    if (this.#summed < this.#due) return;
    const mean = Math.max(-1, Math.min(1, this.#sum / this.#summed));
    this.#due += this.#step - this.#summed;
    this.#sum = this.#summed = 0;
    this.#power += mean * mean;
    this.#samples[this.#filled++] = Math.round(mean * 32_767);
    if (this.#filled === CHUNK) this.#pass();
  }

  #pass() {
    this.port.postMessage({ samples: this.#samples.slice(), level: Math.sqrt(this.#power / CHUNK) });
    this.#filled = 0;
    this.#power = 0;
  }
}

registerProcessor("speech-sampler", SpeechSampler);
