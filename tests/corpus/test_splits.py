import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.manifest import Defect, Utterance
from sonorant.corpus.preparation.outcomes import Outcome, reject_lost_speakers, reject_scarce_speakers
from sonorant.corpus.splits import (
    SplitBy,
    beyond,
    describe_texts,
    empty_splits,
    few_texts,
    split_key,
    split_of,
    text_key,
)

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TAKES = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.sampled_from(["anna", "ben"])), max_size=40
)
"""Words and speaker."""


def corpus_of(takes: list[tuple[list[str], str]], by: SplitBy) -> list[Utterance]:
    """Utterances split as `prepare` does, three tenths per held-out set."""
    found = []
    for number, (words, speaker) in enumerate(takes):
        text = " ".join(words)
        # Takes of one text differ in case and punctuation, as typed by people.
        spoken = (text, text.capitalize() + ".", text.upper())[number % 3]
        utterance = Utterance(id=f"u{number}", audio="a", text=text, speaker=speaker, language="en-us", spoken=spoken)
        split = split_of(split_key(utterance, by), validation=0.3, test=0.3)
        found.append(replace(utterance, split=split))
    return found


@given(TAKES)
def test_all_takes_of_a_text_are_in_one_split_whoever_speaks(takes: list[tuple[list[str], str]]) -> None:
    utterances = corpus_of(takes, "text")
    for words, _ in takes:
        assert len({u.split for u in utterances if u.text == " ".join(words)}) == 1
    assert describe_texts(utterances)["held_out_read"] == 0


@given(TAKES, TAKES, st.sampled_from(["text", "speaker"]))
def test_adding_takes_moves_none(
    takes: list[tuple[list[str], str]], more: list[tuple[list[str], str]], by: SplitBy
) -> None:
    before, after = corpus_of(takes, by), corpus_of(takes + more, by)
    assert [u.split for u in before] == [u.split for u in after][: len(before)]


def held_out(utterances: list[Utterance], by: SplitBy, most: int) -> dict[str, set[str]]:
    """Ids by held-out split of at most `most` utterances."""
    surplus = beyond(utterances, by, most)
    rows = [u for u in utterances if split_key(u, by) not in surplus]
    return {split: {u.id for u in rows if u.split == split} for split in ("validation", "test")}


@given(TAKES, TAKES, st.sampled_from(["text", "speaker"]), st.integers(1, 9), st.integers(0, 9))
def test_sets_that_are_capped_are_nested_whole_and_get_nothing_from_training(
    takes: list[tuple[list[str], str]], added: list[tuple[list[str], str]], by: SplitBy, most: int, more: int
) -> None:
    utterances, later = corpus_of(takes, by), corpus_of(takes + added, by)
    kept, wider, grown = (
        held_out(utterances, by, most),
        held_out(utterances, by, most + more),
        held_out(later, by, most),
    )
    before = {u.id for u in utterances}
    for split, ids in kept.items():
        own = [u for u in utterances if u.split == split]
        keys = {split_key(u, by) for u in own if u.id in ids}
        assert ids == {u.id for u in own if split_key(u, by) in keys}, "texts and speakers stay whole"
        assert len(ids) <= most or len(keys) == 1
        assert bool(ids) == bool(own)
        assert ids <= wider[split]
        assert len(own) > most or ids == {u.id for u in own}
        if len(ids) == most:
            assert grown[split] & before <= ids, "a full set takes nothing back from training"


@given(ids=st.lists(st.text(max_size=20), max_size=50), validation=st.floats(0, 0.4), test=st.floats(0, 0.4))
def test_a_larger_fraction_takes_from_train_alone(ids: list[str], validation: float, test: float) -> None:
    for id in ids:
        before = split_of(id, validation=validation, test=test)
        assert before in ("train", split_of(id, validation=validation + 0.1, test=test + 0.1))


@given(st.lists(st.text(max_size=20), max_size=20))
def test_a_key_holds_words_alone(texts: list[str]) -> None:
    for text in texts:
        utterance = Utterance(id="a", audio="a", text=text, speaker="s", language="en-us", spoken=text)
        assert text_key(utterance) == text_key(replace(utterance, spoken=f'  "{text}" !'))


def test_near_duplicates_are_counted_and_named() -> None:
    read = "it was a bright cold day in april"
    texts = [(read, "train"), (f"{read} again", "test"), ("nothing at all like the others", "test"), (read, "train")]
    utterances = [
        Utterance(id=f"u{n}", audio="a", text=text, speaker="s", language="en-us", spoken=text, split=split)
        for n, (text, split) in enumerate(texts)
    ]
    found = describe_texts(utterances)
    assert (found["texts"], found["takes"], found["held_out_read"]) == (3, 2, 0)
    assert found["near_duplicates"] == [{"held_out": f"{read} again", "read": read, "words": 1}]
    learned = describe_texts([*utterances, replace(utterances[0], id="taken", split="validation")])
    assert learned["held_out_read"] == 1


def test_a_corpus_of_few_texts_is_told_the_way_out() -> None:
    digits = corpus_of([([WORDS[number % 10]], "anna") for number in range(200)], "text")
    assert "200 utterances contain only 10 different texts" in str(few_texts(digits, "text", 0.11))
    assert few_texts(digits, "speaker", 0.11) is None
    many = corpus_of([([*WORDS, str(number)], "anna") for number in range(200)], "text")
    assert few_texts(many, "text", 0.11) is None


@given(TAKES.filter(bool), st.sampled_from(["text", "speaker"]))
def test_settings_that_an_error_names_fill_the_empty_splits(takes: list[tuple[list[str], str]], by: SplitBy) -> None:
    shares = {"validation": 0.02, "test": 0.11}

    def split() -> list[Utterance]:
        return [replace(u, split=split_of(split_key(u, by), **shares)) for u in corpus_of(takes, by)]

    found = empty_splits(split(), by, **shares)
    named = re.findall(r"prepare\.(\w+) to ([\d.]+)", found or "")
    shares |= {name: float(share) for name, share in named}
    if named or found is None:
        assert {u.split for u in split()} == {"train", *shares} and empty_splits(split(), by, **shares) is None
    else:
        assert len({split_key(u, by) for u in split() if u.split == "train"}) < 3 and "add recordings" in found


def outcomes_of(*speakers: str, split: str = "test") -> list[Outcome]:
    """Sound utterances of two seconds, by speaker."""
    return [
        Outcome(
            utterance=Utterance(id=f"u{n}", text="t", speaker=name, language="en-us", seconds=2.0, split=split),
            reason=None,
            detail="",
        )
        for n, name in enumerate(speakers)
    ]


def test_a_speaker_of_whom_nothing_is_trained_is_left_out_by_name() -> None:
    outcomes = outcomes_of("anna", split="train") + outcomes_of("anna", "ben")
    *stay, gone = reject_lost_speakers(outcomes, "text")
    assert stay == outcomes[:-1] and gone.reason == Defect.NOT_TRAINED and "'ben'" in gone.detail
    assert reject_lost_speakers(outcomes, "speaker") == outcomes, "speakers are held out on purpose"


def test_a_speaker_of_few_seconds_is_left_out_by_name() -> None:
    outcomes = outcomes_of("anna", "anna", "ben")
    *stay, gone = reject_scarce_speakers(outcomes, 3.0)
    assert stay == outcomes[:-1] and gone.reason == Defect.FEW_SECONDS
    assert gone.detail == "speaker 'ben' has 2.0 s, less than 3 s (min_speaker_seconds)"
