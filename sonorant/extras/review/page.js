"use strict";

const DOUBTFUL = 0.5; // minimum doubt of a word that is marked
const AROUND = 0.03; // seconds played before and after a word
const SHORTEST = 0.05; // seconds that must remain between the edges
const LISTED = 200; // maximum number of clips in the list, because a large corpus would slow down every key

// clips: all, in the server's order. fitting: number of clips that match the filters. listed: those in the list, starting
// at index `first`. at: playhead in seconds. playing: {from, stop} during playback. edges: start and end of the kept part
// as shown; they differ from the decision only while an edge is being moved.
const review = { clips: [], first: 0, listed: [], fitting: 0 };
Object.assign(review, { clip: null, at: 0, playing: null, edges: null, undo: [], moving: null });
let queue = Promise.resolve();

const element = (id) => document.getElementById(id);
const audio = element("audio");
const address = (clip, part = "") => `clips/${encodeURIComponent(clip)}${part}`;
const seconds = (value) => `${value.toFixed(2)} s`;
const tell = (line) => (element("status").textContent = line);
const complain = (line) => (element("error").textContent = line);
const decided = () => review.clips.filter((clip) => clip.decision).length;

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : {});
  } catch {
    throw new Error("the server cannot be reached; is sonorant review still running?");
  }
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error), { clip: answer.clip });
  return answer;
}

// Run actions one after another, so that quickly pressed keys act on the clip that is then shown.
function step(action) {
  queue = queue.then(action).catch((error) => {
    complain(error.message);
    if (error.clip) update(error.clip);
  });
}

// --- the list ---

const fitting = (clip) =>
  (!element("undecided").checked || !clip.decision) && (!element("fault").value || clip.fault === element("fault").value);
const shown = () => review.clips.filter((clip) => fitting(clip) || clip.clip === review.clip?.clip);

const VERDICTS = { keep: ["kept", "good"], drop: ["dropped", "bad"], edit: ["edited", "none"] };

function verdict(decision, badge) {
  const [words, kind] = decision ? VERDICTS[decision.decision] : ["", ""];
  badge.textContent = words;
  badge.className = words ? `badge ${kind}` : "";
}

function showEntry(clip) {
  clip.button ??= make("button", { type: "button", onclick: () => step(() => open(clip.clip)) });
  clip.item ??= make("li", {}, clip.button);
  const badge = make("span");
  verdict(clip.decision, badge);
  const score = clip.score === null ? "" : clip.score.toFixed(2);
  const small = clip.fault ?? clip.rejected ?? (clip.score === null ? clip.id : "no fault found");
  clip.button.replaceChildren(
    make("span", { className: "score", textContent: score, title: "probability that text and sound do not match" }),
    make("span", { className: "line", textContent: clip.text }),
    make("span", { className: "small" }, badge, badge.textContent ? " " : "", small),
  );
}

function refresh() {
  const all = shown();
  const current = all.findIndex((clip) => clip.clip === review.clip?.clip);
  if (current >= 0 && (current < review.first || current >= review.first + LISTED)) review.first = current - LISTED / 2;
  list(all);
  for (const { button } of all.slice(review.first, review.first + LISTED)) button.removeAttribute("aria-current");
  all[current]?.button.setAttribute("aria-current", "true");
  element("progress").max = Math.max(review.clips.length, 1);
  element("progress").value = decided();
  element("decided").textContent = `${decided()} of ${review.clips.length} decided`;
  if (current >= 0) reveal(all[current].item);
}

// Show LISTED clips from review.first on, and buttons for the earlier and later ones.
function list(all) {
  review.first = Math.max(0, Math.min(review.first, all.length - LISTED));
  const rows = all.slice(review.first, review.first + LISTED);
  const same = rows.length === review.listed.length && rows.every((clip, at) => clip === review.listed[at]);
  if (same && all.length === review.fitting) return; // the focus stays where it is
  Object.assign(review, { listed: rows, fitting: all.length });
  for (const clip of rows) if (!clip.item) showEntry(clip);
  const later = all.length - review.first - rows.length;
  const items = rows.map((clip) => clip.item);
  if (review.first) items.unshift(further(`${review.first} earlier clips`, all, -LISTED));
  if (later) items.push(further(`${later} later clips`, all, LISTED));
  element("list").replaceChildren(...items);
}

function further(words, all, by) {
  const onclick = () => {
    review.first += by;
    list(all);
    element("list").scrollTop = by < 0 ? element("list").scrollHeight : 0;
  };
  return make("li", { className: "further" }, make("button", { type: "button", textContent: words, onclick }));
}

// Scroll only the list, because on a phone the page itself must not move.
function reveal(item) {
  const list = element("list");
  const below = item.offsetTop + item.offsetHeight - list.clientHeight;
  list.scrollTop = Math.min(Math.max(list.scrollTop, below), item.offsetTop);
}

function fill(listed) {
  review.clips = listed.clips;
  const faults = new Map();
  for (const { fault } of review.clips) if (fault) faults.set(fault, (faults.get(fault) ?? 0) + 1);
  const options = [...faults].map(([fault, count]) => new Option(`${fault} (${count})`, fault));
  element("fault").replaceChildren(new Option("all", ""), ...options);
  element("notice").hidden = listed.audited;
  element("notice").textContent =
    "This corpus has not been audited, so clips are in the manifest's order and no words are marked.";
}

// --- a clip ---

async function open(name) {
  stop();
  const clip = await ask(address(name));
  Object.assign(review, { at: 0, edges: null });
  element("picture").src = address(name, "/picture");
  audio.src = address(name, "/sound");
  closeEdit();
  complain("");
  element("stage").hidden = false;
  update(clip);
  review.at = review.edges.start;
  draw();
  if (element("autoplay").checked) play(review.edges.start, review.edges.end);
}

// Show a clip as described by the server, also in the list.
function update(clip) {
  review.clip = clip;
  const row = review.clips.find((other) => other.clip === clip.clip);
  Object.assign(row, { text: clip.text, decision: clip.decision });
  showEntry(row);
  review.edges = { start: clip.decision?.start ?? 0, end: clip.decision?.end ?? clip.seconds };
  element("name").textContent = clip.id;
  element("fault-name").textContent = [clip.fault, clip.reading].filter(Boolean).join(": ");
  element("fault-name").className = clip.fault ? "badge bad" : "";
  verdict(clip.decision, element("verdict"));
  element("rejected").hidden = !clip.rejected;
  element("rejected").textContent = `Rejected by prepare: ${clip.rejected}`;
  element("original").hidden = clip.text === clip.original;
  element("original").textContent = `Before: ${clip.original}`;
  element("note").value = clip.decision?.note ?? "";
  element("picture").alt = `Spectrogram of ${clip.seconds.toFixed(1)} seconds`;
  showText(clip);
  showTimes(clip);
  showHeard(clip);
  refresh();
  draw();
}

function showText(clip) {
  const parts = clip.tokens.flatMap((token) => {
    if (token.first === null) return [make("span", { textContent: token.text }), " "];
    const [first, last] = [clip.words[token.first], clip.words[token.last]];
    const doubtful = token.doubt >= DOUBTFUL;
    const title = `${doubtful ? "doubtful; " : ""}press to play it`;
    const heard = make("button", { type: "button", textContent: token.text, title, onclick: () => hear(first, last) });
    heard.classList.toggle("doubtful", doubtful);
    return [heard, " "];
  });
  element("text").replaceChildren(...parts);
}

const place = (at) => `${(100 * at) / review.clip.seconds}%`;

function showTimes(clip) {
  const buttons = clip.words.map((word) => {
    const button = make("button", { type: "button", onclick: () => hear(word, word) }, make("span", { textContent: word.text }));
    button.style.left = place(word.start);
    button.style.width = place(Math.max(word.end - word.start, 0));
    button.classList.toggle("doubtful", word.doubt >= DOUBTFUL);
    button.classList.toggle("unspoken", word.end <= word.start);
    const where = word.end > word.start ? `${word.start.toFixed(2)} to ${seconds(word.end)}` : "not spoken";
    button.title = `${word.text}: ${where}, doubt ${word.doubt.toFixed(2)}`;
    button.setAttribute("aria-label", button.title);
    return button;
  });
  element("words").replaceChildren(...buttons);
  stack(buttons);
  const spans = clip.unexplained.map((span) => {
    const title = `Speech that is not in the text, ${span.start.toFixed(2)} to ${seconds(span.end)}`;
    const made = make("div", { className: "unexplained", title });
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", title);
    made.style.left = place(span.start);
    made.style.width = place(span.end - span.start);
    return made;
  });
  element("spans").replaceChildren(...spans);
  element("legend").hidden = clip.words.length === 0 && spans.length === 0;
  const each = clip.seconds > 8 ? 1 : 0.5;
  const marks = Array.from({ length: Math.floor(clip.seconds / each) + 1 }, (_, mark) => {
    const label = make("span", { textContent: `${mark * each}` });
    label.style.left = place(mark * each);
    return label;
  });
  element("axis").replaceChildren(...marks);
}

// Keep the horizontal position of words; put each into the first row in which it does not overlap another.
function stack(buttons) {
  const ends = [];
  const places = buttons.map((button) => {
    const left = button.getBoundingClientRect().left;
    const right = left + Math.max(button.offsetWidth, button.firstChild.offsetWidth);
    let row = ends.findIndex((end) => end <= left);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = right + 2;
    return row;
  });
  buttons.forEach((button, index) => (button.style.top = `${places[index] * 1.85}rem`));
  element("words").style.height = `${ends.length * 1.85}rem`;
}

function showHeard(clip) {
  const tags = { same: "span", other: "mark", missing: "del" };
  const heard = Object.entries(clip.heard).flatMap(([name, parts]) => {
    const words = parts.flatMap(([text, kind]) => [make(tags[kind], { textContent: text }), " "]);
    return [make("dt", { textContent: name }), make("dd", {}, ...(words.length ? words : ["nothing"]))];
  });
  element("heard").replaceChildren(...heard);
  element("heard-section").hidden = heard.length === 0;
  const figures = { clip: clip.clip, file: clip.file, speaker: clip.speaker, length: seconds(clip.seconds) };
  if (clip.score !== null) figures["probability of a fault"] = clip.score.toFixed(3);
  for (const [name, value] of Object.entries(clip.figures)) figures[name] = value.toPrecision(3);
  const rows = Object.entries(figures).flatMap(([name, value]) => [
    make("dt", { textContent: name }),
    make("dd", { textContent: value }),
  ]);
  element("figures").replaceChildren(...rows);
}

// --- sound ---

function draw() {
  const { clip, edges, at } = review;
  if (!clip) return;
  element("playhead").style.left = place(at);
  element("before").style.width = place(edges.start);
  element("after").style.width = place(Math.max(clip.seconds - edges.end, 0));
  for (const id of ["start", "end"]) {
    const handle = element(id);
    handle.style.left = place(edges[id]);
    handle.setAttribute("aria-valuemin", "0");
    handle.setAttribute("aria-valuemax", clip.seconds.toFixed(3));
    handle.setAttribute("aria-valuenow", edges[id].toFixed(3));
    handle.setAttribute("aria-valuetext", seconds(edges[id]));
  }
  [...element("words").children].forEach((button, index) => {
    const word = clip.words[index];
    button.classList.toggle("playing", Boolean(review.playing) && word.start <= at && at < word.end);
  });
  element("play").firstChild.textContent = review.playing ? "Pause " : "Play ";
}

async function play(from, end) {
  stop();
  review.playing = { from, stop: Math.min(end, review.clip.seconds) };
  const { playing } = review;
  if (audio.readyState < 1) await new Promise((resolve) => audio.addEventListener("loadedmetadata", resolve, { once: true }));
  if (review.playing !== playing) return;
  audio.currentTime = from;
  try {
    await audio.play();
  } catch {
    // browsers refuse before the first key or click on the page; or another clip was opened
    if (review.playing === playing) stop();
    return;
  }
  requestAnimationFrame(follow);
}

function follow() {
  if (!review.playing) return;
  review.at = audio.currentTime;
  if (audio.ended || review.at >= review.playing.stop) {
    const { from } = review.playing;
    stop();
    review.at = from;
  } else {
    requestAnimationFrame(follow);
  }
  draw();
}

function stop() {
  if (review.playing && !audio.paused) review.at = audio.currentTime;
  review.playing = null;
  audio.pause();
  draw();
}

// Play from the playhead to the end of the kept part, or from beyond it to the end of the clip.
function toggle() {
  if (review.playing) return stop();
  const { at, edges, clip } = review;
  return play(at, at < edges.end - 0.01 ? edges.end : clip.seconds);
}

const hear = (first, last) => play(Math.max(first.start - AROUND, 0), Math.max(last.end, first.start + 0.2) + AROUND);

function seek(at) {
  stop();
  review.at = Math.min(Math.max(at, 0), review.clip.seconds);
  draw();
}

// --- decisions ---

const fields = (decision) => decision && Object.fromEntries(Object.entries(decision).filter(([, value]) => value !== null));

async function write(clip, before, decision) {
  const answer = await ask("decisions", { clip, before, decision: fields(decision) });
  update(answer);
  complain("");
  return answer;
}

async function decide(decision) {
  const { clip } = review;
  const note = element("note").value;
  const answer = await write(clip.clip, clip.decision, decision && { ...decision, note });
  review.undo.push({ clip: clip.clip, before: clip.decision, after: answer.decision });
}

async function settle(verdict) {
  const { clip } = review;
  const edited = clip.decision?.decision === "edit";
  // Keeping an edited clip keeps the edit.
  if (!(verdict === "keep" && edited)) await decide({ decision: verdict });
  const done = { keep: edited ? "Kept as edited" : "Kept", drop: "Dropped" }[verdict];
  const all = shown();
  const after = all.slice(all.findIndex((other) => other.clip === clip.clip) + 1);
  const next = [...after, ...all].find((other) => !other.decision);
  if (next) await open(next.clip);
  tell(`${done}: ${clip.id}.${next ? "" : " All clips shown are decided; dvc repro applies the decisions."}`);
}

async function edit(changes, line) {
  const { clip } = review;
  const old = clip.decision?.decision === "edit" ? clip.decision : { text: "", start: null, end: null };
  const text = changes.text ?? old.text;
  const wanted = { decision: "edit", text: text === clip.original ? "" : text, start: old.start, end: old.end, ...changes.edges };
  if (wanted.start !== null && wanted.start < 0.0005) wanted.start = null;
  if (wanted.end !== null && wanted.end > clip.seconds - 0.0005) wanted.end = null;
  const empty = !wanted.text && wanted.start === null && wanted.end === null;
  if (empty && clip.decision?.decision !== "edit") return tell("Nothing was changed.");
  await decide(empty ? null : wanted);
  return tell(line);
}

function setEdge(id, at) {
  const { edges } = review;
  const fits = id === "start" ? at <= edges.end - SHORTEST : at >= edges.start + SHORTEST;
  if (!fits) {
    complain(id === "start" ? "The start must be before the end." : "The end must be after the start.");
    review.edges = { start: review.clip.decision?.start ?? 0, end: review.clip.decision?.end ?? review.clip.seconds };
    return draw();
  }
  return step(() => edit({ edges: { [id]: Math.round(at * 1000) / 1000 } }, `New ${id}: ${seconds(at)}.`));
}

async function undo() {
  const last = review.undo.pop();
  if (last) {
    if (last.clip !== review.clip.clip) await open(last.clip);
    await write(last.clip, last.after, last.before);
    return tell(`Undone: ${review.clip.id}.`);
  }
  if (!review.clip.decision) return tell("There is nothing to undo.");
  await write(review.clip.clip, review.clip.decision, null);
  return tell(`Removed the decision on ${review.clip.id}.`);
}

async function move(by) {
  const all = shown();
  const next = all[all.findIndex((other) => other.clip === review.clip?.clip) + by];
  if (next) await open(next.clip);
  tell(next ? "" : by > 0 ? "This is the last clip." : "This is the first clip.");
}

// --- the text's form ---

function openEdit() {
  stop();
  element("edit").hidden = false;
  element("new-text").value = review.clip.text;
  element("new-text").focus();
}

function closeEdit() {
  const had = element("edit").contains(document.activeElement);
  element("edit").hidden = true;
  if (had) element("rewrite").focus();
}

element("edit").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = element("new-text").value.split(/\s+/).filter(Boolean).join(" ");
  if (!text) return complain("The text is empty; drop the clip if it contains no speech.");
  closeEdit();
  return step(() => edit({ text }, "New text."));
});
element("new-text").addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeEdit();
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    element("edit").requestSubmit();
  }
});
element("cancel").addEventListener("click", closeEdit);

// --- edges by mouse and by arrow keys ---

const under = (event) => {
  const { left, width } = element("view").getBoundingClientRect();
  return (Math.min(Math.max(event.clientX - left, 0), width) / width) * review.clip.seconds;
};

element("view").addEventListener("pointerdown", (event) => {
  review.moving = event.target.classList.contains("handle") ? event.target.id : "playhead";
  element("view").setPointerCapture(event.pointerId);
  if (review.moving === "playhead") seek(under(event));
});
element("view").addEventListener("pointermove", (event) => {
  if (review.moving === "playhead") seek(under(event));
  else if (review.moving) {
    review.edges[review.moving] = under(event);
    draw();
  }
});
element("view").addEventListener("pointerup", (event) => {
  const { moving } = review;
  review.moving = null;
  if (moving && moving !== "playhead") setEdge(moving, under(event));
});
element("view").addEventListener("pointercancel", () => {
  review.moving = null;
  update(review.clip);
});

// --- keys and buttons ---

const actions = {
  play: toggle,
  keep: () => step(() => settle("keep")),
  drop: () => step(() => settle("drop")),
  rewrite: openEdit,
  "set-start": () => setEdge("start", review.playing ? audio.currentTime : review.at),
  "set-end": () => setEdge("end", review.playing ? audio.currentTime : review.at),
  undo: () => step(undo),
  previous: () => step(() => move(-1)),
  next: () => step(() => move(1)),
};
const letters = { k: "keep", d: "drop", e: "rewrite", s: "set-start", t: "set-end", u: "undo" };
const arrows = { ArrowUp: "previous", ArrowDown: "next" };

for (const [id, action] of Object.entries(actions)) {
  element(id).addEventListener("click", () => review.clip && action());
}
// Remove the focus from a button clicked by mouse, so that the space bar plays.
document.addEventListener("click", (event) => event.detail && event.target.closest("button")?.blur());

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  const typing = target.matches("input[type=text], textarea, select");
  if (!review.clip || typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (by && target.classList.contains("handle")) {
    setEdge(target.id, review.edges[target.id] + by * (event.shiftKey ? 0.1 : 0.01));
  } else if (by) {
    seek(review.at + by * (event.shiftKey ? 1 : 0.1));
  } else if (arrows[key]) {
    actions[arrows[key]]();
  } else if (key === " " && !target.matches("button, summary, input")) {
    toggle();
  } else if (letters[key.toLowerCase()] && element("keys").checked) {
    if (!event.repeat) actions[letters[key.toLowerCase()]]();
  } else {
    return;
  }
  event.preventDefault();
});

element("note").addEventListener("change", () => {
  const { decision } = review.clip;
  if (decision) step(() => decide(decision));
});
element("note").addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "Escape") element("note").blur();
});
for (const id of ["fault", "undecided"]) element(id).addEventListener("change", refresh);
addEventListener("resize", () => review.clip && stack([...element("words").children]));

step(async () => {
  fill(await ask("clips"));
  const first = review.clips.find((clip) => !clip.decision) ?? review.clips[0];
  refresh();
  if (first) await open(first.clip);
});
