import numpy as np
import pytest

from sonorant.audio import voice_activity as speech
from sonorant.audio.arrays import Floats
from sonorant.audio.voice_activity import BLOCK_SECONDS, locate_speech, speech_probability, speech_spans
from sonorant.audio.wav import resample
from tests.audio.conftest import RATE, noisy

AUDIBLE = 0.002
"""Absolute value of an audible sample of flite's speech."""


def located(samples: Floats, rate: int = RATE) -> list[tuple[float, float]]:
    return locate_speech(samples, rate, speech_probability(samples, rate))


@pytest.mark.parametrize(("level_db", "late", "early"), [(None, 0.005, 0.0), (-70.0, 0.05, 0.05), (-60.0, 0.1, 0.07)])
def test_edges_are_those_of_the_sound_also_in_noise(
    spoken: list[Floats], level_db: float | None, late: float, early: float
) -> None:
    for number, samples in enumerate(spoken):
        sounding = np.flatnonzero(np.abs(samples) > AUDIBLE) / RATE
        start, end = sounding[0] + 0.5, sounding[-1] + 0.5
        spans = located(noisy(np.pad(samples, RATE // 2), level_db, number))
        assert start - 0.25 < spans[0][0] < start + late, number
        assert end - early < spans[-1][1] < end + 0.25, number


@pytest.mark.parametrize("rate", [8000, 22050, 48000])
def test_a_recording_of_another_rate_has_the_same_speech(spoken: list[Floats], rate: int) -> None:
    for samples in spoken[:3]:
        padded = noisy(np.pad(samples, RATE // 2), -60.0)
        expected, found = located(padded), located(resample(padded, RATE, rate), rate)
        late = 0.2 if rate == 8000 else 0.04  # no /s/ at a telephone's sample rate
        assert abs(found[0][0] - expected[0][0]) < late and abs(found[-1][1] - expected[-1][1]) < late


@pytest.mark.parametrize("what", ["silence", "noise", "hum", "click", "nothing", "one sample"])
def test_what_is_no_speech_is_none(what: str) -> None:
    time = np.arange(2 * RATE) / RATE
    click = np.zeros(2 * RATE)
    click[RATE : RATE + 40] = 0.8
    sounds = {
        "silence": np.zeros(2 * RATE), "noise": noisy(np.zeros(2 * RATE, np.float32), -30.0), "click": click,
        "hum": 0.1 * np.sin(2 * np.pi * 50 * time), "nothing": np.zeros(0), "one sample": np.ones(1),
    }  # fmt: skip
    samples = sounds[what].astype(np.float32)
    probability = speech_probability(samples, RATE)
    assert (probability.dtype, len(probability)) == (np.float32, -(-len(samples) // 512))
    assert locate_speech(samples, RATE, probability) == []


def test_nothing_of_one_recording_reaches_the_next(spoken: list[Floats], monkeypatch: pytest.MonkeyPatch) -> None:
    first = speech_probability(spoken[0], RATE)
    speech_probability(spoken[1], RATE)
    assert np.array_equal(speech_probability(spoken[0], RATE), first)
    monkeypatch.setattr(speech, "_BLOCKS_AT_ONCE", 7)  # long recordings are analysed in pieces
    assert np.allclose(speech_probability(spoken[0], RATE), first, atol=1e-5)


def test_probabilities_become_spans_with_hysteresis() -> None:
    probability = np.array([0, 0.4, 0.6, 0.4, 0.4, 0.9, 0, 0, 0.9, 0.9, 0.9, 0, 0, 0, 0, 0, 0.9, 0, 0, 0], np.float32)
    spans = [(start / BLOCK_SECONDS, end / BLOCK_SECONDS) for start, end in speech_spans(probability)]
    assert spans == [(2, 11)]  # a short pause is closed; a single block is a knock
    assert [start / BLOCK_SECONDS for start, _ in speech_spans(probability, 0.05)] == [2, 8]
