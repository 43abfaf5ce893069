"""What may go wrong with speech that is made token by token, and how it is noticed while it goes wrong. Knows nothing of what follows."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """How an utterance went: what went wrong first."""

    WELL = 0
    """The pointer left the text's last phoneme in time."""
    BUDGET = 1
    """It was cut where its budget ended."""
    STUCK = 2
    """The pointer stood on one phoneme for too long and was pushed on."""
    SILENCE = 3
    """Silence longer than a pause."""
    REPETITION = 4
    """The same few frames again and again."""
