import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.audio.arrays import Floats
from sonorant.audio.measures import Measures, measure
from sonorant.audio.voice_activity import speech_probability
from sonorant.audio.wav import resample
from tests.audio.conftest import RATE, in_room, noisy


def measured(samples: Floats, rate: int = RATE) -> Measures:
    return measure(samples.astype(np.float32), rate, speech_probability(samples.astype(np.float32), rate))


@pytest.fixture(scope="session")
def padded(spoken: list[Floats]) -> list[Floats]:
    """The sentences at -20 dBFS, without offset, with 0.3 s at -80 dB around."""
    centred = [samples - samples.mean() for samples in spoken]
    return [noisy(np.pad(0.1 * samples / samples.std(), 5000), -80.0, number) for number, samples in enumerate(centred)]


@pytest.mark.parametrize("ratio", [5, 20, 40])
def test_planted_noise_is_measured(padded: list[Floats], ratio: int) -> None:
    for number, samples in enumerate(padded):
        speech = measured(samples)
        level = (speech.snr_db or 0) + (speech.noise_floor_db or 0)  # speech level in dB
        found = measured(noisy(samples, level - ratio, number))
        assert found.snr_db == pytest.approx(ratio, abs=2.0)
        assert found.noise_floor_db == pytest.approx(level - ratio, abs=1.5)


def test_rooms_are_ordered_by_their_reverberation_time(padded: list[Floats]) -> None:
    times = (0.0, 0.2, 0.4, 0.6, 0.8, 1.2)
    found = [np.mean([measured(in_room(samples, RATE, time)).reverberation for samples in padded]) for time in times]
    assert abs(found[1] - found[0]) < 0.05, "a dry room's is below the voice's own"
    assert all(np.diff(found[1:]) > 0.05), found
    assert found[0] < 0.33
    for time, value in zip(times[2:5], found[2:5], strict=True):
        assert value == pytest.approx(time, abs=0.2)


@pytest.mark.parametrize("rate", [6000, 8000, 11025, 16000])
@pytest.mark.parametrize("later_noise", [None, -65.0])
def test_a_recording_of_a_lower_rate_in_a_larger_file_is_told(
    padded: list[Floats], rate: int, later_noise: float | None
) -> None:
    for samples in padded[:3]:
        inside = noisy(resample(resample(samples, RATE, rate), rate, 48000), later_noise)
        pcm = np.rint(inside * 32768) / 32768
        least = 0.85 if later_noise is None else 0.6  # noise masks the quietest speech
        assert least * rate / 2 < (measured(pcm, 48000).bandwidth_hz or 0) <= 1.06 * rate / 2


@pytest.mark.parametrize("mains", [50, 60])
def test_planted_hum_rises_out_of_the_noise(padded: list[Floats], mains: int) -> None:
    for number, quiet in enumerate(padded):
        samples = noisy(quiet, -55.0, number)
        time = np.arange(len(samples)) / RATE
        line = sum(np.sin(2 * np.pi * mains * k * time) / k for k in (1, 2, 3))
        found = [measured((samples + level * line).astype(np.float32)).hum_db or 0 for level in (0, 2e-3, 6e-3, 2e-2)]
        assert found[0] < 10 and all(np.diff(found) > 0), found
        assert found[-1] - found[-2] == pytest.approx(10.5, abs=3)
        assert found[-1] > 20


@pytest.mark.parametrize("share", [0.005, 0.05])
def test_clipping_is_told_at_full_scale_and_below(padded: list[Floats], share: float) -> None:
    for samples in padded[:3]:
        ceiling = np.quantile(np.abs(samples), 1 - share)
        clipped = np.clip(samples / ceiling, -1, 1)
        full = measured(clipped)
        assert full.clipped == pytest.approx(share, rel=0.1) and full.soft_clipped == 0
        for gain in (0.9, 0.3):
            lower = measured(np.rint(gain * clipped * 32768) / 32768)
            assert lower.clipped == 0
            assert lower.soft_clipped == pytest.approx(share, rel=0.35)
        assert measured(samples).soft_clipped < 0.001
    sine = 0.3 * np.sin(2 * np.pi * 220 * np.arange(RATE) / RATE)  # broad peaks, none of them flat
    assert measured(sine).soft_clipped == 0


def test_only_the_noise_floor_follows_the_level(padded: list[Floats]) -> None:
    """Pitch follows the speed, and DC follows the offset."""
    for samples in padded[:3]:
        shifted, higher = measured(samples + 0.02), measured(resample(samples, RATE, round(RATE / 1.2)))
        assert shifted.dc == pytest.approx(0.02, abs=1e-4)
        assert (higher.pitch_hz or 0) / (shifted.pitch_hz or 1) == pytest.approx(1.2, abs=0.08)
        loud, quiet = (dataclasses.asdict(measured(gain * samples)) for gain in (1.0, 0.25))
        assert loud.pop("noise_floor_db") - quiet.pop("noise_floor_db") == pytest.approx(12.0, abs=0.2)
        assert np.allclose(loud.pop("spectrum"), quiet.pop("spectrum"), atol=1.0)
        for name, value in loud.items():
            assert value == (None if quiet[name] is None else pytest.approx(quiet[name], rel=0.05, abs=0.05)), name


def test_a_filter_moves_the_spectrum_by_as_much(padded: list[Floats]) -> None:
    samples = padded[0]
    spectrum = np.fft.rfft(samples)
    high = np.fft.rfftfreq(len(samples), 1 / RATE) > 2240  # between two bands
    dull = np.fft.irfft(np.where(high, 10 ** (-12 / 20), 1.0) * spectrum, len(samples))
    before, after = (np.array(measured(sound).spectrum) for sound in (samples, dull))
    change = after - before
    assert change[:11].mean() - change[11:].mean() == pytest.approx(12.0, abs=0.7)


SOUNDS = st.sampled_from(["silence", "constant", "noise", "impulse", "murmur", "tiny"])


@settings(max_examples=50, deadline=None)
@given(
    sound=SOUNDS, count=st.sampled_from([0, 1, 2, 79, 512, 3000, 16000, 40000]),
    rate=st.sampled_from([8000, 16000, 22050, 44100, 96000]),
)  # fmt: skip
def test_no_sound_whatever_is_measured_as_nan(sound: str, count: int, rate: int) -> None:
    noise = np.random.default_rng(count).uniform(-1, 1, count)
    swell = 0.1 + 0.1 * np.sin(np.arange(count) / rate * 2 * np.pi * 3)
    samples = {
        "silence": np.zeros(count), "constant": np.ones(count), "noise": noise, "murmur": noise * swell,
        "impulse": np.eye(1, count, count // 2)[0], "tiny": noise * 1e-7,
    }[sound].astype(np.float32)  # fmt: skip
    everywhere = np.ones(-(-count // 512), np.float32)
    for found in (measured(samples, rate), measure(samples, rate, everywhere)):
        text = json.dumps(dataclasses.asdict(found))
        assert "NaN" not in text and "Infinity" not in text
