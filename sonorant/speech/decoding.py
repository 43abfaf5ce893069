"""Settings of token-by-token decoding, as stored in `voice.json`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from sonorant.checked import Amount, Positive, Share

LARGEST = 1_000_000
"""Maximum value of any setting, so that no array overflows."""
Limited = Annotated[int, Interval(ge=0, le=LARGEST)]
Longest = Annotated[Positive, Interval(le=LARGEST)]
COLDEST = 1e-6
"""Minimum temperature above 0, so that logits do not overflow."""


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Section `decoding` of params.yaml: default decoding settings of a voice."""

    temperature: Amount = 0.0
    """Divisor of the logits before a code is sampled; 0 means always the most likely code (greedy)."""
    top_k: Limited = 0
    """Number of most likely codes to sample from; 0 means all."""
    top_p: Share = 1.0
    """Total probability of the smallest set of codes to sample from (nucleus sampling, Holtzman et al. 2020); 1 means
    all."""
    repetition_penalty: Annotated[float, Interval(ge=1, le=LARGEST)] = 1.0
    """Factor that divides positive and multiplies negative logits of recent codes (Keskar et al. 2019, section 4.1); 1
    means off."""
    repetition_window: Limited = 16
    """Number of steps for which a code counts as recent."""
    advance: Literal["median", "sample"] = "median"
    """When the phoneme pointer advances: at the phoneme's median duration, or at a sampled one."""
    budget: Longest = 2.0
    """Maximum number of frames per phoneme in an utterance, as a multiple of the 99th percentile of training
    utterances."""
    longest_phoneme: Longest = 1.5
    """Seconds on one phoneme after which the pointer counts as stuck."""
    longest_silence: Longest = 2.0
    """Maximum length in seconds of a silence that counts as a pause."""
    longest_repeat: Longest = 1.0
    """Maximum length in seconds of a loop of a few frames that counts as a long vowel."""
    retries: Limited = 2
    """Maximum number of retries of a failed utterance, each with different noise; then the best attempt is kept."""

    def __post_init__(self) -> None:
        if 0 < self.temperature < COLDEST:
            raise ValueError(f"temperature must be 0 or at least {COLDEST}, not {self.temperature}")

    @property
    def varies(self) -> bool:
        """Whether the result depends on the seed."""
        return self.advance == "sample" or (self.temperature > 0 and self.top_k != 1)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Number of code frames per phoneme (including `^` and `$`) in the training utterances."""

    median: float
    p99: float
    """99th percentile, used to compute frame budgets."""


@dataclass(frozen=True, kw_only=True)
class DecodingDescription:
    """Section `decoding` of `voice.json`, for voices of the `codec_lm` family."""

    codebooks: int
    """Number of codes per frame; codebook g is delayed by g steps (delay pattern, Copet et al. 2023)."""
    codes: int
    """Number of codes per codebook, which is also the code for "no code"."""
    stride: int
    samples_per_frame: int
    frames_per_second: float
    silence: tuple[int, ...]
    """Codes of digital silence, one per codebook."""
    layers: int
    heads: int
    head_width: int
    advances: int
    """Number of classes of the pointer's advance; class n moves it by n phonemes."""
    attention: Literal["full", "sliding", "block"]
    window: int
    """Number of positions visible to sliding and block attention."""
    prompt_frames: int
    """Maximum number of code frames in a prompt; 0 means that the voice does not support prompts."""
    frames_per_phoneme: Pace
    defaults: DecodingConfig

    def __post_init__(self) -> None:
        if len(self.silence) != self.codebooks:
            raise ValueError(f"silence has {len(self.silence)} codes, but the voice has {self.codebooks} codebooks")
