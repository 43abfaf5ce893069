"""Many clips recognised in several processes. Knows nothing of what was said in them."""

from __future__ import annotations

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


_recognizer: Recognizer | None = None
"""Of this process; loaded once, used for every clip it is given."""


def transcribe(clips: Sequence[Clip], recognizer: str, language: str, *, processes: int | None = None) -> list[str]:
    """What the recogniser of that name hears in each clip, in order; one process a usable core, each on one thread.

    Raises SonorantError as `load_recognizer` does (so load it once before, for a clear message), or if a process dies.
    """
    return spread(
        _transcribe,
        clips,
        label=f"recognise ({recognizer})",
        unit="clip",
        processes=processes,
        prepare=_load,
        arguments=(recognizer, language),
    )


def _load(name: str, language: str) -> None:
    global _recognizer
    _recognizer = load_recognizer(name, language)


def _transcribe(clip: Clip) -> str:
    assert _recognizer is not None
    return _recognizer.transcribe(clip.samples, clip.rate)
