"""How a voice is asked to speak, and what its graphs make of phonemes. Knows nothing of text, and no family of voices in particular."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.guards import Verdict
from sonorant.decoding.settings import DecodingConfig
from sonorant.runtime.limits import Allowance


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a text is spoken. What concerns decoding is for voices that speak codes one after the other (family codec_lm)."""

    speaker: int = 0
    """Id of who speaks."""
    speed: float = 1.0
    """2.0 is twice as fast."""
    whole: bool = True
    """No part of a sentence is given before all of it was decoded, so that a bad attempt can be taken back; else parts come at once."""
    decoding: DecodingConfig | None = None
    """How codes are chosen; None = the voice's defaults."""
    seed: int | None = None
    """Of the noise that codes are drawn with: the same seed says the same; None = 0."""
    candidates: int = 1
    """How often each sentence is spoken, with other noise, so that the best can be taken."""
    prompt: NDArray[np.int64] | None = None
    """Codes (P, G) of a reference that the voice shall go on from."""
    lookahead: int | None = None
    """Code frames that the first part waits for behind its own; None = as many as it depends on."""


@dataclass(frozen=True)
class Synthesized:
    """What became of a batch."""

    samples: NDArray[np.float32]
    """(B, S) in -1..1, zero past each end."""
    lengths: NDArray[np.int64]
    """Samples of each row (B,)."""
    verdicts: NDArray[np.int64]
    """`Verdict` of each row (B,)."""
    attempts: NDArray[np.int64]
    """How often each row was spoken (B,)."""


class Speaking(Protocol):
    """How the graphs of one family of voices make speech of phonemes."""

    def check(self, manner: Manner) -> None:
        """Raise SonorantError where the voice cannot speak in this manner."""

    def synthesize(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> Synthesized:
        """Tokens (B, N, 3), lengths, speaker, speed (B,) -> speech; its samples may be anything at a row's end and beyond -1..1."""

    def parts(
        self, tokens: NDArray[np.int64], manner: Manner, taken: Allowance, *, first: bool
    ) -> Generator[NDArray[np.float32], None, Verdict]:
        """One piece's tokens (N, 3) -> its samples (S,) in parts of at most `taken.limits.frames` mel frames, and how it went.

        `first`: nothing was heard before, so the first part shall come soon. What is given is counted in `taken`.
        """
