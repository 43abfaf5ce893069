"""Who speaks a sentence: the recording, the vocoder or codec copying it, or a variant of the voice. Knows nothing of
how they sound."""

from __future__ import annotations

from collections.abc import Iterable

RECORDINGS, VOCODER = "recordings", "vocoder"
LABELS = {RECORDINGS: "recording", VOCODER: "copy of the recording"}
MODELS = {"acoustic": "acoustic model", "vocoder": "vocoder", "language_model": "language model", "codec": "codec"}
"""Kinds of trained models, for readers."""


def label(kind: str) -> str:
    """A kind's name for readers; a variant is called as it is."""
    return LABELS.get(kind, kind)


def ordered(kinds: Iterable[str]) -> list[str]:
    """Recordings first, then the copies, then the variants as they come."""
    found = list(kinds)
    return [kind for kind in LABELS if kind in found] + [kind for kind in found if kind not in LABELS]
