// SPDX-License-Identifier: Apache-2.0
// Runs where the browser computes sound: hands over what the microphone gives, in pieces of a tenth of a second or so.
// A message ends it: what is left is handed over, too, then null.
const PIECE = 4096; // samples

registerProcessor('recorder', class extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(PIECE);
    this.used = 0;
    this.isEnded = false;
    this.port.onmessage = () => this.end();
  }

  end() {
    this.port.postMessage(this.samples.slice(0, this.used));
    this.port.postMessage(null);
    this.isEnded = true;
  }

  process([channels]) {
    if (this.isEnded) return false;
    for (let i = 0; i < (channels[0]?.length || 0); i++) {
      this.samples[this.used++] = channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
      if (this.used === PIECE) {
        this.port.postMessage(this.samples);
        this.samples = new Float32Array(PIECE);
        this.used = 0;
      }
    }
    return true;
  }
});
