"""Section on naturalness relative to the recordings, and pitch curves."""

from collections.abc import Mapping

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.evaluation.analysis import track_pitch
from sonorant.evaluation.prosody_figures import semitones
from sonorant.evaluation.report.document import COPIES, RECORDINGS, Document, label, ordered
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import Chart, ChartLine, lines

FIGURES = {
    "dnsmos_below_recordings": ("DNSMOS below the recordings'", ".2f", "0; above: worse sound, to a network"),
    "speaker_below_recordings": ("speaker similarity below the recordings'", ".3f", "0; more: less like the speaker"),
    "pitch_range_ratio": ("range of pitch, times the recordings'", ".2f", "1; below: it drones, above: it sings"),
    "pitch_correlation": ("melody, correlation", ".2f", "1; two takes of a person reach about 0.6"),
    "pitch_error_cents": ("melody, error in cents", ".0f", "0; 100 are a semitone"),
    "pitch_offset_cents": ("pitch, offset in cents", "+.0f", "0; above: a higher voice"),
    "energy_correlation": ("loudness, correlation", ".2f", "1; low: it stresses otherwise"),
    "energy_error_db": ("loudness, error in dB", ".1f", "0; high: it swallows sounds, or weighs all alike"),
    "tempo_ratio": ("tempo, times theirs", ".2f", "1; above: it hurries"),
    "tempo_unevenness": ("unevenness of tempo, octaves", ".2f", "low; high: it hurries here and drags there"),
    "pauses_per_minute": ("pauses a minute beyond theirs", "+.1f", "0; below: it runs on"),
    "pause_seconds_per_minute": ("seconds of pauses a minute beyond theirs", "+.1f", "0"),
    "voicing_error": ("voiced where they are not, or not where they are", ".3f", "0; high: hoarse, or it hums"),
    "pulses_db": ("pitch pulses, 3 to 7 kHz, dB over theirs", "+.1f", "0; above: a buzz, below: metallic or hissing"),
    "harmonicity_db": ("harmonics over noise, dB over theirs", "+.1f", "0; above: a buzz, below: rough or hoarse"),
    "noise_floor_db": ("noise in pauses, dB over theirs", "+.1f", "0 or less; above: it hisses or hums in pauses"),
    "treble_db": ("power above 4 kHz, dB over theirs", "+.1f", "0; below: muffled, above: sharp"),
}  # fmt: skip
"""Key, title, format, explanation."""
MEANING = "like the recordings"
SHORT = {RECORDINGS: "recording", COPIES: "copy"}
"""Short labels for charts."""
CURVES = 3
"""Maximum curves per chart."""


def beside_recordings(metrics: Document, shipped: str) -> list[Section]:
    """Table of all naturalness figures; empty if there are none."""
    measured = dict(metrics["naturalness"].measured())
    kinds = [kind for kind in ordered(measured) if any(measured[kind].get(f"{key}_ci95") for key in FIGURES)]
    if not kinds:
        return []
    first = [kind for kind in kinds if kind in (COPIES, shipped)]
    note = (
        "Each sentence beside its recording; in brackets 95 % intervals, paired. What the copy lacks was lost by the "
        "model that makes the waveform, what the voice lacks beyond it by the one that predicts. One figure never "
        "decides alone; docs/quality.md says what to do about each."
    )
    parts: list[Part] = [note, _table(measured, first, meaning=True)]
    if others := [kind for kind in kinds if kind not in first]:
        table = _table(measured, others, meaning=False)
        parts.append(Fold(summary=f"the same of {', '.join(others)}", parts=[table]))
    return [Section(anchor="beside", title="Beside the recordings", parts=parts)]


def _table(measured: Mapping[str, Document], kinds: list[str], meaning: bool) -> Table:
    rows: list[list[Cell]] = [
        [title, *(_figure(measured[kind], key, form) for kind in kinds), *([says] if meaning else [])]
        for key, (title, form, says) in FIGURES.items()
        if any(measured[kind].get(key) for kind in kinds)
    ]
    prose = [MEANING] if meaning else []
    return Table(
        caption="Every sentence beside its recording", head=["", *map(label, kinds), *prose], rows=rows, prose=prose
    )


def _figure(found: Document, key: str, form: str) -> Cell:
    value = found.get(key)
    return None if value is None else (value.not_run or found.estimate(key, form))


def pitch_curves(sounds: Mapping[str, Floats], rate: int) -> Chart | None:
    """Pitch of samples (S,) over time, by kind; None if unvoiced."""
    drawn = list(sounds.items())[:CURVES]
    curves = [ChartLine(name=SHORT.get(kind, kind), points=_pitch(sound, rate)) for kind, sound in drawn]
    if all(np.isnan(hertz) for curve in curves for _, hertz in curve.points):
        return None
    return lines("Pitch, Hz", "seconds", curves)


def _pitch(sound: Floats, rate: int) -> tuple[tuple[float, float], ...]:
    f0_T, times_T = track_pitch(sound.astype(np.float64), rate)
    hertz_T = 100.0 * 2.0 ** (semitones(f0_T) / 12.0)
    return tuple(zip(times_T.tolist(), hertz_T.tolist(), strict=True))
