import itertools
import json
import logging
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.serving.request import ServedRequest
from sonorant.speech.request import Limits, SpeechRequest
from sonorant.speech.speaking import fade
from sonorant.speech.streaming import CHUNK, PARAGRAPH_SECONDS, PAUSE_SECONDS, _faded
from sonorant.speech.voice import Voice
from tests.conftest import ROOT
from tests.support.runtimes import Replaced, joined, tokens_of

TOLERANCE = 1e-5
"""Fraction of full scale; ONNX Runtime's rounding by shape is a tenth of it."""
SENTENCE = (
    "When the rain had stopped at last, the children ran out into the garden, where the old dog was already waiting "
    "for them beside the gate, and nobody thought of going home before the lamps were lit."
)
TEXTS = ("No.", "Hello there.", SENTENCE, f"{SENTENCE} Really? It cost $3.50!\n\nThe end", "word " * 150)


def count_frames(voice: Voice) -> list[int]:
    """A list of the number of frames of each decoder and vocoder call."""
    right, frames = voice.runtime, []

    def decode(states: np.ndarray, ends: np.ndarray, time: np.ndarray) -> np.ndarray:
        frames.append(len(time))
        return right.decode(states, ends, time)

    def vocode(mel: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        frames.append(mel.shape[2])
        return right.vocode(mel, lengths)

    voice.runtime = Replaced(right, decode=decode, vocode=vocode)
    return frames


@pytest.mark.parametrize("text", TEXTS)
def test_streamed_equals_one_shot(voice: Voice, text: str) -> None:
    whole = voice.say(text, "ben", 1.3)
    for chunk in (997, CHUNK, 10**9):
        chunks = list(voice.stream(text, "ben", 1.3, chunk=chunk))
        assert {len(part) for part in chunks[:-1]} <= {chunk} and 0 < len(chunks[-1]) <= chunk
        np.testing.assert_allclose(joined(chunks), whole, rtol=0, atol=TOLERANCE)


def test_streamed_equals_the_graphs_run_once(voice: Voice) -> None:
    tokens = tokens_of(voice, SENTENCE)
    whole = voice.synthesize(tokens[None], np.array([len(tokens)]), np.array([0]), np.ones(1, np.float32)).samples
    for frames in (20, 150, 10_000):
        parts = joined(voice.stream(SENTENCE, limits=Limits(frames=frames)))
        np.testing.assert_allclose(parts, whole[0], rtol=0, atol=TOLERANCE)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.text(st.sampled_from('aeo tn.?!,\n-3$ ()"\u2014é你'), min_size=1, max_size=120),
    st.integers(1, 9000),
    st.integers(0, 99),
)
def test_any_text_in_any_fragments_is_the_same_speech(voice: Voice, text: str, chunk: int, seed: int) -> None:
    try:
        whole = voice.say(text)
    except SonorantError as error:
        with pytest.raises(SonorantError) as streamed:
            joined(voice.stream(text, chunk=chunk))
        assert str(streamed.value) == str(error)
        return
    fragments, place, rng = [], 0, random.Random(seed)
    while place < len(text):
        step = rng.randint(1, 20)
        fragments.append(text[place : place + step])
        place += step
    np.testing.assert_allclose(joined(voice.stream(fragments, chunk=chunk)), whole, rtol=0, atol=TOLERANCE)


def test_sentences_are_joined_with_pauses_and_phrases_without(voice: Voice) -> None:
    one, two = voice.say("One apple."), voice.say("Two pears.")
    for seconds, text in (
        (PAUSE_SECONDS, "One apple. Two pears."),
        (PARAGRAPH_SECONDS, "One apple.\n\nTwo pears."),
        (PARAGRAPH_SECONDS, "<speak><p><s>One apple.</s></p><p>Two pears.</p></speak>"),
        (PAUSE_SECONDS, "<speak><s>One apple.</s><s>Two pears.</s></speak>"),
    ):
        both = voice.say(text)
        assert len(both) == len(one) + round(seconds * voice.sample_rate) + len(two)
        np.testing.assert_array_equal(both[: len(one)], one)
        np.testing.assert_array_equal(both[-len(two) :], two)
    long = joined(voice.stream(", ".join(["and nobody came to the garden"] * 20)))
    assert all(part.any() for part in np.split(long, range(240, len(long), 240)))


@pytest.mark.parametrize("pause", [1, 800, 2400])
def test_a_voices_noise_neither_stops_nor_starts_at_once(pause: int) -> None:
    """At most 12 dB in 5 ms, in samples of 16 bits."""
    noise = np.random.default_rng(0).normal(0.0, 10 ** (-50 / 20), 10_000).astype(np.float32)
    parts = np.array_split(noise, 3)
    samples = joined(_faded(iter([pause, *parts, pause, *parts, pause]), fade(16_000)))
    assert len(samples) == 3 * pause + 20_000
    np.testing.assert_array_equal(samples[pause : pause + 10_000], noise)
    blocks = np.round(samples[: len(samples) // 80 * 80] * 32768).reshape(-1, 80)
    levels = 10 * np.log10((blocks**2).mean(axis=1) + 0.1)
    assert np.abs(np.diff(levels)).max() < 12.0


def test_computes_and_reads_no_more_than_is_asked_for(own_voice: Voice) -> None:
    frames, read = count_frames(own_voice), []

    def endless() -> Iterator[str]:
        for number in itertools.count():
            read.append(f"Sentence {number} ends here. ")
            yield read[-1]

    stream = own_voice.stream(endless())
    next(stream)
    first = len(read)
    assert first <= 2
    assert max(frames) < 150
    for _ in range(50):
        next(stream)
    assert len(read) > first
    done = (len(read), len(frames))
    stream.close()
    assert list(stream) == []
    assert (len(read), len(frames)) == done


def test_unknown_characters_are_told_once_and_when_they_come(voice: Voice, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stream = voice.stream("Hello 你 there. Fine.\n\n😀\x1b\n\nAnd 你 again.")
        samples = joined(stream)
    assert list(stream.unknown) == ["你", "😀", "\x1b"]
    assert [record.getMessage().count("你") for record in caplog.records] == [1, 0]
    assert caplog.records[1].getMessage().endswith(r": \U0001f600 (😀) \x1b")
    assert len(samples) == len(joined(voice.stream("Hello there. Fine.\n\nAnd again.")))


def test_lines_are_sentences_where_asked_and_in_serving(voice: Voice) -> None:
    text = "Milk\nEggs\nBread"
    lines = voice.stream(text, lines=True)
    assert len(joined(lines)) > len(joined(voice.stream(text))) and len(lines.finish_reasons) == 3
    assert ServedRequest(text=text).lines and not SpeechRequest(text=text).lines


@pytest.mark.long
def test_twelve_thousand_words_take_no_more_memory_than_six_thousand(voice_bundle: Path) -> None:
    """MiB of a separate process above its use after sentences of every length."""
    program = r"""
import json, re, sys
from pathlib import Path
from sonorant.speech import Voice

def text(words):
    for number in range(words // 10):
        yield f"Nobody came to the {['quay', 'mill', 'lake', 'town', 'hill'][number % 5]} on day {number} of it. "

def peak_mib():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024

voice = Voice.load(sys.argv[1], threads=1)
peaks = []
for words in (1_000, 6_000, 12_000):
    seconds = sum(map(len, voice.stream(text(words)))) / voice.sample_rate
    peaks.append(peak_mib())
print(json.dumps([peaks, seconds]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(voice_bundle)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (_, before, after), seconds = json.loads(done.stdout)
    assert seconds > 600  # 38 MB of float32 samples
    assert after - before < 8, (before, after)
