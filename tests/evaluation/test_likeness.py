import csv
from typing import Any

import numpy as np
import pytest

from sonorant.audio.dnsmos import installed, rate_clip
from sonorant.audio.recognizers import Clip
from sonorant.audio.wav import read_audio
from sonorant.evaluation.likeness import Sounds, Weighted, compare, compare_sentences, paired_below, summarize
from sonorant.evaluation.naturalness import DNSMOS_BELOW
from sonorant.evaluation.prosody_figures import compare_energy, compare_pitch, semitones, unevenness
from sonorant.registry import PromoteConfig
from tasks.params import load
from tests.evaluation.faults import FAULTS, copied
from tests.support.imports import ROOT

RATE = 16_000
LIMITS = load("promote", PromoteConfig, ROOT / "params.yaml").naturalness_below_recordings["parallel"].ranges()
SENTENCES = 4
Figures = dict[str, object]


def person() -> list[np.ndarray]:
    """Sentences of one person, spread over the corpus."""
    folder = (ROOT / "../shared/data/kathleen").resolve()
    if not folder.is_dir():
        pytest.skip("the recordings of a person (kathleen) are absent")
    with (folder / "metadata.csv").open(encoding="utf-8", newline="") as file:
        names = [row[0] for row in csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE)]
    return [read_audio(folder / "wavs" / f"{name}.flac", RATE)[0] for name in names[7 :: len(names) // SENTENCES]]


@pytest.fixture(scope="module", params=["flite", "person"])
def speech(request: pytest.FixtureRequest) -> list[np.ndarray]:
    if request.param == "person":
        return person()
    return [clip.samples for clip in request.getfixturevalue("clips") if isinstance(clip, Clip)]


def figures(spoken: list[np.ndarray], recorded: list[np.ndarray]) -> Figures:
    pairs = [compare(ours, theirs, RATE) for ours, theirs in zip(spoken, recorded, strict=True)]
    return summarize([pair.figures for pair in pairs])


def dnsmos(spoken: list[np.ndarray]) -> np.ndarray:
    return np.array([rate_clip((np.float32(samples), RATE))[0] for samples in spoken])


def beyond(found: Figures) -> set[str]:
    """Figures whose interval is entirely outside the limit."""
    names = set()
    for name, (low, high) in LIMITS.items():
        bounds: Any = found.get(f"{name}_ci95")
        if bounds and ((low is not None and bounds[1] < low) or (high is not None and bounds[0] > high)):
            names.add(name)
    return names


def test_the_set_finds_every_planted_fault_and_no_figure_finds_them_all(speech: list[np.ndarray]) -> None:
    found, own = {}, dnsmos(speech) if installed() else None
    for fault, plant in (FAULTS | {"none": copied}).items():
        spoken = [np.asarray(plant(samples, RATE)) for samples in speech]
        rated = {} if own is None else paired_below(dnsmos(spoken), own, DNSMOS_BELOW)
        found[fault] = beyond(figures(spoken, speech) | rated)
    assert found.pop("none") == set(), "WORLD's copy is good"
    assert [fault for fault, names in found.items() if not names] == [], found
    for name in LIMITS:
        assert any(name not in names for names in found.values()), f"{name} alone would do"


def test_a_recording_is_like_itself_however_loud(clips: list[Clip]) -> None:
    recorded = [np.asarray(clip.samples) for clip in clips]
    same = figures([np.float32(0.5) * samples for samples in recorded], recorded)
    for name in [name for name in same if not name.endswith("_ci95")]:
        neutral = 1.0 if name.endswith(("_ratio", "_correlation")) else 0.0
        assert same[name] == pytest.approx(neutral, abs=1e-3), name


def test_several_processes_compare_as_one_and_silence_has_words_in_place_of_figures(clips: list[Clip]) -> None:
    first, second = (np.float32(clip.samples) for clip in clips[:2])
    found = compare_sentences([Sounds({"other": second}, first, RATE)] * 2)
    assert found == {"other": [compare(second, first, RATE)] * 2}
    silent = summarize([compare(np.zeros(RATE), np.zeros(RATE), RATE).figures] * 3)
    assert silent["pitch_correlation"] == "not run: only 0 of 3 sentences have a value"
    assert silent["noise_floor_db"] == 0.0


def test_a_sound_too_short_for_a_frame_is_compared_all_the_same() -> None:
    brief = compare(np.full(100, 0.1), np.full(100, 0.1), RATE)
    assert np.isfinite(brief.distance.distortion)


def test_slips_by_an_octave_are_taken_back_and_a_step_stays() -> None:
    pitch = np.array([0.0, 200, 210, 100, 205, 410, 190, 290, 0])
    found = semitones(pitch)
    assert np.isnan(found[[0, -1]]).all()
    expected = [200, 210, 200, 205, 205, 190, 290]  # the last is six semitones up
    assert found[1:-1] == pytest.approx(12 * np.log2(np.array(expected) / 100))


def test_a_melody_is_compared_without_its_offset_and_a_monotone_follows_none() -> None:
    melody = 10 + 3 * np.sin(np.arange(60) / 5)
    assert compare_pitch(melody + 2, melody) == pytest.approx((1.0, 0.0, 200.0))
    follows, error, _ = compare_pitch(np.full(60, 10.0), melody)
    assert follows == 0 and error > 150
    assert np.isnan(compare_pitch(np.where(np.arange(60) < 50, np.nan, melody), melody)).all(), "ten frames are too few"
    assert compare_energy(melody - 7, melody) == pytest.approx((1.0, 0.0)), "loudness is no fault"
    assert compare_energy(-melody, melody)[0] == pytest.approx(-1.0)


def test_an_even_stretch_is_even_and_jerks_are_not() -> None:
    frames = np.arange(200)
    speech = np.ones(200, dtype=bool)
    assert unevenness(2 * frames, frames, speech) == pytest.approx(0.0, abs=1e-9)
    jerks = np.cumsum(np.where(frames // 25 % 2 == 0, 2, 1))
    assert unevenness(jerks, frames, speech) > 0.3
    assert np.isnan(unevenness(frames, frames, frames < 10)), "too little speech"


def test_a_ratio_is_of_sums_and_a_figure_needs_half_of_the_sentences() -> None:
    parts = [Weighted(2.0, 1.0), Weighted(1.0, 3.0), Weighted(float("nan"))]
    found = summarize([{"figure": part} for part in parts])
    assert found["figure"] == 1.25 and found["figure_ci95"] == [1.0, 2.0]
    few = summarize([{"figure": part} for part in [*parts, *[Weighted(float("nan"))] * 2]])
    assert few == {"figure": "not run: only 2 of 5 sentences have a value"}
