import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.audio.arrays import Floats
from sonorant.audio.conditioning import JOINT, ConditionConfig, Conditioning, apply, measure_level, plan
from sonorant.audio.loudness import loudness, true_peak
from sonorant.files import parse_checked
from tests.audio.conftest import RATE, noisy
from tests.support.conditions import UNCONDITIONED

SPEECH = [(1.0, 1.8), (2.6, 3.2)]


def tones(seed: int = 0) -> Floats:
    """4 s of faint noise with a tone in each span of `SPEECH`."""
    samples = noisy(np.zeros(4 * RATE, np.float32), -60.0, seed)
    for start, end in SPEECH:
        time = np.arange(round(start * RATE), round(end * RATE))
        samples[time] += (0.1 * np.sin(2 * np.pi * 300 * time / RATE)).astype(np.float32)
    return samples


def test_without_steps_the_samples_are_the_same_array() -> None:
    samples = tones()
    nothing = plan(samples, RATE, SPEECH, UNCONDITIONED)
    assert apply(samples, RATE, nothing) is samples
    assert nothing == Conditioning(before=nothing.before, after=nothing.before)


def test_edges_keep_their_margin_and_every_bit_between() -> None:
    samples = tones()
    trimmed = plan(samples, RATE, SPEECH, replace(UNCONDITIONED, margin=0.25))
    assert (trimmed.start, trimmed.end) == (0.75, 3.45)
    assert np.array_equal(apply(samples, RATE, trimmed), samples[round(0.75 * RATE) : round(3.45 * RATE)])
    assert apply(samples, RATE, plan(samples, RATE, SPEECH, replace(UNCONDITIONED, margin=1.0))) is samples


def test_a_pause_is_as_long_as_asked_and_its_joint_is_not_heard() -> None:
    samples = tones()
    shortened = plan(samples, RATE, SPEECH, replace(UNCONDITIONED, longest_pause=0.3))
    heard = apply(samples, RATE, shortened)
    assert len(heard) / RATE == shortened.after.seconds == pytest.approx(4.0 - 0.5, abs=2e-4)
    (found,) = shortened.dropped
    assert SPEECH[0][1] < found[0] < found[1] < SPEECH[1][0]
    before, after = round(1.8 * RATE), round(1.4 * RATE)
    assert np.array_equal(heard[:before], samples[:before])
    assert np.array_equal(heard[-after:], samples[-after:])
    assert plan(samples, RATE, SPEECH, replace(UNCONDITIONED, longest_pause=0.8)).dropped == ()


def test_a_joint_between_two_levels_has_no_step() -> None:
    samples = np.concatenate([np.full(RATE, 0.1), np.full(RATE, -0.1)]).astype(np.float32)
    cut = replace(plan(samples, RATE, [], UNCONDITIONED), dropped=((0.75, 1.25),))
    heard = apply(samples, RATE, cut)
    assert len(heard) == len(samples) - RATE // 2 - round(JOINT * RATE)
    assert np.abs(np.diff(heard)).max() < 0.005


def test_a_voice_that_is_not_centred_leaves_silence_alone() -> None:
    samples = np.zeros(2 * RATE, np.float32)
    samples[RATE // 2 : RATE : 100] = 0.5  # glottal pulses: one polarity
    voiced = plan(samples, RATE, [(0.5, 1.0)], replace(UNCONDITIONED, remove_dc=True))
    assert voiced.dc == voiced.before.dc == voiced.after.dc == 0.0
    shifted = plan(samples + np.float32(0.02), RATE, [(0.5, 1.0)], replace(UNCONDITIONED, remove_dc=True))
    assert shifted.dc == pytest.approx(0.02, abs=1e-5) and shifted.after.dc == 0.0


@pytest.mark.parametrize("target", [-30.0, -20.0])
def test_loudness_is_brought_to_the_target(target: float) -> None:
    level = plan(tones(), RATE, SPEECH, replace(UNCONDITIONED, loudness=target))
    assert loudness(apply(tones(), RATE, level), RATE) == pytest.approx(target, abs=0.05)


def test_the_true_peak_lowers_the_gain_and_says_so() -> None:
    samples = tones()
    samples[RATE * 3 // 2] = 0.7  # a click that a limiter would bend
    level = plan(samples, RATE, SPEECH, replace(UNCONDITIONED, loudness=-14.0, true_peak=-1.0))
    heard = apply(samples, RATE, level)
    assert -1.1 < (true_peak(heard, RATE) or 0) <= -1.0
    assert (level.after.loudness or 0) < -14.5
    assert np.allclose(heard, samples * 10 ** (level.gain_db / 20), atol=1e-6)  # nothing is limited


@settings(max_examples=40, deadline=None)
@given(
    edges=st.lists(st.integers(0, 400), min_size=0, max_size=8, unique=True).map(sorted),
    margin=st.none() | st.floats(0, 0.5),
    pause=st.none() | st.floats(0.02, 1.0),
    target=st.none() | st.floats(-28, -10),
    dc=st.booleans(),
    rate=st.sampled_from([8000, 16000, 22050]),
)
def test_the_plan_alone_tells_all_that_is_heard(
    edges: list[int], margin: float | None, pause: float | None, target: float | None, dc: bool, rate: int
) -> None:
    samples = np.resize(tones(), 4 * rate)
    speech = [(a / 100, b / 100) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    config = ConditionConfig(margin=margin, longest_pause=pause, remove_dc=dc, loudness=target, true_peak=None)
    planned = plan(samples, rate, speech, config)
    heard = apply(samples, rate, planned)
    assert heard.dtype == np.float32 and np.isfinite(heard).all()
    told, found = planned.after, measure_level(heard, rate)
    assert told.seconds == found.seconds
    for name in ("loudness", "true_peak"):
        one, other = getattr(told, name), getattr(found, name)
        assert (one is None) == (other is None) and (one is None or abs(one - other) < 0.05), name
    assert parse_checked(dataclasses.asdict(planned), Conditioning, Path("manifest")) == planned
    assert told.seconds == pytest.approx(4 - planned.trimmed - planned.shortened, abs=2e-4 * (1 + len(speech)))


def test_a_limit_of_a_gain_that_is_off_is_refused() -> None:
    config = ConditionConfig(margin=0.1, longest_pause=0.5, remove_dc=True, loudness=-20.0, true_peak=-1.0)
    with pytest.raises(ValueError, match="true_peak limits"):
        replace(config, loudness=None)
