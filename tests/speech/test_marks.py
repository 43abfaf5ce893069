from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.families.parallel.marking import marked_states, silenced
from sonorant.speech.request import Limits
from sonorant.speech.speaking import FADE_SECONDS, Marking
from sonorant.speech.streaming import Passage, marks_of, passages_of
from sonorant.speech.voice import Voice
from sonorant.text.markup import MarkedText
from sonorant.text.phrases import split_phrases


def silences(samples: np.ndarray, rate: int) -> list[float]:
    """Seconds of each stretch of zeros of at least 50 ms."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], samples == 0, [0]])))
    lengths = (edges[1::2] - edges[::2]) / rate
    return [float(length) for length in lengths if length >= 0.05]


def passages(voice: Voice, text: str) -> list[Passage]:
    marked = MarkedText([text], voice.frontend)
    marks = marks_of(voice.speaking)
    phrases = split_phrases(marked, voice.frontend, marked.given)
    return [passage for phrase in phrases for passage in passages_of(phrase, marked, voice.symbols, marks)]


def test_a_marked_pause_is_silence_of_its_length(any_voice: Voice) -> None:
    said = any_voice.say("[[pause 0.3]] One apple [[pause 0.6]] and two. [[pause 0.4]] Three [[pause 0.2]]")
    found = silences(said, any_voice.sample_rate)
    assert len(found) == 4
    for seconds, marked in zip(found, (0.3, 0.6, 0.4, 0.2), strict=True):
        assert marked - 2 * FADE_SECONDS - 0.02 <= seconds <= marked + 0.02


def test_given_phonemes_are_said_as_the_word_that_has_them(any_voice: Voice) -> None:
    word = any_voice.frontend.speak("apple").phonemes
    marks = " ".join(("", "ˈ", "ˌ")[phoneme.stress] + phoneme.symbol for phoneme in word)
    said = any_voice.say(f"One [[{marks}]] fell.")
    np.testing.assert_array_equal(said, any_voice.say("One apple fell."))
    assert len(any_voice.say("One [[m ˈi n]] fell.")) > 0


def test_ssml_says_what_plain_text_says(any_voice: Voice) -> None:
    ssml = '<speak>One <break time="200ms"/> <sub alias="apple">A</sub> &amp; two.</speak>'
    np.testing.assert_array_equal(any_voice.say(ssml), any_voice.say("One [[pause 0.2]] apple and two."))


def test_a_parallel_voice_changes_speed_within_a_sentence(voice: Voice) -> None:
    plain = "One apple and two pears fell."
    slow = '<speak>One apple <prosody rate="50%">and two</prosody> pears fell.</speak>'
    whole = f'<speak><prosody rate="50%">{plain}</prosody></speak>'
    usual, partly, all_of_it = (len(voice.say(text)) for text in (plain, slow, whole))
    assert usual < partly < all_of_it
    assert all_of_it == pytest.approx(2 * usual, rel=0.05)


def test_a_parallel_voice_changes_pitch_of_marked_words_alone(voice: Voice) -> None:
    (passage,) = passages(voice, '<speak>One apple <prosody pitch="+3st">and two</prosody> pears.</speak>')  # fmt: skip
    assert passage.marking is not None
    higher_N = passage.marking.pitch_N[1:-1]
    assert set(higher_N.tolist()) == {0.0, 3.0}
    said = [phoneme.symbol for phoneme, pitch in zip(passage.phonemes, higher_N, strict=True) if pitch]
    assert said == [phoneme.symbol for phoneme in voice.frontend.speak("and two").phonemes]
    tokens = passage.tokens_N3[None].astype(np.int64)
    zero = np.zeros(1, np.float32)
    inputs = (tokens, np.array([len(passage.tokens_N3)]), np.array([0]), zero + 1)
    states, ends = voice.runtime.encode(*inputs, zero, zero)
    higher, _ = voice.runtime.encode(*inputs, zero + 3, zero)
    marked, same_ends = marked_states(states, ends, passage.marking, 62.5)
    np.testing.assert_array_equal(same_ends, ends)
    changed = passage.marking.pitch_N > 0
    np.testing.assert_allclose(marked[0, changed], higher[0, changed], atol=1e-6)
    np.testing.assert_array_equal(marked[0, ~changed], states[0, ~changed])


def test_marked_lengths_are_kept_to_a_frame() -> None:
    ends = np.array([[2, 5, 9, 12, 20]])
    seconds = np.array([np.nan, np.nan, 0.8, np.nan, np.nan], np.float32)
    marking = Marking(np.array([1, 2, 1, 2, 2], np.float32), np.zeros(5, np.float32), seconds)
    _, changed = marked_states(np.zeros((1, 5, 4), np.float32), ends, marking, 100.0)
    np.testing.assert_array_equal(changed, [[2, 4, 84, 85, 89]])


def test_a_held_pause_is_silent_whatever_the_parts() -> None:
    samples = np.ones(4000, np.float32)
    seconds = np.array([np.nan, 0.1, np.nan], np.float32)
    marking, ends = Marking(np.ones(3, np.float32), np.zeros(3, np.float32), seconds), np.array([[10, 30, 40]])
    whole = np.concatenate(list(silenced([samples], ends, marking, 100, 16000)))
    parts = np.concatenate(list(silenced(np.array_split(samples, 7), ends, marking, 100, 16000)))
    np.testing.assert_array_equal(whole, parts)
    fade = round(FADE_SECONDS * 16000)
    assert (whole[1000 + fade : 3000 - fade] == 0).all()
    assert (whole[:1000] == 1).all() and (whole[3000:] == 1).all()
    assert (whole[1000:1880] / whole[1080:1960] < 10 ** (12 / 20)).all()  # 12 dB in 5 ms


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '<speak>a <prosody rate="80%">b</prosody></speak>',
            r"<prosody>: this voice speaks at its own pace .*: leave out the rate",
        ),
        (
            '<speak>a <prosody pitch="+2st">b</prosody></speak>',
            r"<prosody>: this voice does not support a given pitch .*: leave out the pitch",
        ),
    ],
)
def test_a_voice_of_codes_names_what_it_cannot_do_before_it_speaks(codec_lm_bundle: Path, text: str, line: str) -> None:
    voice = Voice.load(codec_lm_bundle, threads=1)
    with pytest.raises(SonorantError, match=f"^SSML line 1, column 10: {line}"):
        next(voice.stream(text))


@pytest.mark.parametrize(
    ("text", "how", "line"),
    [
        ('<speak><prosody rate="50%">b</prosody></speak>', {"speed": 0.9}, "the rate makes the total speed 0.45"),
        ('<speak><prosody pitch="+8st">b</prosody></speak>', {"pitch": 5.0}, r"the total pitch is \+13.0 semitones"),
    ],
)
def test_marks_and_manner_together_stay_within_what_a_voice_can_do(
    voice: Voice, text: str, how: dict[str, Any], line: str
) -> None:
    with pytest.raises(SonorantError, match=line):
        voice.say(text, **how)


def test_marked_pauses_count_as_speech(voice: Voice) -> None:
    with pytest.raises(SonorantError, match=r"^the speech would be longer than"):
        voice.say("One. [[pause 60]] Two. [[pause 60]] Three.", limits=Limits(audio_seconds=100.0))
    with pytest.raises(SonorantError, match=r"^the text is empty"):
        voice.say("[[pause 1]]")
