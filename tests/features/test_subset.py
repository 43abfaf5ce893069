from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.manifest import Utterance
from sonorant.features.subset import first_minutes, minutes_of
from tasks.features import chosen

CORPORA = st.lists(
    st.tuples(st.sampled_from("abc"), st.floats(0.5, 12.0), st.sampled_from(["train", "train", "validation", "test"])),
    min_size=1,
    max_size=60,
)
MINUTES = st.floats(0.01, 10.0)


def corpus_of(rows: list[tuple[str, float, str]]) -> list[Utterance]:
    return [
        Utterance(id=f"u{number}", audio="a", text="t", speaker=speaker, language="en-us", seconds=seconds, split=split)
        for number, (speaker, seconds, split) in enumerate(rows)
    ]


def training(utterances: list[Utterance]) -> set[str]:
    return {utterance.id for utterance in utterances if utterance.split == "train"}


@given(CORPORA, MINUTES, MINUTES)
def test_fewer_minutes_are_part_of_more_and_the_rest_stays(
    rows: list[tuple[str, float, str]], one: float, other: float
) -> None:
    corpus, (few, many) = corpus_of(rows), sorted((one, other))
    less, more = first_minutes(corpus, few), first_minutes(corpus, many)
    assert training(less) <= training(more) <= training(corpus)
    for kept in (less, more):
        assert [each for each in kept if each.split != "train"] == [each for each in corpus if each.split != "train"]
        assert kept == [each for each in corpus if each in kept], "in the manifest's order"


@given(CORPORA, MINUTES)
def test_the_minutes_are_kept_to_and_shared_evenly(rows: list[tuple[str, float, str]], minutes: float) -> None:
    corpus = corpus_of(rows)
    kept = first_minutes(corpus, minutes)
    there: defaultdict[str, float] = defaultdict(float)
    taken: defaultdict[str, float] = defaultdict(float)
    for utterances, seconds in ((corpus, there), (kept, taken)):
        for utterance in utterances:
            if utterance.split == "train":
                seconds[utterance.speaker] += utterance.seconds or 0.0
    assert taken.keys() == there.keys(), "nobody is left out"
    longest = max((seconds for _, seconds, _ in rows), default=0.0)
    assert minutes_of(kept) <= minutes + len(there) * longest / 60, "an utterance of everyone may be more than asked"
    if minutes_of(corpus) > minutes:
        assert minutes_of(kept) >= minutes - len(there) * longest / 60
    short = [speaker for speaker in there if taken[speaker] < there[speaker]]
    for speaker in short:  # each gives as much as any other, within one utterance
        assert taken[speaker] >= max(taken.values()) - longest - 1e-6


def test_more_minutes_than_there_are_is_all_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    corpus = corpus_of([("a", 6.0, "train")] * 20 + [("a", 6.0, "test")] * 5)
    assert chosen(corpus, None) == chosen(corpus, 80.0) == corpus
    assert capsys.readouterr().out == "features.minutes is 80: all 2.0 training minutes are used\n"
    assert minutes_of(chosen(corpus, 1.0)) == pytest.approx(1.0)
    assert "1.0 of 2.0 training minutes are used" in capsys.readouterr().out
