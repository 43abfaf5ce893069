"""Naturalness limits: a range for each figure's paired 95 % interval."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from sonorant.errors import SonorantError
from sonorant.registry.figures import entry, interval, number
from sonorant.training.intervals import check_enough

Range = tuple[float | None, float | None]
"""Minimum and maximum; None: unlimited."""
OPTIONAL = ("dnsmos_below_recordings", "speaker_below_recordings")
"""Figures of optional packages; ignored if not installed."""

COUNTS = (("utterances",), ("dnsmos", "utterances"))
"""Key paths of sentence counts."""


@dataclass(frozen=True, kw_only=True)
class NaturalnessLimits:
    """Allowed range of each figure in `naturalness.<variant>`; the whole 95 % interval must be inside. Figures:
    `docs/quality.md`."""

    dnsmos_below_recordings: Range = (None, 0.4)
    """Points of overall DNSMOS below the recordings'."""
    speaker_below_recordings: Range = (None, 0.1)
    """Speaker cosine below the recordings'."""
    pitch_range_ratio: Range = (0.6, 1.6)
    """Pitch range relative to the recordings'."""
    pitch_correlation: Range = (0.3, None)
    """Correlation with the recording's pitch."""
    pitch_offset_cents: Range = (-150.0, 150.0)
    """Median pitch difference."""
    energy_error_db: Range = (None, 8.0)
    """RMS level difference after removing the mean difference."""
    tempo_ratio: Range = (0.85, 1.2)
    """Speaking rate relative to the recordings'; above 1 is faster."""
    tempo_unevenness: Range = (None, 0.5)
    """Standard deviation of local tempo, octaves."""
    pause_seconds_per_minute: Range = (-6.0, 6.0)
    """Additional pauses inside sentences."""
    voicing_error: Range = (None, 0.3)
    """Fraction of frames voiced on one side only."""
    pulses_db: Range = (-6.0, 2.0)
    """Pulse prominence at 3 to 7 kHz relative to the recordings': above 0 buzzy, below metallic."""
    harmonicity_db: Range = (-5.0, 5.0)
    """Harmonics-to-noise ratio relative to the recordings'."""
    noise_floor_db: Range = (None, 6.0)
    """Noise floor relative to the recordings'."""
    treble_db: Range = (-6.0, 6.0)
    """Power above 4 kHz relative to the recordings'."""

    def __post_init__(self) -> None:
        for name, (low, high) in self.ranges().items():
            if low is not None and high is not None and low >= high:
                raise ValueError(f"{name} must go from a lower to a higher value, not {low} to {high}")

    def ranges(self) -> dict[str, Range]:
        """Ranges by figure in metrics.json."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def judge_naturalness(figures: Any, limits: NaturalnessLimits) -> tuple[bool, str]:
    """Whether every figure is within its range, and the reason with those that are not. Figures without a range and
    missing optional ones are skipped."""
    within: list[str] = []
    beyond: list[str] = []
    missing: list[str] = []
    absent: list[str] = []
    for name, (low, high) in limits.ranges().items():
        if low is None and high is None:
            continue
        value, bounds, instead = number(figures, name), interval(figures, f"{name}_ci95"), entry(figures, name)
        if value is not None and bounds is not None:
            kept = (low is None or bounds[0] >= low) and (high is None or bounds[1] <= high)
            words = f"{name} {value:.3g} ({bounds[0]:.3g} to {bounds[1]:.3g}, {_allowed(low, high)})"
            (within if kept else beyond).append(words)
        elif name in OPTIONAL and isinstance(instead, str):
            absent.append(f"{name} ({instead})")
        else:
            missing.append(f"{name} ({instead})" if isinstance(instead, str) else name)
    if missing:
        why = figures if isinstance(figures, str) else f"{', '.join(missing)}; run evaluate again"
        return False, f"not measured: {why}"
    without = f"; decided without {', '.join(absent)}" if absent else ""
    if not within and not beyond:
        return True, "no figure has a limit" + without
    try:
        check_enough(min((found for keys in COUNTS if (found := number(figures, *keys)) is not None), default=0))
    except SonorantError as error:
        return False, f"not compared: {error}"
    count = len(within) + len(beyond)
    if beyond:
        return False, f"{len(beyond)} of {count} figures are beyond their limits: {', '.join(beyond)}{without}"
    return True, f"all {count} figures are within their limits, such as {within[0]}{without}"


def _allowed(low: float | None, high: float | None) -> str:
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"
