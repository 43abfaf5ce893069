"use strict";
// Text to speech in a page: a lexicon maps words to token ids, and one ONNX graph maps ids to samples.

const SIGNS = /[\p{L}\p{M}\p{N}'’]+|[,.?!;:…]/gu;
const ALIKE = { ";": ",", ":": ",", "…": "." };
const ENDS = new Set([".", "?", "!"]);
const byId = (id) => document.getElementById(id);

// Decode the content of a script element, which is gzip in base64.
async function bytesOf(id) {
  const packed = Uint8Array.from(atob(byId(id).textContent.trim()), (letter) => letter.charCodeAt(0));
  byId(id).remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function textOf(id) {
  return new TextDecoder().decode(await bytesOf(id));
}

// Parse the lexicon: each line is a word and the row numbers of its phonemes in `description.tokens`.
function lexiconOf(text) {
  const lexicon = new Map();
  for (const line of text.split("\n")) {
    const border = line.indexOf(" ");
    if (border > 0) lexicon.set(line.slice(0, border), line.slice(border + 1));
  }
  return lexicon;
}

class SpeakingVoice {
  constructor(description, lexicon, ort, session) {
    Object.assign(this, { description, lexicon, ort, session });
  }

  static async load() {
    const description = JSON.parse(await textOf("voice"));
    const module = URL.createObjectURL(new Blob([await bytesOf("runtime-script")], { type: "text/javascript" }));
    const ort = await import(module);
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = (await bytesOf("runtime-program")).buffer;
    const session = await ort.InferenceSession.create(await bytesOf("graph"), { executionProviders: ["wasm"] });
    return new SpeakingVoice(description, lexiconOf(await textOf("lexicon")), ort, session);
  }

  // Split a text into sentences, each a list of rows [symbol, stress, word start], and collect unknown words.
  read(text) {
    const sentences = [], unknown = [];
    let rows = [], spoken = false, paused = true;
    const end = () => {
      if (spoken) sentences.push(rows);
      [rows, spoken, paused] = [[], false, true];
    };
    for (const [found] of text.normalize("NFC").matchAll(SIGNS)) {
      const sign = ALIKE[found] ?? found;
      if (sign in this.description.pauses) {
        if (!paused) rows.push(this.description.pauses[sign]);
        paused = true;
        if (ENDS.has(sign)) end();
        continue;
      }
      const word = found.toLowerCase().replaceAll("’", "'");
      const numbers = this.lexicon.get(word) ?? this.lexicon.get(word.replace(/^'+|'+$/g, ""));
      if (numbers === undefined) {
        unknown.push(found);
        continue;
      }
      rows.push(...numbers.split(" ").map((number) => this.description.tokens[Number(number)]));
      spoken = true;
      paused = false;
    }
    end();
    return { sentences, unknown };
  }

  // Synthesise one sentence; full scale is 1.
  async sentence(rows, manner) {
    const { start, end } = this.description;
    const framed = [start, ...rows, end];
    const { Tensor } = this.ort;
    const one = (value) => new Tensor("float32", Float32Array.of(value), [1]);
    const inputs = {
      tokens: new Tensor("int64", BigInt64Array.from(framed.flat(), BigInt), [1, framed.length, 3]),
      speaker: new Tensor("int64", BigInt64Array.of(BigInt(manner.speaker)), [1]),
      speed: one(manner.speed),
    };
    if (this.description.prosody) Object.assign(inputs, { pitch: one(manner.pitch), energy: one(manner.energy) });
    return (await this.session.run(inputs)).samples.data;
  }

  // Synthesise a text. Returns its samples and its unknown words.
  async say(text, manner = {}) {
    const how = { speaker: 0, speed: 1, pitch: 0, energy: 0, ...manner };
    const { sentences, unknown } = this.read(text);
    const parts = [];
    for (const rows of sentences) parts.push(await this.sentence(rows, how));
    const samples = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
    parts.reduce((at, part) => (samples.set(part, at), at + part.length), 0);
    return { samples, unknown };
  }
}

// Encode samples as 16-bit WAV.
function waveOf(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const write = (at, text) => [...text].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((value, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, value)) * 32767, true));
  return new Blob([view], { type: "audio/wav" });
}

async function speak(voice) {
  const manner = Object.fromEntries(["speaker", "speed", "pitch", "energy"].map((name) => [name, Number(byId(name).value)]));
  byId("error").textContent = byId("unknown").textContent = "";
  byId("speak").disabled = true;
  byId("status").textContent = "Speaking ...";
  try {
    const began = performance.now();
    const { samples, unknown } = await voice.say(byId("text").value, manner);
    if (unknown.length) byId("unknown").textContent = `Unknown words, not spoken: ${[...new Set(unknown)].join(", ")}`;
    const seconds = samples.length / voice.description.sampleRate;
    byId("status").textContent = samples.length
      ? `${seconds.toFixed(1)} s of speech in ${((performance.now() - began) / 1000).toFixed(1)} s`
      : "There is nothing to say.";
    if (!samples.length) return;
    URL.revokeObjectURL(byId("player").src);
    byId("player").src = URL.createObjectURL(waveOf(samples, voice.description.sampleRate));
    // Not awaited, because a browser may block playback until the user presses the player's own button.
    byId("player").play().catch(() => {});
  } catch (error) {
    byId("error").textContent = `The text could not be spoken: ${error.message}`;
  } finally {
    byId("speak").disabled = false;
  }
}

async function begin() {
  const voice = await SpeakingVoice.load();
  voice.description.speakers.forEach((name, number) => byId("speaker").append(new Option(name, number)));
  for (const part of document.querySelectorAll("[data-prosody]")) part.hidden = !voice.description.prosody;
  for (const name of ["speed", "pitch", "energy"]) {
    byId(name).addEventListener("input", () => (byId(`${name}-shown`).value = Number(byId(name).value).toFixed(2)));
  }
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    speak(voice);
  });
  byId("speak").disabled = false;
  byId("status").textContent = `Ready: ${voice.lexicon.size} words.`;
  window.voice = voice;
}

begin().catch((error) => (byId("error").textContent = `The voice could not be loaded: ${error.message}`));
