"""Cases of the parity checks. Each graph receives torch's output of the preceding graph; each step receives torch's
cache."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.export.distances import Arrays
from sonorant.extras.codec_lm.decoding.state import Rules, State, make_rules
from sonorant.speech.decoding import DecodingDescription

PROMPT = 8
"""Maximum number of frames in prompts, for voices that accept them."""
SPARE = 3
"""Number of empty slots added to the step's cache, to detect a graph that reads them."""
NOTHING = 1e3
"""Value in the `SPARE` slots."""
SLOT_AXES = {"key": 3, "value": 2, "position": 1, "slot": 1}
"""Axis of the cache slots in an input, keyed by the first word of the input's name."""


@dataclass(frozen=True)
class Step:
    number: int
    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class TokenCase:
    """A batch and torch's results for it."""

    inputs: Arrays
    states: Floats
    prompt: Ints
    prompt_lengths: Ints
    prefilled: Arrays
    """Outputs of the graph `prefill`; undefined in empty slots."""
    steps: tuple[Step, ...]
    rules: Rules
    path: tuple[State, ...]
    """State before each step of greedy decoding, and after the last one."""
    codes: Ints
    """Codes (B, F, G), zeros past each row's end."""
    lengths: Ints
    frames: Floats | None
    """Output of the graph `decoder` (B, D, T), if any."""
    vocoded: NDArray[Any]
    """Input of the graph `vocoder`: frames including the source rows (B, R, T), or the codes."""
    stride: int
    """Frames of `vocoded` per code frame."""
    samples: Floats

    @property
    def batch(self) -> int:
        return len(self.lengths)

    @property
    def vocoded_lengths(self) -> Ints:
        return self.lengths * self.stride

    @property
    def tokens(self) -> int:
        return self.states.shape[1]

    def row(self, number: int) -> TokenCase:
        one, tokens, frames = slice(number, number + 1), int(self.inputs["lengths"][number]), int(self.lengths[number])
        per_frame = self.samples.shape[1] // max(1, self.codes.shape[1])
        codes, given = self.codes[one, :frames], frames * self.stride
        return TokenCase(
            inputs={name: values[one] for name, values in self.inputs.items()}
            | {"tokens": self.inputs["tokens"][one, :tokens]},
            states=self.states[one, :tokens],
            prompt=self.prompt[one],
            prompt_lengths=self.prompt_lengths[one],
            prefilled=_rows(self.prefilled, one),
            steps=tuple(Step(step.number, _rows(step.inputs, one), _rows(step.outputs, one)) for step in self.steps),
            rules=Rules(*(field[one] for field in self.rules)),
            path=tuple(State(*(field if field.ndim == 0 else field[one] for field in state)) for state in self.path),
            codes=codes,
            lengths=self.lengths[one],
            frames=None if self.frames is None else self.frames[one, :, :given],
            vocoded=codes if self.frames is None else self.vocoded[one, :, :given],
            stride=self.stride,
            samples=self.samples[one, : frames * per_frame],
        )


def _rows(arrays: Arrays, rows: slice) -> Arrays:
    return {name: values[rows] for name, values in arrays.items()}


def prompts(batch: int, number: int, description: DecodingDescription) -> tuple[Ints, Ints]:
    """Return random prompts (B, P, G) and their lengths (B,), which are 0 if the voice accepts no prompts."""
    frames = min(PROMPT, description.prompt_frames)
    random = np.random.default_rng(number)
    prompt = random.integers(0, description.codes, (batch, max(1, frames), description.codebooks))
    return prompt, (np.arange(batch) + number) % (frames + 1)


def greedy_rules(lengths: Ints, description: DecodingDescription) -> Rules:
    config = dataclasses.replace(description.defaults, temperature=0.0, repetition_penalty=1.0, advance="median")
    return make_rules(lengths, description, config, _nothing_drawn)


def _nothing_drawn(steps: int, numbers: int) -> Floats:
    raise AssertionError("greedy decoding draws no noise")


def frames_of(grid_BSG: Ints, lengths: Ints) -> Ints:
    """Return the codes (B, F, G) of a delayed grid (B, S, G), with zeros past each row's `lengths` (B,)."""
    frames, codebooks = int(lengths.max(initial=0)), grid_BSG.shape[2]
    codes = np.stack([grid_BSG[:, stream : stream + frames, stream] for stream in range(codebooks)], axis=2)
    return np.where((np.arange(frames)[None] < lengths[:, None])[..., None], codes, 0)


def padded_cache(inputs: Arrays) -> Arrays:
    """Add `SPARE` slots to the inputs of a step, marked empty and filled with `NOTHING`."""
    wider = {}
    for name, values in inputs.items():
        axis = SLOT_AXES.get(name.split("_")[0], values.ndim)
        widths = [(0, SPARE if number == axis else 0) for number in range(values.ndim)]
        wider[name] = np.pad(values, widths, constant_values=-1 if name == "slot_position" else NOTHING)
    return wider
