"""Gates for each speaker of a multi-speaker voice.

Few sentences per speaker mean wide intervals, so limits are wide too: they catch a speaker who babbles, which the mean
would hide.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sonorant.registry.gates import Gate, PromoteConfig, naturalness_below_recordings, wer_above_recordings
from sonorant.speech.bundle import VoiceDescription

TOO_FEW = "hold out more of them (prepare.test, recognizer.sentences)"


def judge_speakers(
    metrics: Mapping[str, Any], description: VoiceDescription, variant: str, config: PromoteConfig
) -> tuple[Gate, ...]:
    """A word gate and a naturalness gate over all speakers; empty for one speaker. `metrics`: content of
    metrics.json."""
    names, family = description.speakers, description.family
    if len(names) < 2:
        return ()
    limit, ranges = config.max_wer_above_recordings_of_a_speaker[family], config.naturalness_below_recordings[family]
    known = {row.get("speaker"): row for row in metrics.get("speakers") or () if isinstance(row, Mapping)}
    rows = {name: known.get(name) for name in names}
    return (
        _everyone("wer_above_recordings", rows, lambda row: wer_above_recordings(row, variant, limit), limit),
        _everyone("naturalness_below_recordings", rows, lambda row: naturalness_below_recordings(row, variant, ranges)),
    )


def _everyone(name: str, rows: Mapping[str, Any], judge: Callable[[Any], Gate], limit: float | None = None) -> Gate:
    """Combine the speakers' gates: fails if one fails; names those, else the one closest to the limit."""
    judged = {speaker: judge(row) if row and row.get("sentences") else _unheard(name) for speaker, row in rows.items()}
    worst = max(judged.values(), key=lambda gate: (not gate.passed, gate.interval[1] if gate.interval else 0.0))
    failed = [f"{speaker}: {gate.reason}" for speaker, gate in judged.items() if not gate.passed]
    if failed:
        few = f"; {TOO_FEW}" if any("not compared: only" in reason for reason in failed) else ""
        reason = f"{len(failed)} of {len(judged)} speakers failed: {'; '.join(failed)}{few}"
    else:
        nearest = next(speaker for speaker, gate in judged.items() if gate is worst)
        reason = f"all {len(judged)} speakers passed, such as {nearest}: {worst.reason}"
    return Gate(
        name=f"{name}_of_a_speaker",
        passed=not failed,
        reason=reason,
        value=worst.value,
        interval=worst.interval,
        limit=limit,
    )


def _unheard(name: str) -> Gate:
    return Gate(name=name, passed=False, reason="not one of their sentences was judged; run evaluate again")
