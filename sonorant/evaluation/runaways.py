"""How often a voice that decides while it speaks when to end ran away, and whether another attempt helped. Knows
nothing of decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sonorant.statistics import wilson_interval


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What became of sentences spoken token by token; one entry a sentence."""

    finish_reasons: tuple[str, ...]
    """What the guards said of the attempt that was kept, in small letters: well, or what went wrong."""
    attempts: tuple[int, ...]
    """How many attempts were made; 1 = the first went well, or there were no others."""

    @property
    def ran_away(self) -> tuple[bool, ...]:
        """Whether a guard had to end the first attempt."""
        return tuple(
            finish_reason != "well" or count > 1
            for finish_reason, count in zip(self.finish_reasons, self.attempts, strict=True)
        )


def summarize(decoded: Decoded) -> dict[str, Any]:
    """`{sentences, runaways, runaway_rate, runaway_rate_ci95, retries, unrecovered, finish_reasons: {name:
    sentences}}`.

    A runaway is a sentence whose first attempt a guard had to end; `retries`: attempts after the first, all together;
    `unrecovered`: sentences that did not go well in any attempt.
    """
    sentences, runaways = len(decoded.finish_reasons), sum(decoded.ran_away)
    return {
        "sentences": sentences,
        "runaways": runaways,
        "runaway_rate": round(runaways / sentences, 5),
        "runaway_rate_ci95": [round(bound, 5) for bound in wilson_interval(runaways, sentences)],
        "retries": sum(decoded.attempts) - sentences,
        "unrecovered": sum(finish_reason != "well" for finish_reason in decoded.finish_reasons),
        "finish_reasons": {
            finish_reason: decoded.finish_reasons.count(finish_reason)
            for finish_reason in sorted(set(decoded.finish_reasons))
        },
    }
