"""Settings of token-by-token decoding, as `voice.json` keeps them."""

from dataclasses import dataclass
from typing import Literal

LARGEST = 1_000_000
"""Of any setting, so that no array overflows."""
COLDEST = 1e-6
"""Lowest temperature above 0, so that logits do not overflow."""


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Section `decoding` of params.yaml; a voice's defaults."""

    temperature: float = 0.0
    """Divides logits before a code is drawn; 0 = always the likeliest code (greedy)."""
    top_k: int = 0
    """Draw from this many of the likeliest codes; 0 = from all."""
    top_p: float = 1.0
    """Draw from the fewest codes that reach this probability (nucleus sampling, Holtzman et al. 2020); 1 = all."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of recent codes (Keskar et al. 2019, section 4.1); 1 = off."""
    repetition_window: int = 16
    """Steps for which a code counts as recent."""
    advance: Literal["median", "sample"] = "median"
    """When the pointer moves on: at the phoneme's median duration, or drawn."""
    budget: float = 2.0
    """Most frames of an utterance, as a multiple of the 99th percentile of training utterances per phoneme."""
    longest_phoneme: float = 1.5
    """Seconds on one phoneme after which the pointer is stuck."""
    longest_silence: float = 2.0
    """Seconds of continuous silence that are more than a pause."""
    longest_repeat: float = 1.0
    """Seconds of a loop of a few frames that are more than a long vowel."""
    retries: int = 2
    """How often a failed utterance is spoken again with other noise; after that the best attempt is kept."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "advance" and not abs(value) <= LARGEST:  # catches NaN too
                raise ValueError(f"{name} must be a number of at most {LARGEST}, not {value}")
        if self.advance not in ("median", "sample"):
            raise ValueError(f"advance must be median or sample, not {self.advance!r}")
        if self.temperature < 0:
            raise ValueError(f"temperature must be at least 0, not {self.temperature}")
        if 0 < self.temperature < COLDEST:
            raise ValueError(f"temperature must be 0 or at least {COLDEST}, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.repetition_penalty < 1:
            raise ValueError(f"repetition_penalty must be at least 1, not {self.repetition_penalty}")
        for name in ("top_k", "repetition_window", "retries"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        for name in ("budget", "longest_phoneme", "longest_silence", "longest_repeat"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")

    @property
    def varies(self) -> bool:
        """Whether other noise can change the result."""
        return self.advance == "sample" or (self.temperature > 0 and self.top_k != 1)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Code frames a phoneme (`^` and `$` included) of the training utterances."""

    median: float
    p99: float
    """For budgets."""


@dataclass(frozen=True, kw_only=True)
class DecodingDescription:
    """`decoding` in `voice.json`, for voices of the family codec_lm."""

    codebooks: int
    """Codes a frame; codebook g is delayed by g steps (delay pattern, Copet et al. 2023)."""
    codes: int
    """Codes of a codebook; this number means "no code"."""
    stride: int
    samples_per_frame: int
    frames_per_second: float
    silence: tuple[int, ...]
    """The codes of digital silence, one a codebook."""
    layers: int
    heads: int
    head_width: int
    advances: int
    """Classes of the pointer's advance: 0 = it stays, a = it moves by a phonemes."""
    attention: Literal["full", "sliding", "block"]
    window: int
    """Positions that sliding and block attention see."""
    prompt_frames: int
    """Most code frames of a reference; 0 = the voice takes none."""
    frames_per_phoneme: Pace
    defaults: DecodingConfig

    def __post_init__(self) -> None:
        if len(self.silence) != self.codebooks:
            raise ValueError(f"silence has {len(self.silence)} codes, the voice {self.codebooks} codebooks")
