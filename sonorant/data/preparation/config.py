"""The limits of a sound utterance. Knows nothing of how they are measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """What an utterance must be to be trained on, and how the accepted ones are split. Raises ValueError on a contradiction."""

    min_seconds: float
    """Shortest duration in seconds."""
    max_seconds: float
    """Longest duration in seconds."""
    min_characters_per_second: float
    """Slowest speech: characters of the spoken text, blanks included, by duration."""
    max_characters_per_second: float
    """Fastest speech, in the same measure."""
    silence_db: float
    """dB of full scale; a recording whose loudest 50 ms (RMS) stay below it is silent."""
    max_clipped: float
    """Fraction of samples at full scale above which a recording is clipped."""
    max_rejected: float
    """Fraction of rejected utterances above which preparation fails."""
    validation: float
    """Fraction of utterances, by hash of id, held out to watch training."""
    test: float
    """Fraction of utterances, by hash of id, held out for evaluation."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_seconds < self.max_seconds:
            raise ValueError(f"min_seconds ({self.min_seconds}) must be at least 0 and less than max_seconds ({self.max_seconds})")
        slow, fast = self.min_characters_per_second, self.max_characters_per_second
        if not 0 <= slow < fast:
            raise ValueError(
                f"min_characters_per_second ({slow}) must be at least 0 and less than max_characters_per_second ({fast})"
            )
        if self.silence_db >= 0:
            raise ValueError(f"silence_db ({self.silence_db}) is in dB of full scale, so less than 0")
        for name in ("max_clipped", "max_rejected", "validation", "test"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} ({getattr(self, name)}) is a fraction, from 0 to 1")
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation ({self.validation}) and test ({self.test}) leave nothing to train on; their sum must be below 1"
            )
