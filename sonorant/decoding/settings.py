"""How tokens are chosen and when they must end; what a decoder must know of a voice. Knows nothing of arrays, or of
what runs the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LARGEST = 1_000_000
"""Of any setting: beyond it nothing has a meaning, and arrays of fixed types would turn it into something else."""
COLDEST = 1e-6
"""Lowest temperature but 0: logits that are divided by less may leave the numbers there are."""


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Section `decoding` of the params, kept in a voice's bundle as its defaults."""

    temperature: float
    """Logits are divided by it before a code is drawn; 0 = always the likeliest code (greedy)."""
    top_k: int
    """Codes are drawn from so many of the likeliest; 0 = from all."""
    top_p: float
    """Codes are drawn from the fewest likeliest whose probabilities reach this sum (nucleus sampling, Holtzman et al.
    2020); 1 = all."""
    repetition_penalty: float
    """Logits of recent codes are divided (positive) or multiplied (negative) by it (Keskar et al. 2019, section 4.1); 1
    = none."""
    repetition_window: int
    """Steps for which a code counts as recent."""
    advance: Literal["median", "sample"]
    """When the pointer moves on: where half of all such phonemes would have ended, or drawn."""
    budget: float
    """An utterance ends at the latest after so many times the frames that 99 of 100 training utterances of its phonemes
    would take."""
    longest_phoneme: float
    """Seconds on one phoneme after which the pointer is stuck."""
    longest_silence: float
    """Seconds of silence in a row that are more than a pause."""
    longest_repeat: float
    """Seconds in which a few frames come again and again that are more than a long vowel."""
    retries: int
    """How often an utterance is spoken anew, with other noise, before the best attempt is taken as it is."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "advance" and not abs(value) <= LARGEST:  # NaN is not either
                raise ValueError(f"{name} must be a number of at most {LARGEST}, not {value}")
        if self.temperature < 0:
            raise ValueError(f"temperature must be at least 0, not {self.temperature}")
        if 0 < self.temperature < COLDEST:
            raise ValueError(f"temperature must be 0 or at least {COLDEST}, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.repetition_penalty < 1:
            raise ValueError(f"repetition_penalty must be at least 1, not {self.repetition_penalty}")
        if self.advance not in ("median", "sample"):
            raise ValueError(f"advance must be median or sample, not '{self.advance}'")
        for name in ("top_k", "repetition_window", "retries"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        for name in ("budget", "longest_phoneme", "longest_silence", "longest_repeat"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")

    @property
    def varies(self) -> bool:
        """Whether other noise may say a text another way."""
        return self.advance == "sample" or (self.temperature > 0 and self.top_k != 1)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Code frames a phoneme (`^` and `$` included), over the training utterances: each utterance's frames by its
    phonemes."""

    median: float
    """Half of the utterances are faster."""
    p99: float
    """99 of 100 utterances are faster; budgets go by it."""


@dataclass(frozen=True, kw_only=True)
class DecodingDescription:
    """What a decoder must know of a voice of the family codec_lm; `decoding` in `voice.json`."""

    codebooks: int
    """Codes a frame; stream g comes g steps later than the first (delay pattern, Copet et al. 2023)."""
    codes: int
    """Codes of a stream; the number itself stands for "no code"."""
    stride: int
    """Mel frames a code frame."""
    samples_per_frame: int
    """Samples a code frame."""
    frames_per_second: float
    """Code frames a second."""
    silence: tuple[int, ...]
    """The codes of digital silence, one a stream."""
    layers: int
    """Of the transformer."""
    heads: int
    """Of an attention."""
    head_width: int
    """Channels of a head."""
    text: Literal["pointer", "prefix", "both"]
    """How the model knows the text: by the phoneme that a pointer stands on, by phonemes before the first frame, or by
    both."""
    advances: int
    """Classes of how far the pointer moves: 0 = it stays, the last = by so many phonemes."""
    attention: Literal["full", "sliding", "block"]
    """How far back a position sees."""
    window: int
    """Positions that sliding and block attention see."""
    prompt_frames: int
    """Code frames of a reference that the voice may be shown; 0 = it takes none."""
    frames_per_phoneme: Pace
    """How fast the voice speaks."""
    defaults: DecodingConfig
    """How it is decoded where nothing else is asked for."""

    def __post_init__(self) -> None:
        if len(self.silence) != self.codebooks:
            raise ValueError(f"silence has {len(self.silence)} codes, the voice {self.codebooks} codebooks")
