"use strict";

// listener: name as returned by the server. trial: current trial from the server. players: a player (Audio) per sound.
const test = { listener: null, trial: null, players: [] };
const QUESTIONS = {
  pair: "Play both. They are the same sentence in two voices.",
  rating:
    "Play the reference, then all others, and rate how natural each sounds compared with it. One of them is the reference itself; rate it 100.",
};
const SCALE = ["bad", "poor", "fair", "good", "excellent"];

const element = (id) => document.getElementById(id);
const complain = (line) => (element("error").textContent = line);

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new Error("The server cannot be reached; check that sonorant listen is still running. Your earlier answers are saved.");
  }
  const answer = await response.json();
  if (!response.ok && response.status !== 409) throw new Error(answer.error); // 409: already answered
  return answer;
}

async function proceed(path, body) {
  try {
    element("next").disabled = true;
    show(await ask(path, body));
    complain("");
  } catch (error) {
    complain(error.message);
  } finally {
    element("next").disabled = false;
  }
}

function show({ listener, done, total, trial }) {
  stop();
  Object.assign(test, { listener, trial, players: [] });
  sessionStorage.setItem("listener", listener);
  element("begin").hidden = true;
  element("trial").hidden = !trial;
  element("end").hidden = Boolean(trial);
  element("title").textContent = trial ? `Question ${done + 1} of ${total}` : "Done";
  if (trial) showTrial(trial, done, total);
  element("title").focus();
  scrollTo(0, 0);
}

function showTrial(trial, done, total) {
  const rating = trial.kind === "rating";
  Object.assign(element("progress"), { max: total, value: done });
  element("count").textContent = `${done} of ${total} answered`;
  element("ask").textContent = QUESTIONS[trial.kind];
  element("text").hidden = !trial.text;
  element("text").textContent = trial.text ?? "";
  element("reference").replaceChildren(...(rating ? [row("Reference", trial.reference, "0", false)] : []));
  const names = rating ? trial.sounds.map((_, place) => `Sound ${place + 1}`) : ["The first", "The second"];
  const rows = trial.sounds.map((sound, place) => row(names[place], sound, `${place + 1}`, rating));
  element("sounds").replaceChildren(...rows);
  element("choice").hidden = rating;
  for (const choice of document.getElementsByName("choice")) choice.checked = false;
}

function row(name, sound, key, rated) {
  const audio = new Audio(`sounds/${sound}`);
  audio.preload = "auto";
  const button = make("button", { type: "button" }, `Play ${name.toLowerCase()} `, make("kbd", { textContent: key }));
  const player = { audio, button, key, name, heard: false, score: null };
  button.addEventListener("click", () => play(player));
  audio.addEventListener("ended", () => {
    button.classList.remove("playing");
    if (player.heard) return;
    player.heard = true;
    button.classList.add("heard");
    button.title = "heard";
  });
  audio.addEventListener("error", () => complain(`${name} could not be loaded; reload the page.`));
  test.players.push(player);
  const parts = rated ? slider(player) : [];
  return make("div", { className: "row" }, button, ...parts);
}

function slider(player) {
  const range = make("input", { type: "range", min: 0, max: 100, step: 1, value: 50 });
  const value = make("output", { textContent: "not rated" });
  range.setAttribute("aria-label", `${player.name}: how natural, 0 bad to 100 excellent`);
  range.setAttribute("aria-valuetext", "not rated");
  range.addEventListener("input", () => {
    player.score = range.valueAsNumber;
    value.textContent = `${player.score}`;
    range.setAttribute("aria-valuetext", `${player.score}, ${SCALE[Math.min(4, Math.floor(player.score / 20))]}`);
  });
  player.range = range;
  const words = SCALE.map((word) => make("span", { textContent: word }));
  const scale = make("div", { className: "scale" }, ...words);
  scale.setAttribute("aria-hidden", "true");
  return [range, value, scale];
}

function stop() {
  for (const { audio, button } of test.players) {
    audio.pause();
    button.classList.remove("playing");
  }
}

function play(player) {
  stop();
  player.audio.currentTime = 0;
  player.button.classList.add("playing");
  player.audio.play().catch((error) => {
    if (error.name !== "AbortError") complain(`${player.name} cannot be played: ${error.message}`); // AbortError: another sound was started
  });
}

// Return what the listener must do before answering and the element to focus, or null.
function missing() {
  const unheard = test.players.find((player) => !player.heard);
  if (unheard) return [`${unheard.name} has not been played to the end yet.`, unheard.button];
  const unrated = test.players.find((player) => player.range && player.score === null);
  if (unrated) return [`${unrated.name} is not rated yet; move its slider.`, unrated.range];
  const choices = [...document.getElementsByName("choice")];
  if (test.trial.kind === "pair" && !choices.some((choice) => choice.checked)) return ["Choose one of the three.", choices[0]];
  return null;
}

element("begin").addEventListener("submit", (event) => {
  event.preventDefault();
  proceed("next", { listener: element("name").value });
});

element("trial").addEventListener("submit", (event) => {
  event.preventDefault();
  const lacking = missing();
  if (lacking) {
    complain(lacking[0]);
    lacking[1].focus();
    return;
  }
  const chosen = document.querySelector("[name=choice]:checked");
  const scores = test.players.filter((player) => player.range).map((player) => player.score);
  const answer = test.trial.kind === "pair" ? chosen.value : scores;
  proceed("answers", { listener: test.listener, trial: test.trial.token, answer });
});

element("another").addEventListener("click", () => {
  sessionStorage.removeItem("listener");
  location.reload();
});

document.addEventListener("keydown", (event) => {
  if (!test.trial || !element("keys").checked || event.ctrlKey || event.altKey || event.metaKey) return;
  const player = test.players.find(({ key }) => key === event.key);
  if (!player) return;
  event.preventDefault();
  if (!event.repeat) play(player);
});

const known = sessionStorage.getItem("listener");
if (known) proceed("next", { listener: known });
