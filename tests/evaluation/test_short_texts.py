import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sonorant.audio.arrays import Floats
from sonorant.audio.recognizers import Clip
from sonorant.audio.wav import read_audio
from sonorant.audio.word_phones import PHONES
from sonorant.corpus.audit.findings import Audited, AuditedWord, write_audit
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.prompt_coverage import measure_coverage
from sonorant.errors import SonorantError
from sonorant.evaluation.short_texts.check import check_words
from sonorant.evaluation.short_texts.faults import Faults, find_faults, summarize, transcript
from sonorant.evaluation.short_texts.judgement import cut_words
from sonorant.evaluation.short_texts.listener import Listener, Said, listen, not_heard
from sonorant.evaluation.short_texts.texts import SENTENCES, SHORT, SUITES, suite
from sonorant.files import read_json
from sonorant.text import load_frontend
from sonorant.text.written_words import plain_words
from tests.evaluation.conftest import speak_with_flite
from tests.support.command import run_command
from tests.support.imports import ROOT

ENGLISH = SUITES["en"]
RATE = 16_000
TEXTS = (
    "The harbor lights flickered as the ferry came in late.",
    "Nobody knew why the old clock stopped at noon.",
    "A thin layer of frost covered every window on the street.",
    "My cousin bought seven yellow candles for the kitchen.",
    "Four horses stood behind the church before the storm.",
    "Please bring the guitar and open the window.",
)


def said(heard: str) -> list[Said]:
    """Words and babble (`*`: 0.3 s of phones, `.`: 0.05 s), 0.3 s apart."""
    parts: list[Said] = []
    for place, word in enumerate(heard.split()):
        start = 0.3 * place
        if word in "*.":
            parts += [
                Said(None, start + 0.05 * step, start + 0.05 * (step + 1)) for step in range(6 if word == "*" else 1)
            ]
        else:
            parts.append(Said(word, start, start + 0.3))
    return parts


@pytest.mark.parametrize(
    ("heard", "faults"),
    [
        ("no one knew why", Faults()),
        ("no one why", Faults(skipped=("knew",))),
        ("no one", Faults(skipped=("knew", "why"))),
        ("", Faults(skipped=("no", "one", "knew", "why"))),
        ("no one knew knew why", Faults(repeated=("knew",))),
        ("no one no one knew why", Faults(repeated=("no", "one"))),
        ("no one * why", Faults(babbled=("knew",))),
        ("*", Faults(babbled=("no", "one", "knew", "why"))),
        ("no one knew * why", Faults(extra=1)),
        ("no one knew why *", Faults(extra=1)),
        ("* no one knew why *", Faults(extra=2)),
        ("no . one knew . why .", Faults()),  # too short to be speech
        ("no one knew . knew why", Faults(repeated=("knew",))),
    ],
)
def test_a_fault_has_its_name(heard: str, faults: Faults) -> None:
    assert find_faults(["no", "one", "knew", "why"], said(heard)) == faults


def test_a_word_that_is_to_be_said_three_times_may_be_said_three_times() -> None:
    assert not find_faults(["no", "no", "no"], said("no no no"))
    assert transcript(said("no * . knew")) == "no (babble) knew"
    assert find_faults(["no", "no", "no"], said("no no")) == Faults(skipped=("no",))
    assert find_faults(["no", "no", "no"], said("no no no no")) == Faults(repeated=("no",))


def test_a_summary_counts_texts_and_faults() -> None:
    found = summarize([Faults(), Faults(skipped=("a", "b")), Faults(extra=1), Faults()])
    assert (found["texts"], found["faulty"], found["faulty_rate"]) == (4, 2, 0.5)
    assert (found["skipped"], found["repeated"], found["babbled"], found["extra"]) == (2, 0, 0, 1)
    assert found["faulty_rate_ci95"][0] < 0.5 < found["faulty_rate_ci95"][1]


def test_a_thousand_sentences_are_different_the_same_each_time_and_begin_as_ten_do() -> None:
    sentences = ENGLISH.sentences(1000)
    assert len({each.text for each in sentences}) == 1000
    assert ENGLISH.sentences(10) == sentences[:10] and ENGLISH.sentences(10, seed=2) != sentences[:10]
    assert all(each.text[0].isupper() and each.text[-1] in ".?" and "{" not in each.text for each in sentences)


def test_the_recogniser_knows_every_word_and_all_phones_are_said() -> None:
    decoder, frontend = Listener()._decoder, load_frontend("gruut", "en-us")
    texts = [each.text for each in ENGLISH.sentences(300)]
    words = {word for text in texts for word in plain_words(frontend.speak(text).text)}
    assert {word for word in words if decoder.lookup_word(word) is None} == set()
    phones = {phone for word in words for phone in decoder.lookup_word(word).split()}
    assert phones == set(PHONES)
    for text in ENGLISH.short_texts():
        assert frontend.speak(text.text).phonemes, text
    assert len(measure_coverage(texts, frontend).diphones) > 700


def test_a_language_without_texts_or_listener_is_named() -> None:
    assert suite("de-de") == "not run: there are no short texts in 'de-de', only in en"
    assert suite("en-gb") is ENGLISH
    assert not_heard("en-us") is None and "'fr-fr'" in str(not_heard("fr-fr"))
    with pytest.raises(SonorantError, match="English only"):
        Listener("de-de")


def planted(clean: Floats, parts: list[Said], other: Floats) -> Iterator[tuple[str, str, Floats]]:
    """Fault, affected word (the longest inside) and sound."""
    word = max(parts[1:-1], key=lambda part: part.end - part.start)
    start, end = round(word.start * RATE), round(word.end * RATE)
    name = str(word.word)
    yield "skipped", name, np.concatenate([clean[:start], clean[end:]])
    yield "repeated", name, np.concatenate([clean[:end], clean[start:end], clean[end:]])
    yield "babbled", name, np.concatenate([clean[:start], clean[start:end][::-1], clean[end:]])
    last = round(parts[-1].end * RATE)
    yield "extra", "", np.concatenate([clean[:last], other, clean[last:]])


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="module")
def flite(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[list[str], Floats]]:
    """Words of each text, and flite's speech."""
    folder = tmp_path_factory.mktemp("flite")
    for number, text in enumerate(TEXTS):
        speak_with_flite(text, folder / f"{number}.wav", "slt" if number % 2 else "rms")
    return [(plain_words(text), read_audio(folder / f"{n}.wav", RATE)[0]) for n, text in enumerate(TEXTS)]


def check_planted(listener: Listener, spoken: list[tuple[list[str], Floats]], least: float, most: float) -> None:
    """Check the minimum share of faults found and the maximum of false alarms."""
    found: dict[str, list[bool]] = {}
    blamed = []
    for number, (words, clean) in enumerate(spoken):
        parts = listener.hear(words, clean, RATE)
        blamed.append(bool(find_faults(words, parts)))
        own = [part for part in parts if part.word]
        if blamed[-1] or len(own) < 4:
            continue
        other = spoken[number - 1][1]
        middle = other[len(other) // 3 : len(other) // 3 + RATE]
        for fault, word, sound in planted(clean, own, middle):
            faults = getattr(find_faults(words, listener.hear(words, sound, RATE)), fault)
            found.setdefault(fault, []).append(word in faults if isinstance(faults, tuple) else faults > 0)
    assert np.mean(blamed) <= most, f"{sum(blamed)} of {len(blamed)} good sentences"
    assert {fault: np.mean(hits) for fault, hits in found.items() if np.mean(hits) < least} == {}
    assert len(found) == 4


def test_planted_faults_are_found_in_synthetic_speech(
    listener: Listener, flite: list[tuple[list[str], Floats]]
) -> None:
    check_planted(listener, flite, least=0.8, most=0.0)


def test_planted_faults_are_found_in_a_persons_speech(listener: Listener) -> None:
    folder = (ROOT / "../shared/data/kathleen").resolve()
    if not folder.exists():
        pytest.skip("the recordings of a person (kathleen) are absent")
    frontend, spoken = load_frontend("gruut", "en-us"), []
    for row in (folder / "metadata.csv").read_text(encoding="utf-8").splitlines()[20:980:40]:
        name, text = row.split("|")[:2]
        samples, _ = read_audio(folder / "wavs" / f"{name}.flac", RATE)
        spoken.append((plain_words(frontend.speak(text).text), samples))
    check_planted(listener, spoken, least=0.7, most=0.2)


def test_what_is_heard_depends_neither_on_the_clips_before_nor_on_the_number_of_processes(
    listener: Listener, flite: list[tuple[list[str], Floats]]
) -> None:
    clips, words = [Clip(sound, RATE) for _, sound in flite[:3]], [own for own, _ in flite[:3]]
    alone = [Listener().hear(own, clip.samples, RATE) for own, clip in zip(words, clips, strict=True)]
    assert [listener.hear(own, clip.samples, RATE) for own, clip in zip(words, clips, strict=True)] == alone
    assert listen(clips, words, "en-us", processes=2) == alone


def test_silence_and_noise_say_nothing(listener: Listener) -> None:
    noise = np.random.default_rng(0).normal(0, 0.05, RATE).astype(np.float32)
    for sound in (np.zeros(RATE, np.float32), noise, noise[:0]):
        faults = find_faults(["yes", "please"], listener.hear(["yes", "please"], sound, RATE))
        assert faults.skipped or faults.babbled


def test_a_word_that_the_dictionary_lacks_is_listened_for_and_one_without_sound_is_named(listener: Listener) -> None:
    assert listener._decoder.lookup_word("flobberish") is None
    listener.hear(["flobberish"], np.zeros(RATE, np.float32), RATE)
    assert listener._decoder.lookup_word("flobberish").startswith("F L ")
    with pytest.raises(SonorantError, match=r"'\.\.\.' has no pronunciation"):
        listener.hear(["..."], np.zeros(RATE, np.float32), RATE)


def test_words_cut_from_recordings_are_heard_and_without_word_times_it_says_so(
    listener: Listener, spoken_corpus: tuple[Path, list[Utterance]], tmp_path: Path
) -> None:
    folder, utterances = spoken_corpus
    everyone = [replace(each, split="train") for each in utterances]
    assert "no aligner ran" in str(cut_words(everyone, folder, tmp_path, "en-us", 10))
    rows = []
    for utterance in everyone:
        samples, rate = read_audio(folder / str(utterance.audio))
        parts = [part for part in listener.hear(plain_words(str(utterance.spoken)), samples, rate) if part.word]
        # The aligner leaves gaps between words; the listener does not.
        words = [AuditedWord(text=str(p.word), start=p.start + 0.03, end=p.end - 0.03, doubt=0.0) for p in parts]
        rows.append(Audited(
            id=utterance.id, clip="", score=0.0, fault=None, words=tuple(words), unexplained=(), heard={}, figures={}
        ))  # fmt: skip
    write_audit(tmp_path / "audit.jsonl", rows)
    found = cut_words(everyone, folder, tmp_path, "en-us", 10)
    assert not isinstance(found, str) and 3 <= len(found) <= 4
    for text, clip in found:
        assert not find_faults(text.split(), listener.hear(text.split(), clip.samples, clip.rate)).babbled, text


def test_sentences_have_faults_per_thousand_and_are_no_short_texts(voice_bundle: Path, tmp_path: Path) -> None:
    done = run_command("tasks.check_words", "--voice", voice_bundle, "--sentences", "3", "--out", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    found = read_json(tmp_path / "out.json")
    kinds = found["kinds"]
    assert set(kinds) == {*ENGLISH.kinds, SHORT, SENTENCES}
    assert kinds[SHORT]["texts"] == sum(map(len, ENGLISH.kinds.values())) and kinds[SENTENCES]["texts"] == 3
    assert kinds[SENTENCES]["per_thousand"] == 1000 * kinds[SENTENCES]["faulty_rate"]
    assert kinds[SHORT]["faulty_rate"] > 0.8, "random weights say nothing"
    assert len(found["faulty"]) == kinds[SHORT]["faulty"] + kinds[SENTENCES]["faulty"]
    assert "tongue_twisters" in done.stdout and "per thousand" in done.stdout
    assert str(tmp_path) not in json.dumps(found)


def test_no_sentences_are_one_line(voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match="--sentences must be at least 1"):
        check_words(voice_bundle, None, 0, 1)
