"""Limits of the promotion gates."""

import dataclasses
from dataclasses import dataclass, field

from sonorant.checked import Level, Positive
from sonorant.plugins import family_names

Range = tuple[Level | None, Level | None]
"""Minimum and maximum; None means unlimited."""


@dataclass(frozen=True, kw_only=True)
class NaturalnessLimits:
    """Allowed range of each metric in `naturalness.<variant>` (see docs/quality.md). The whole 95 % interval must be
    inside."""

    dnsmos_below_recordings: Range = (None, 0.4)
    """Decrease in overall DNSMOS relative to the recordings."""
    speaker_below_recordings: Range = (None, 0.1)
    """Decrease in cosine speaker similarity relative to the recordings."""
    pitch_range_ratio: Range = (0.6, 1.6)
    """Pitch range relative to the recordings'."""
    pitch_correlation: Range = (0.3, None)
    """Correlation of pitch with the recording's."""
    pitch_offset_cents: Range = (-150.0, 150.0)
    """Median pitch difference from the recordings."""
    energy_error_db: Range = (None, 8.0)
    """RMS level difference after removing the median difference."""
    tempo_ratio: Range = (0.85, 1.2)
    """Speaking rate relative to the recordings'; above 1 means faster."""
    tempo_unevenness: Range = (None, 0.5)
    """Standard deviation of local tempo in octaves."""
    pause_seconds_per_minute: Range = (-6.0, 6.0)
    """Pauses inside sentences beyond the recordings', in seconds per minute."""
    voicing_error: Range = (None, 0.3)
    """Fraction of frames voiced only in the synthesis or only in the recording."""
    pulses_db: Range = (-6.0, 2.0)
    """Pulse prominence at 3 to 7 kHz relative to the recordings': above 0 sounds buzzy, below 0 metallic."""
    harmonicity_db: Range = (-5.0, 5.0)
    """Harmonics-to-noise ratio in dB relative to the recordings'."""
    noise_floor_db: Range = (None, 6.0)
    """Noise floor in dB relative to the recordings'."""
    treble_db: Range = (-6.0, 6.0)
    """Power above 4 kHz in dB relative to the recordings'."""

    def __post_init__(self) -> None:
        for name, (low, high) in self.ranges().items():
            if low is not None and high is not None and low >= high:
                raise ValueError(f"{name} must go from a lower to a higher value, not {low} to {high}")

    def ranges(self) -> dict[str, Range]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class PromoteConfig:
    """Section `promote` of params.yaml: limits that a voice must meet to become `champion`. Gates are named after their
    limits."""

    max_wer_above_recordings: dict[str, Positive] = field(default_factory=lambda: {"parallel": 4.0, "codec_lm": 6.0})
    """Maximum increase in word error rate over the recordings, in percentage points, by family."""
    max_rtf: dict[str, Positive] = field(default_factory=lambda: {"parallel": 0.02, "codec_lm": 0.1})
    """Maximum real-time factor for a medium-length sentence on one thread, by family."""
    naturalness_below_recordings: dict[str, NaturalnessLimits] = field(
        default_factory=lambda: {
            "parallel": NaturalnessLimits(),
            "codec_lm": NaturalnessLimits(pulses_db=(-13.0, 2.0)),
        }
    )
    """Allowed ranges of the naturalness metrics, by family."""
    max_faulty_short_texts: dict[str, Positive] = field(default_factory=lambda: {"parallel": 0.12, "codec_lm": 0.12})
    """Maximum fraction of short texts with a skipped, repeated or babbled word, by family."""
    max_faulty_sentences: dict[str, Positive] = field(default_factory=lambda: {"parallel": 0.25, "codec_lm": 0.25})
    """Maximum fraction of sentences with a skipped, repeated or babbled word, by family."""
    max_runaways: Positive = 0.05
    """Maximum fraction of sentences whose first decoding attempt has to be stopped (autoregressive voices)."""
    max_wer_above_recordings_of_a_speaker: dict[str, Positive] = field(
        default_factory=lambda: {"parallel": 14.0, "codec_lm": 16.0}
    )
    """Maximum increase in word error rate over each speaker's recordings, in percentage points, by family."""
    max_wer_above_champion: Positive = 4.0
    """Maximum increase in word error rate over the champion on the same sentences, in percentage points."""
    max_latency_over_champion: Positive = 1.15
    """Maximum latency relative to the champion's; both are timed alternately."""
    max_dnsmos_below_champion: Positive = 0.1
    """Maximum decrease in overall DNSMOS relative to the champion."""
    max_size_over_champion: Positive = 1.5
    """Maximum total size of the graphs relative to the champion's."""

    def __post_init__(self) -> None:
        families = set(family_names())
        for name, limits in vars(self).items():
            if isinstance(limits, dict) and set(limits) != families:
                raise ValueError(f"{name} must have a limit for each of {', '.join(family_names())}")
