"""A very small language model (a random recurrent map in numpy or torch), and ways in which it runs away."""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from sonorant.extras.codec_lm.decoding.advance import advance, complete, looked_at
from sonorant.extras.codec_lm.decoding.state import Rules, State, draws, make_rules, penalises, start_state
from sonorant.speech.decoding import DecodingConfig, DecodingDescription, Pace

STREAMS, CODES, ADVANCES, CHANNELS, WIDTH = 2, 11, 4, 6, 8
SILENCE = (3, 7)
CONFIG = DecodingConfig(
    temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0, repetition_window=4, advance="median", budget=2.0,
    longest_phoneme=1.0, longest_silence=0.8, longest_repeat=0.6, retries=0,
)  # fmt: skip
DESCRIPTION = DecodingDescription(
    codebooks=STREAMS, codes=CODES, stride=2, samples_per_frame=320, frames_per_second=20.0, silence=SILENCE,
    layers=1, heads=1, head_width=4, advances=ADVANCES, attention="full", window=8, prompt_frames=0,
    frames_per_phoneme=Pace(median=2.0, p99=3.0), defaults=CONFIG,
)  # fmt: skip

Plant = Callable[[Any, Any, int], None]
"""Changes a step's logits (B, G, K) and hop (B, A) in place (numpy), given the step's number."""


class TinyStepper:
    """A `Stepper` with one vector per row as its cache; codes, phoneme, age, position and prompt change its logits."""

    def __init__(self, library: str = "numpy", plant: Plant | None = None) -> None:
        draw = np.random.default_rng(7)
        shapes = {
            "hidden": (WIDTH, WIDTH),
            "code": (STREAMS, CODES + 1, WIDTH),
            "state": (CHANNELS, WIDTH),
            "age": (64, WIDTH),
            "logits": (WIDTH, STREAMS * CODES),
            "hop": (WIDTH, ADVANCES),
        }
        weights = {name: draw.standard_normal(shape) for name, shape in shapes.items()}
        weights["stay"] = np.array([3.0, 0.0, 0.0, 0.0])
        self._weights = {name: self._array(value, library) for name, value in weights.items()}
        self._library, self._plant = library, plant
        self.batches: list[int] = []
        """Number of rows of each batch."""

    @staticmethod
    def _array(value: Any, library: str) -> Any:
        if library == "numpy":
            return value
        import torch

        return torch.as_tensor(np.asarray(value))

    def begin(self, states_BNC: Any, lengths_B: Any, prompt_BPG: Any, prompt_lengths_B: Any, rules: Rules) -> None:
        self.batches.append(len(lengths_B))
        used_BP1 = np.arange(prompt_BPG.shape[1])[None, :, None] < prompt_lengths_B[:, None, None]
        heard_B1 = (np.where(used_BP1, prompt_BPG + 1, 0) / 10).sum((1, 2))[:, None]
        self._hidden = self._array(np.repeat(heard_B1, WIDTH, axis=1), self._library)
        self._states = self._array(states_BNC.astype(np.float64), self._library)
        self._sampled, self._penalised = draws(rules), penalises(rules)
        self._rules = Rules(*(self._array(field, self._library) for field in rules))

    def run(self, state: State, steps: int) -> State:
        held = State(*(self._array(field, self._library) for field in state))
        xp = array_namespace(held.codes_BG)
        for _ in range(steps):
            if bool(xp.all(complete(held, xp))):
                break
            logits_BGK, advance_BA = self._step(held, xp)
            held = advance(
                held, self._rules, logits_BGK, advance_BA, xp, sampled=self._sampled, penalised=self._penalised
            )
        return State(*(np.asarray(field) for field in held))

    def _step(self, state: State, xp: Any) -> tuple[Any, Any]:
        weights = self._weights
        fed = sum(xp.take(weights["code"][stream], state.codes_BG[:, stream], axis=0) for stream in range(STREAMS))
        fed = fed + looked_at(state, self._states, xp) @ weights["state"]
        fed = fed + xp.take(weights["age"], xp.clip(state.age_B, max=63), axis=0)
        position_B1 = xp.astype(state.position_B, xp.float64)[:, None]
        self._hidden = xp.tanh(0.7 * (self._hidden @ weights["hidden"]) + 0.5 * fed + xp.sin(position_B1))
        logits = xp.astype(self._hidden @ weights["logits"], xp.float32)
        logits_BGK = xp.reshape(logits, (-1, STREAMS, CODES))
        advance_BA = xp.astype(self._hidden @ weights["hop"] + weights["stay"], xp.float32)
        if self._plant:
            planted = np.asarray(logits_BGK).copy(), np.asarray(advance_BA).copy()
            self._plant(*planted, int(state.step_B[0]))
            logits_BGK, advance_BA = (self._array(value, self._library) for value in planted)
        return logits_BGK, advance_BA


def texts(*lengths: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Encoder states (B, N, C) float32 and lengths (B,) int64. A row's states depend only on its length."""
    states = np.zeros((len(lengths), max(lengths), CHANNELS), np.float32)
    for row, length in enumerate(lengths):
        states[row, :length] = np.random.default_rng((seed, length)).standard_normal((length, CHANNELS))
    return states, np.array(lengths, np.int64)


def start(rows: int, config: DecodingConfig) -> tuple[State, Rules]:
    """State before the first step of texts of 9 phonemes, without noise."""
    lengths = np.full(rows, 9)
    rules = make_rules(lengths, DESCRIPTION, config, lambda *sizes: np.zeros((rows, *sizes), np.float32))
    return start_state(rules, np.zeros(rows, np.int64), DESCRIPTION), rules


def stays(logits: Any, hop: Any, step: int) -> None:
    """The pointer never moves."""
    hop[:, 0] = 30.0


def silent(logits: Any, hop: Any, step: int) -> None:
    """Only silence, on one phoneme forever."""
    for stream, code in enumerate(SILENCE):
        logits[:, stream, code] = 50.0
    stays(logits, hop, step)


def loops(logits: Any, hop: Any, step: int) -> None:
    """The same three frames, on one phoneme forever."""
    logits[:, :, 4 + step % 3] = 50.0
    stays(logits, hop, step)
