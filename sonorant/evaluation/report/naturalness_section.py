"""Section on naturalness relative to the recordings, and pitch curves."""

from collections.abc import Mapping

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.evaluation.analysis import track_pitch
from sonorant.evaluation.prosody_figures import semitones
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.evaluation.report.document import Document, label, ordered
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import Chart, ChartLine, lines

FIGURES = {
    "dnsmos_below_recordings": ("DNSMOS below the recordings'", ".2f", "0; above: worse sound, by a network's rating"),
    "speaker_below_recordings": ("speaker similarity below the recordings'", ".3f", "0; above: less like the speaker"),
    "pitch_range_ratio": ("pitch range relative to the recordings'", ".2f", "1; below: monotone, above: exaggerated"),
    "pitch_correlation": ("pitch contour, correlation", ".2f", "1; two takes by one person reach about 0.6"),
    "pitch_error_cents": ("pitch contour, error in cents", ".0f", "0; 100 is a semitone"),
    "pitch_offset_cents": ("pitch offset in cents", "+.0f", "0; above: a higher voice"),
    "energy_correlation": ("loudness, correlation", ".2f", "1; low: different stress"),
    "energy_error_db": ("loudness, error in dB", ".1f", "0; high: swallowed sounds, or all equally loud"),
    "tempo_ratio": ("tempo relative to the recordings'", ".2f", "1; above: too fast"),
    "tempo_unevenness": ("unevenness of tempo, octaves", ".2f", "low; high: too fast in places, too slow in others"),
    "pauses_per_minute": ("additional pauses per minute", "+.1f", "0; below: pauses are missing"),
    "pause_seconds_per_minute": ("additional seconds of pauses per minute", "+.1f", "0"),
    "voicing_error": ("frames voiced in only one of the two", ".3f", "0; high: hoarse or humming"),
    "pulses_db": ("pitch pulses, 3 to 7 kHz, dB above", "+.1f", "0; above: buzzy, below: metallic or hissing"),
    "harmonicity_db": ("harmonics to noise, dB above", "+.1f", "0; above: buzzy, below: rough or hoarse"),
    "noise_floor_db": ("noise in pauses, dB above", "+.1f", "0 or less; above: hiss or hum in pauses"),
    "treble_db": ("power above 4 kHz, dB above", "+.1f", "0; below: muffled, above: sharp"),
}  # fmt: skip
"""Title, number format and explanation of each metric."""
MEANING = "like the recordings"
SHORT = {RECORDINGS: "recording", VOCODER: "copy"}
CURVES = 3


def beside_recordings(metrics: Document, shipped: str) -> list[Section]:
    """Compare copies and variants with the recordings; empty if nothing was measured."""
    measured = dict(metrics["naturalness"].measured())
    kinds = [kind for kind in ordered(measured) if any(measured[kind].get(f"{key}_ci95") for key in FIGURES)]
    if not kinds:
        return []
    first = [kind for kind in kinds if kind in (VOCODER, shipped)]
    note = (
        "Each sentence compared with its recording; in brackets: paired 95 % intervals. Faults of the copy come from "
        "the waveform model; the voice's additional faults come from the model that predicts its input. Judge by all "
        "figures together; docs/quality.md explains what to do about each."
    )
    parts: list[Part] = [note, _table(measured, first, meaning=True)]
    if others := [kind for kind in kinds if kind not in first]:
        table = _table(measured, others, meaning=False)
        parts.append(Fold(summary=f"the same for {', '.join(others)}", parts=[table]))
    return [Section(anchor="beside", title="Compared with the recordings", parts=parts)]


def _table(measured: Mapping[str, Document], kinds: list[str], meaning: bool) -> Table:
    rows: list[list[Cell]] = [
        [title, *(measured[kind].estimate(key, form=form) for kind in kinds), *([means] if meaning else [])]
        for key, (title, form, means) in FIGURES.items()
        if any(measured[kind].get(key) for kind in kinds)
    ]
    prose = [MEANING] if meaning else []
    head = ["", *map(label, kinds), *prose]
    return Table(caption="Each sentence compared with its recording", head=head, rows=rows, prose=prose)


def pitch_curves(sounds: Mapping[str, Floats], rate: int) -> Chart | None:
    """Draw the pitch of sounds (S,) over time; return None if all are unvoiced."""
    drawn = list(sounds.items())[:CURVES]
    curves = [ChartLine(name=SHORT.get(kind, kind), points=_pitch(sound, rate)) for kind, sound in drawn]
    if all(np.isnan(hertz) for curve in curves for _, hertz in curve.points):
        return None
    return lines("Pitch, Hz", "seconds", curves)


def _pitch(sound: Floats, rate: int) -> tuple[tuple[float, float], ...]:
    f0_T, times_T = track_pitch(sound.astype(np.float64), rate)
    hertz_T = 100.0 * 2.0 ** (semitones(f0_T) / 12.0)
    return tuple(zip(times_T.tolist(), hertz_T.tolist(), strict=True))
