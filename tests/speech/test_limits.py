import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.speech.request import Limits
from sonorant.speech.voice import Voice
from tests.support.runtimes import Replaced


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty; give at least one word"),
        ("...", r"nothing in the text can be spoken in en-us: '\.\.\.'"),
        ("\x00\x07\x1b 😀 你好世界。Привет", "nothing in the text can be spoken"),
        ("a" * 1_000_000, "a word of more than 300 characters"),
        ("😀 " * 500_000, "nothing can be spoken in 2.... consecutive characters"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_absurd_text_gets_one_clear_error(voice: Voice, text: str, message: str) -> None:
    with pytest.raises(SonorantError, match=message) as error:
        list(voice.stream(text))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("text", ["\n\n\n\n", ".\n", "😀\n\n"], ids=repr)
def test_endless_nothing_ends(voice: Voice, text: str) -> None:
    with pytest.raises(SonorantError, match=r"nothing can be spoken in|more than 100000 characters"):
        next(voice.stream(itertools.repeat(text), limits=Limits(characters=100_000)))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            Limits(characters=1_000),
            "the text has more than 1000 characters, the maximum for one request; split the text",
        ),
        (Limits(audio_seconds=5), "the speech would be longer than 5 seconds"),
        (Limits(work_seconds=0.2), "the speech took longer than 0.2 seconds to compute"),
    ],
    ids=str,
)
def test_an_endless_text_is_stopped(voice: Voice, limits: Limits, message: str) -> None:
    heard = 0
    with pytest.raises(SonorantError, match=message):
        for chunk in voice.stream(itertools.repeat("The rain had stopped, and nobody came. "), limits=limits):
            heard += len(chunk)
    assert heard > 0
    assert heard <= limits.audio_seconds * voice.sample_rate


class Decoding(Replaced):
    decoded = 0

    def decode(self, *arrays: np.ndarray) -> Any:
        self.decoded += 1
        return self._inner.decode(*arrays)


def test_a_whole_text_beyond_the_limit_is_refused_before_anything_is_spoken(own_voice: Voice) -> None:
    counted = own_voice.runtime = Decoding(own_voice.runtime)
    with pytest.raises(SonorantError, match="more than 100 characters"):
        next(own_voice.stream("Hello there. " * 10, limits=Limits(characters=100)))
    assert counted.decoded == 0


def test_too_many_phonemes_in_one_breath(voice: Voice) -> None:
    with pytest.raises(SonorantError, match=r"a sentence of the text has \d+ phonemes, but at most 100"):
        list(voice.stream("999999999999999 " * 20, limits=Limits(piece_tokens=100)))


@pytest.mark.parametrize(
    "ends",
    [
        lambda ends: np.cumsum(np.full_like(ends, 300), axis=1),  # each token at its longest
        lambda ends: ends * 0,
        lambda ends: np.full_like(ends, -(2**63)),  # NaN converted to an integer
    ],
    ids=["longest", "none", "not a number"],
)
def test_durations_that_run_away_are_stopped_before_frames_are_computed(
    own_voice: Voice, ends: Callable[[np.ndarray], np.ndarray]
) -> None:
    right = own_voice.runtime

    def encode(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        states, sound = right.encode(*arrays)
        return states, ends(sound)

    counted = own_voice.runtime = Decoding(right, encode=encode)
    with pytest.raises(SonorantError, match="durations are out of range"):
        own_voice.say("Hello there.")
    assert counted.decoded == 0


def test_samples_that_are_no_numbers_are_refused(own_voice: Voice) -> None:
    right = own_voice.runtime
    own_voice.runtime = Replaced(right, vocode=lambda *arrays: right.vocode(*arrays) * np.float32("nan"))
    with pytest.raises(SonorantError, match="NaN"):
        own_voice.say("Hello there.")


def test_waiting_for_text_or_for_the_listener_is_no_work(voice: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    waited, read = 0.0, itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: waited + 1e-6 * next(read))  # computing takes almost no time
    monkeypatch.setattr("sonorant.speech.request.time", clock)

    def slow() -> Iterator[str]:
        nonlocal waited
        for _ in range(3):
            waited += 0.3
            yield "Hello there. "

    speech = voice.stream(slow(), limits=Limits(work_seconds=0.2))
    for _ in speech:
        waited += 0.3
    assert 0 < speech.taken.work_seconds < 0.2


@pytest.mark.parametrize("value", [0, float("nan")])
def test_a_limit_of_nothing_is_refused(value: float) -> None:
    with pytest.raises(SonorantError, match="limit audio_seconds must be above 0"):
        Limits(audio_seconds=value)
