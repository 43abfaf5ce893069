"""Many clips recognised in several processes. Knows nothing of what was said in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonorant.evaluation.processes import spread
from sonorant.evaluation.recognizers import Recognizer, load_recognizer


@dataclass(frozen=True)
class Clip:
    """Sound to be recognised."""

    samples: NDArray[np.float32]
    """(S,) in -1..1."""
    rate: int
    """Hz."""

    def content(self) -> tuple[int, bytes]:
        """Equal for clips that are the same in a 16-bit file."""
        integers = np.rint(np.clip(self.samples, -1.0, 1.0) * 32767.0).astype(np.int16)
        return self.rate, hashlib.sha256(integers.tobytes()).digest()


_recognizer: Recognizer | None = None
"""Of this process; loaded once, used for every clip it is given."""


def transcribe(clips: Sequence[Clip], recognizer: str, language: str, *, processes: int | None = None) -> list[str]:
    """What the recogniser of that name hears in each clip, in order; one process a usable core, each on one thread.

    Clips of equal content are heard once. Raises SonorantError as `load_recognizer` does (so load it once before, for a clear message),
    or if a process dies.
    """
    contents = [clip.content() for clip in clips]
    different = dict(zip(contents, clips, strict=True))
    heard = spread(
        _transcribe,
        list(different.values()),
        label=f"recognise ({recognizer})",
        unit="clip",
        processes=processes,
        prepare=_load,
        arguments=(recognizer, language),
    )
    by_content = dict(zip(different, heard, strict=True))
    return [by_content[content] for content in contents]


def _load(name: str, language: str) -> None:
    global _recognizer
    _recognizer = load_recognizer(name, language)


def _transcribe(clip: Clip) -> str:
    assert _recognizer is not None
    return _recognizer.transcribe(clip.samples, clip.rate)
