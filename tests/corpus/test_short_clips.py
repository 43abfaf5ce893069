from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sonorant.audio.mel import MelConfig
from sonorant.audio.wav import write_wav
from sonorant.corpus.audit.findings import Audited, AuditedWord, Fault, write_audit
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.short_clips import ShortClip, choose, cut, phonemes_of, read_short_clips
from sonorant.errors import SonorantError
from sonorant.features.feature_store import FeatureStore
from sonorant.features.feature_writer import write_features
from sonorant.text import SymbolTable, TextConfig, load_frontend
from tasks.params import load
from testbed.synthetic_corpus import store_beside
from tests.support.imports import ROOT

RATE = 16000
AUDIO = load("audio", MelConfig, ROOT / "params.yaml")
WORD, GAP, MARGIN = 0.4, 0.2, 0.3
"""Seconds of each word, pause and edge in `speak`."""
TEXT = "Yes, old friend, we will go."


def spoken(id: str, text: str = TEXT, split: str = "train") -> Utterance:
    words = text.replace(",", "").replace(".", "").lower()
    return Utterance(
        id=id, audio=f"{id}.wav", text=text, speaker="s", language="en-us", spoken=words, seconds=3.0, split=split
    )


def audited(utterance: Utterance, gaps: dict[int, float] | None = None, fault: Fault | None = None) -> Audited:
    """Words of `WORD` seconds, with pauses `gaps` after some words."""
    words, time = [], MARGIN
    for place, text in enumerate(str(utterance.spoken).split()):
        words.append(AuditedWord(text=text, start=time, end=time + WORD, doubt=0.0))
        time += WORD + (gaps or {}).get(place, 0.0)
    return Audited(
        id=utterance.id, clip="", score=0.0, fault=fault, words=tuple(words), unexplained=(), heard={}, figures={}
    )


def speak(utterance: Utterance, gaps: dict[int, float], seed: int = 0) -> np.ndarray:
    """Each word as its own tone in faint noise."""
    row = audited(utterance, gaps)
    samples = np.random.default_rng(seed).normal(0, 1e-4, round((row.words[-1].end + MARGIN) * RATE))
    for place, word in enumerate(row.words):
        time = np.arange(round(WORD * RATE)) / RATE
        first = round(word.start * RATE)
        samples[first : first + len(time)] += 0.3 * np.sin(2 * np.pi * 300 * (place + 1) * time)
    return samples.astype(np.float32)


def test_words_between_pauses_are_chosen_and_of_each_utterance_one() -> None:
    one, two, three = (spoken(name) for name in ("one", "two", "three"))
    rows = {
        "one": audited(one, {0: 0.1, 2: 0.2}),
        "two": audited(two, {0: 0.3}),
        "three": audited(three),
    }
    clips = {clip.utterance.id: clip for clip in choose([one, two, three], rows, share=1.0)}
    assert clips.keys() == {"one", "two"}, "the words of the third flow into each other"
    assert clips["two"].words == slice(0, 1) and clips["two"].before is None
    assert clips["two"].after == pytest.approx((0.7, 1.0)) and clips["two"].id == "two words 1 to 1"
    assert clips["one"].words == slice(0, 3), "its pause is longer than that after the first word"
    assert [clip.utterance.id for clip in choose([one, two, three], rows, share=0.4)] == ["two"], "the longest pause"
    assert choose([one, two, three], rows, share=0.0) == []


def test_what_is_doubtful_held_out_or_too_short_is_not_cut_out() -> None:
    utterance = spoken("u")
    good = audited(utterance, {0: 0.3})
    doubtful = replace(good, words=(replace(good.words[0], doubt=0.9), *good.words[1:]))
    short = replace(good, words=(replace(good.words[0], start=0.6), *good.words[1:]))
    held_out = spoken("held", text="Yes.", split="test")
    for row, others in ((doubtful, []), (short, []), (replace(good, fault=Fault.OTHER_TEXT), []), (good, [held_out])):
        chosen = choose([utterance, *others], {"u": row}, share=1.0)
        assert slice(0, 1) not in [clip.words for clip in chosen]
    assert choose([spoken("u", split="validation")], {"u": good}, share=1.0) == []
    single = spoken("u", text="Yes.")
    assert choose([single], {"u": audited(single)}, share=1.0) == [], "the whole utterance is no clip of it"


def test_the_cut_is_made_in_the_pause_and_has_the_rooms_silence_around_it() -> None:
    utterance, gaps = spoken("u"), {0: GAP, 2: GAP}
    samples = speak(utterance, gaps)
    # The aligner's gaps reach into the words on both sides.
    clip = ShortClip(utterance=utterance, words=slice(1, 3), before=(0.6, 1.0), after=(1.6, 2.0))
    heard = cut(samples, RATE, clip)
    loud = np.flatnonzero(np.abs(heard) > 0.01)
    assert abs((loud[-1] - loud[0]) / RATE - 2 * WORD) < 0.02, "two whole words"
    assert MARGIN <= loud[0] / RATE <= MARGIN + GAP and MARGIN <= (len(heard) - loud[-1]) / RATE <= MARGIN + GAP
    frequencies = [
        np.abs(np.fft.rfft(part)).argmax() / WORD for part in np.split(heard[loud[0] :][: int(0.8 * RATE)], 2)
    ]
    assert frequencies == pytest.approx([600, 900], abs=5), "the second and the third"
    assert 5e-5 < heard[:100].std() < 2e-4, "not digital silence"
    first = ShortClip(utterance=utterance, words=slice(0, 1), before=None, after=(0.7, 0.9))
    np.testing.assert_array_equal(cut(samples, RATE, first)[: round(0.75 * RATE)], samples[: round(0.75 * RATE)])


def test_a_clip_has_the_phonemes_that_its_words_have_in_the_sentence() -> None:
    frontend = load_frontend("gruut", "en-us")
    whole = frontend.speak(TEXT).phonemes
    parts = [phonemes_of(whole, slice(first, last)) for first, last in ((0, 1), (1, 3), (3, 6))]
    assert tuple(phoneme for part in parts for phoneme in part) == whole
    assert parts[0][-1].symbol == "," and parts[2][-1].symbol == "."
    with pytest.raises(ValueError, match="6 words, not 7"):
        phonemes_of(whole, slice(5, 7))


def test_clips_stand_after_the_utterances_in_the_store(tmp_path: Path) -> None:
    utterances, gaps = [spoken("a"), spoken("b", split="test"), spoken("c", text="Well, we will see.")], {0: GAP}
    for utterance in utterances:
        write_wav(tmp_path / str(utterance.audio), speak(utterance, gaps), RATE)
    write_audit(tmp_path / "audit.jsonl", [audited(utterance, gaps) for utterance in utterances])
    clips = read_short_clips(utterances, tmp_path, share=1.0)
    assert [clip.id for clip in clips] == ["a words 1 to 1", "c words 1 to 1"]
    text = TextConfig(frontend="gruut")
    out = tmp_path / "features"
    write_features(tmp_path, utterances, out, AUDIO, text, 1, clips, store=store_beside(out))
    store = FeatureStore.open(out)
    assert list(store.ids) == ["a", "b", "c", "a words 1 to 1", "c words 1 to 1"]
    assert [store.header["splits"][split] for split in store.split[3:]] == ["train", "train"]
    said = load_frontend("gruut", "en-us").speak("Well,").phonemes
    np.testing.assert_array_equal(store.tokens(4), SymbolTable(store.header["symbols"]).to_tokens(said))
    samples = store.samples(4) / 32768
    assert 0.9 * WORD < (np.abs(samples) > 0.01).sum() / RATE < 1.1 * WORD


def test_asking_for_clips_without_an_alignment_is_an_error_of_one_line(tmp_path: Path) -> None:
    utterance = spoken("u")
    write_audit(tmp_path / "audit.jsonl", [replace(audited(utterance), words=())])
    assert read_short_clips([utterance], tmp_path, share=0.0) == []
    with pytest.raises(SonorantError, match=r"features.short_clips: 0.1 requires an aligner .*"):
        read_short_clips([utterance], tmp_path, share=0.1)
