"""What a voice's graphs make of phonemes, whole or in parts. Knows nothing of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.runtime.bundle import VoiceDescription
from sonorant.runtime.limits import Allowance
from sonorant.runtime.parts import decode_parts, speak, vocode_parts
from sonorant.runtime.runtimes import Runtime

SLOWEST, FASTEST = 0.5, 2.0
"""Speeds beyond these sound like no voice."""
FIRST_FRAMES = (32, 96, 256)
"""Mel frames of the first parts: first speech comes soon, and each part is heard for longer than the next takes to compute."""
BATCH_FRAMES = 8192
"""Mel frames that `synthesize` computes at once, all rows together."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a text is spoken."""

    speaker: int = 0
    """Id of who speaks."""
    speed: float = 1.0
    """2.0 is twice as fast."""


class Speaking(Protocol):
    """How the graphs of one family of voices make speech of phonemes."""

    def check(self, manner: Manner) -> None:
        """Raise SonorantError where the voice cannot speak in this manner."""

    def synthesize(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Tokens (B, N, 3), lengths, speaker, speed (B,) -> samples (B, S), any at a row's end, and their lengths (B,)."""

    def parts(
        self, tokens: NDArray[np.int64], manner: Manner, taken: Allowance, *, streamed: bool, first: bool
    ) -> Iterator[NDArray[np.float32]]:
        """One piece's tokens (N, 3) -> its samples (S,) in parts, each of at most `taken.limits.frames` mel frames.

        `streamed`: parts are heard as they come; `first`: and nothing was heard before. What is heard is counted in `taken`.
        """


@dataclass(frozen=True)
class ParallelSpeaking:
    """All frames of an utterance are known at once: encoder, decoder, vocoder."""

    runtime: Runtime
    description: VoiceDescription

    def check(self, manner: Manner) -> None:
        """Raise SonorantError if the speed is none."""
        if not SLOWEST <= manner.speed <= FASTEST:
            raise SonorantError(f"speed must be {SLOWEST} to {FASTEST}, not {manner.speed}")

    def synthesize(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Speak a batch, as `Speaking.synthesize`."""
        states, ends = self.runtime.encode(tokens, lengths, speaker, speed)
        samples = speak(self.runtime, states, ends, self.description.context, BATCH_FRAMES)
        return samples, ends[:, -1] * self.description.audio.hop

    def parts(
        self, tokens: NDArray[np.int64], manner: Manner, taken: Allowance, *, streamed: bool, first: bool
    ) -> Iterator[NDArray[np.float32]]:
        """Speak a piece, as `Speaking.parts`."""
        speaker, speed = np.array([manner.speaker]), np.array([manner.speed], np.float32)
        states, ends = self.runtime.encode(tokens[None], np.array([len(tokens)]), speaker, speed)
        frames = ends[:, -1]
        seconds = int(frames[0]) * self.description.audio.hop / self.description.audio.sample_rate
        taken.check_durations(seconds * manner.speed, len(tokens))
        taken.take_audio(seconds)
        most, context = taken.limits.frames, self.description.context
        sizes = (*(min(size, most) for size in FIRST_FRAMES if streamed and first), most)
        mel = decode_parts(self.runtime, states, ends, context.decoder, (sizes[0] + context.vocoder, *sizes[1:]))
        for samples in vocode_parts(self.runtime, mel, frames, context.vocoder, sizes):
            yield samples[0]
