"use strict";

// Playback: samples are scheduled one after another on one AudioContext while later ones are still being computed.
const silent = () => ({
  context: null, output: null, heard: [], ends: 0, started: null, complete: null, request: null,
  chunks: [], // when each chunk plays (seconds of the context) and where it starts (seconds of the speech)
  seconds: 0, // duration of the received speech
  words: [], // elements of the page, with start and end in seconds of the speech
  lit: null, // the word that is playing
  typed: null, // a text that is spoken while it is typed: its id, the part that was sent, and a promise of the last request
});
const player = silent();

const element = (id) => document.getElementById(id);

function tell(id, line) {
  element(id).textContent = line;
}

function show(id) {
  tell(`${id}-shown`, element(id).valueAsNumber.toFixed(2));
}

async function showVoice() {
  const voice = await (await fetch("voice")).json();
  const fill = (id, options) => element(id).replaceChildren(...options.map(([label, value]) => new Option(label, value)));
  fill("speaker", voice.speakers.map((name) => [name, name]));
  fill("variant", [["default", ""], ...voice.variants.map((name) => [name, name])]);
  const offer = (id, offered) => (element(id).parentElement.hidden = !offered);
  const decodes = voice.temperature !== null;
  const ranges = { speed: voice.speeds, pitch: voice.pitches, energy: voice.energies };
  for (const [id, range] of Object.entries(ranges)) {
    offer(id, range !== null);
    if (range !== null) [element(id).min, element(id).max] = range;
  }
  offer("temperature", decodes);
  offer("seed", decodes);
  if (decodes) element("temperature").value = voice.temperature;
  show("temperature");
  player.manner = decodes ? ["temperature", "seed"] : Object.keys(ranges).filter((id) => ranges[id] !== null);
  element("text").maxLength = voice.characters;
  player.untimed = voice.untimed;
  tell("language", `(${voice.language}, at most ${voice.characters} characters)`);
  player.rate = voice.sample_rate;
}

function play(samples) {
  const { context, output } = player;
  const buffer = context.createBuffer(1, samples.length, player.rate);
  buffer.copyToChannel(samples, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(output);
  const start = Math.max(player.ends, context.currentTime + 0.05);
  source.start(start);
  player.ends = start + buffer.duration;
  player.started ??= performance.now();
  player.chunks.push({ at: start, from: player.seconds });
  player.seconds += buffer.duration;
  player.heard.push(samples);
}

// Show the spoken text: each word whose times are known in its own element, then the remaining text.
function showText(text) {
  player.characters = Array.from(text); // Python's characters; JavaScript counts some of them as two
  player.placed = 0;
  element("spoken").replaceChildren(player.untimed ? `(${player.untimed})` : text);
}

function place({ first, last, start, end }) {
  const part = (from, to) => player.characters.slice(from, to).join("");
  const span = document.createElement("span");
  span.textContent = part(first, last);
  element("spoken").lastChild?.remove();
  element("spoken").append(part(player.placed, first), span, part(last));
  player.placed = last;
  player.words.push({ span, start, end });
}

// Append to a text that is spoken while it is typed.
function extendText(more) {
  player.characters.push(...Array.from(more));
  if (player.untimed) return;
  element("spoken").lastChild?.remove();
  element("spoken").append(player.characters.slice(player.placed).join(""));
}

const ENDS = /[.?!:…]["'”’»)\]]*\s*$/;
const PAUSE_MS = 1000; // time without a key after which a complete sentence is spoken

// Send the text typed since the last call, without a last word that may be incomplete; send all of it at the end, and at
// a pause after a complete sentence. A pause within a word makes the server speak the sentence before it.
function sendTyped({ pause = false, end = false } = {}) {
  const { typed } = player;
  const text = element("text").value;
  if (!typed) return;
  const kept = text.startsWith(typed.sent);
  tell("error", kept ? "" : "The text that you changed was already sent to the voice; continue after it.");
  const all = end || (pause && ENDS.test(text));
  const more = kept ? text.slice(typed.sent.length, all ? text.length : text.search(/\S*$/)) : "";
  if (!more && !all && !(pause && ENDS.test(typed.sent))) return;
  typed.sent += more;
  extendText(more);
  const post = () => fetch("text", asJson({ id: typed.id, text: more, pause, end }));
  typed.last = typed.last.then(post).catch(() => tell("error", "the server cannot be reached"));
  if (end) player.typed = null;
}

function noteTyped() {
  clearTimeout(player.timer);
  sendTyped();
  player.timer = setTimeout(() => sendTyped({ pause: true }), PAUSE_MS);
}

function asJson(value) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
}

// Current position in seconds of the speech; late chunks leave gaps in the playback.
function heardNow() {
  const now = player.context.currentTime;
  const chunk = player.chunks.findLast(({ at }) => at <= now);
  return chunk ? chunk.from + now - chunk.at : -1;
}

function light() {
  if (player.context && player.words.length) {
    const now = heardNow();
    const latest = player.words.findLast(({ start }) => start <= now);
    const lit = latest && now < latest.end ? latest.span : null;
    if (lit !== player.lit) {
      player.lit?.classList.remove("lit");
      lit?.classList.add("lit");
      player.lit = lit;
    }
  }
  requestAnimationFrame(light);
}

function samplesOf(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, index) => view.getInt16(2 * index, true) / 32768);
}

async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (waiting + value).split("\n");
    waiting = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

async function listen(response) {
  for await (const line of linesOf(response)) {
    if (line.id) {
      player.typed = { id: line.id, sent: "", last: Promise.resolve() };
      if (element("typed").checked) noteTyped();
      else sendTyped({ end: true }); // the box was cleared in the meantime
    }
    if (line.audio) play(samplesOf(line.audio));
    for (const word of line.words ?? []) place(word);
    if (line.unknown) tell("unknown", `${element("unknown").textContent || "Left out, because these characters cannot be spoken:"} ${line.unknown}`);
    if (line.bad) tell("bad", `A sentence did not go well (${line.bad.join(", ")}); try another seed.`);
    if (line.error) throw new Error(line.error);
    if (line.end) {
      player.complete = performance.now();
      return;
    }
  }
  throw new Error("the speech broke off; try again");
}

async function stop() {
  player.request?.abort();
  await player.context?.close();
  Object.assign(player, silent());
  element("spoken").replaceChildren();
  element("stop").disabled = true;
  element("typed").checked = false;
  for (const id of ["status", "unknown", "bad", "error"]) tell(id, "");
}

// Speak the text; if it `arrives`, also what is typed until the box is cleared.
async function speak(arrives = false) {
  await stop();
  element("typed").checked = arrives;
  const request = new AbortController();
  const context = new AudioContext({ sampleRate: player.rate });
  const output = context.createGain();
  output.connect(context.destination);
  Object.assign(player, { context, output, request });
  element("stop").disabled = false;
  const wish = {
    text: arrives ? "" : element("text").value,
    arrives,
    format: "pcm",
    speaker: element("speaker").value || null,
    variant: element("variant").value || null,
  };
  for (const id of player.manner) wish[id] = element(id).valueAsNumber;
  showText(wish.text);
  try {
    const response = await fetch("speech", { ...asJson(wish), signal: request.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    await listen(response);
  } catch (error) {
    if (request.signal.aborted) return;
    tell("error", error instanceof TypeError ? "the server cannot be reached" : error.message);
  } finally {
    if (player.request === request) {
      player.typed = null;
      element("typed").checked = false;
    }
  }
}

function showProgress() {
  const { context, started, complete, ends } = player;
  if (!started) return;
  const over = complete && context.currentTime >= ends;
  const all = complete ? `of ${ends.toFixed(1)} s` : player.typed ? "so far" : "while the rest is computed";
  tell("status", over ? `Spoken: ${ends.toFixed(1)} s` : `Speaking: ${Math.min(context.currentTime, ends).toFixed(1)} s ${all}`);
  element("stop").disabled = Boolean(over);
}

element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  speak();
});
element("stop").addEventListener("click", stop);
element("text").addEventListener("input", noteTyped);
element("typed").addEventListener("change", ({ target }) => (target.checked ? speak(true) : sendTyped({ end: true })));
for (const id of ["speed", "pitch", "energy", "temperature"]) element(id).addEventListener("input", () => show(id));
setInterval(showProgress, 200);
light();
showVoice().catch(() => tell("error", "the server cannot be reached"));
