from pathlib import Path

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.synthesis import token_ends
from sonorant.families.family import Family
from sonorant.plugins import load_family
from sonorant.speech.speaking import FinishReason
from sonorant.speech.streaming import PAUSE_SECONDS
from sonorant.speech.voice import Voice
from sonorant.speech.word_times import WordTiming
from tests.support.runtimes import edited, tokens_of

TEXT = "One apple, two pears. What else?\n\nIn 1984 he went away."
WORDS = ["One", "apple", "two", "pears", "What", "else", "In", "1984", "he", "went", "away"]


def samples_of(voice: Voice, words: tuple[WordTiming, ...]) -> list[list[int]]:
    edges = [[(p.start, p.end) for p in word.phonemes] for word in words]
    return [[round(second * voice.sample_rate) for pair in each for second in pair] for each in edges]


def test_the_words_of_the_text_in_order_within_the_speech(any_voice: Voice) -> None:
    samples, words = any_voice.say_timed(TEXT)
    np.testing.assert_array_equal(samples, any_voice.say(TEXT))
    assert [word.text for word in words] == WORDS
    assert [word.text for word in words if word.ends_sentence] == ["pears", "else", "away"]
    times = [
        0.0,
        *(second for word in words for second in (word.start, word.end)),
        len(samples) / any_voice.sample_rate,
    ]
    assert times == sorted(times)
    for word in words:
        assert TEXT[word.first : word.last] == word.text
        edges = [second for phoneme in word.phonemes for second in (phoneme.start, phoneme.end)]
        assert edges == sorted(edges) and (word.start, word.end) == (edges[0], edges[-1])


def test_a_stream_tells_the_same_each_word_with_the_chunk_that_completes_it(any_voice: Voice) -> None:
    _, words = any_voice.say_timed(TEXT)
    for chunk in (700, 10**9):
        speech, given, told = any_voice.stream(TEXT, chunk=chunk, timings=True), 0, []
        for samples in speech:
            before, given = given, given + len(samples)
            for word in speech.completed:
                assert round(word.end * any_voice.sample_rate) <= given
                if any_voice.description.family == "parallel":  # no word is late
                    assert round(word.end * any_voice.sample_rate) > before or word.end == 0
            told += speech.completed
        assert tuple(told) == words


def test_a_sentence_is_timed_wherever_it_stands(any_voice: Voice) -> None:
    """Checked against the samples."""
    rate, pause = any_voice.sample_rate, round(PAUSE_SECONDS * any_voice.sample_rate)
    before, _ = any_voice.say_timed("One apple, two pears.")
    samples, alone = any_voice.say_timed("What else?")
    both, words = any_voice.say_timed("One apple, two pears. What else?")
    assert len(both) == len(before) + pause + len(samples)
    shift = (len(before) + pause) / rate
    for word, own in zip(words[4:], alone, strict=True):
        np.testing.assert_allclose([word.start, word.end], [own.start + shift, own.end + shift], atol=1e-9)


def test_timings_of_the_family_parallel_are_the_durations_that_it_speaks_with(voice: Voice) -> None:
    tokens = tokens_of(voice, "One apple, two pears.").astype(np.int64)
    one = np.ones(1, np.float32)
    _, ends = voice.runtime.encode(tokens[None], np.array([len(tokens)]), np.array([1]), 1.5 * one, 2 * one, 0 * one)
    _, words = voice.say_timed("One apple, two pears.", "ben", 1.5, pitch=2.0)
    hop = voice.description.audio.hop
    edges = [[ends[0, place] * hop, ends[0, place + 1] * hop] for place in range(len(tokens) - 2)]
    spoken = [phoneme.symbol for phoneme in voice.frontend.speak("One apple, two pears.").phonemes]
    kept = [edge for edge, symbol in zip(edges, spoken, strict=True) if symbol not in ",.?!"]
    assert [sample for word in samples_of(voice, words) for sample in word] == [s for edge in kept for s in edge]


def test_timings_of_a_voice_of_codes_are_where_its_pointer_stood() -> None:
    pointers = np.array([0, 0, 1, 1, 1, 3, 4])
    assert token_ends(pointers, 6, over=True).tolist() == [2, 5, 5, 6, 7, 7]  # the third token was skipped
    assert token_ends(pointers, 6, over=False).tolist() == [2, 5, 5, 6]  # the pointer may stay on the fifth
    assert token_ends(pointers[:0], 6, over=False).tolist() == []


def test_words_that_a_runaway_did_not_reach_have_no_timing(codec_lm_bundle: Path, tmp_path: Path) -> None:
    def shorten(data: dict) -> None:
        # A step advances at most 3 phonemes, so a quarter of the steps is too few.
        quarter = 0.25 / data["decoding"]["frames_per_phoneme"]["p99"]
        data["decoding"]["defaults"].update({"budget": quarter, "retries": 0})

    bundle = edited(codec_lm_bundle, tmp_path / "voice", shorten)
    voice, text = Voice.load(bundle, threads=1), "The quick brown fox jumps over the lazy dog."
    for whole in (True, False):
        speech = voice.stream(text, whole=whole, timings=True)
        told = [(samples, speech.completed) for samples in speech]
        words = [word for _, completed in told for word in completed]
        assert speech.finish_reasons == [FinishReason.BUDGET]
        assert speech.warnings == ["sentence 1 did not go well (budget)"]
        assert [word.text for word in words] == text.rstrip(".").split()[: len(words)]
        assert len(words) < 9 and all(word.end <= sum(len(part) for part, _ in told) / 16000 for word in words)


def test_a_voice_without_timings_gives_the_reason(any_voice: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    own = load_family(any_voice.description.family)
    monkeypatch.setattr(type(own), "why_untimed", Family.why_untimed)
    why = f"voices of the family {own.name} have no word times"
    voice = Voice(any_voice.bundle, any_voice.runtime)
    assert voice.why_untimed.startswith(why)
    with pytest.raises(SonorantError, match=f"no timings: {why}"):
        voice.stream("Hello.", timings=True)
