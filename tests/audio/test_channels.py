import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.audio.channels import Channels, channel_finding, lag_of, live_channels, mix

RATE = 16000


def voice(seed: int, seconds: float = 2.0) -> np.ndarray:
    """Noise of speech's slope that swells and pauses, float32 (S,)."""
    count = round(seconds * RATE)
    noise = np.convolve(np.random.default_rng(seed).normal(0, 0.1, count + 31), np.hanning(32), "valid")
    time = np.arange(count) / RATE
    return (noise / 4 * np.clip(np.sin(2 * np.pi * (1.3 + 0.2 * seed) * time), 0, 1)).astype(np.float32)


HUM = (0.0004 * np.sin(2 * np.pi * 50 * np.arange(2 * RATE) / RATE)).astype(np.float32)


@pytest.mark.parametrize("dead", [np.zeros(2 * RATE, np.float32), HUM * 0.5, np.full(2 * RATE, 0.02, np.float32)])
def test_a_dead_channel_takes_nothing_from_the_level(dead: np.ndarray) -> None:
    speech = voice(1)
    for both in (np.stack([speech, dead], axis=1), np.stack([dead, speech], axis=1)):
        np.testing.assert_array_equal(mix(both), speech)
        assert channel_finding(both, RATE).kind is Channels.DEAD


def test_a_quiet_channel_is_not_dead() -> None:
    speech = voice(1)
    both = np.stack([speech, speech * 0.02], axis=1)  # 34 dB below
    np.testing.assert_allclose(mix(both), speech * 0.51, rtol=1e-5)
    assert channel_finding(both, RATE).kind is Channels.ALIKE


def test_silence_in_all_channels_and_one_channel_are_no_case() -> None:
    assert live_channels(np.zeros((100, 2), np.float32)).all()
    assert channel_finding(voice(1)[:, None], RATE).kind is Channels.ONE
    assert mix(np.zeros((0, 2), np.float32)).shape == (0,)
    assert channel_finding(np.zeros((0, 2), np.float32), RATE).kind is Channels.ALIKE


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_to_be_found(value: float) -> None:
    both = np.stack([voice(1), np.zeros(2 * RATE, np.float32)], axis=1)
    both[500, 1] = value
    assert not np.isfinite(mix(both)).all()


@pytest.mark.parametrize(
    ("second", "kind", "low", "high"),
    [
        (voice(1) * 0.5, Channels.ALIKE, 0.999, 1.0),
        (voice(1) + 0.1 * voice(2), Channels.ALIKE, 0.98, 1.0),
        (-voice(1), Channels.INVERTED, -1.0, -0.999),
        (voice(2), Channels.UNLIKE, -0.2, 0.2),
        (np.roll(voice(1), 40), Channels.UNLIKE, -0.3, 0.5),
    ],
)
@pytest.mark.parametrize("gain", [0.01, 1.0, 30.0])
def test_channels_are_compared(second: np.ndarray, kind: Channels, low: float, high: float, gain: float) -> None:
    for both in (np.stack([voice(1), second], axis=1), np.stack([second, voice(1)], axis=1)):
        finding = channel_finding(gain * both + 0.001 * gain, RATE)
        assert finding.kind is kind
        assert finding.correlation is not None and low - 1e-6 <= finding.correlation <= high + 1e-6


def test_two_who_speak_in_turn_are_unlike_in_noise_that_both_hear() -> None:
    """Pauses with the same room noise do not count."""
    room = 0.003 * np.random.default_rng(5).normal(size=300 * RATE).astype(np.float32)
    left, right = room.copy(), room.copy()
    left[: 2 * RATE] += voice(1)
    right[4 * RATE : 6 * RATE] += voice(2)
    finding = channel_finding(np.stack([left, right], axis=1), RATE)
    assert finding.kind is Channels.UNLIKE and abs(finding.correlation or 1.0) < 0.1


def test_of_three_channels_the_two_least_alike_are_named() -> None:
    finding = channel_finding(np.stack([voice(1), voice(1), voice(2), np.zeros(2 * RATE)], axis=1), RATE)
    assert finding.pair in ((0, 2), (1, 2))


@given(delay=st.integers(-700, 700), sign=st.sampled_from([-1, 1]))
def test_the_lag_of_one_channel_behind_the_other(delay: int, sign: int) -> None:
    first = voice(3)
    lag, correlation = lag_of(np.stack([first, sign * np.roll(first, delay)], axis=1), RATE)
    assert round(lag * RATE) == delay
    assert correlation * sign > 0.9
