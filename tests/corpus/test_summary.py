from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.manifest import SPLITS, Utterance
from sonorant.corpus.preparation.summary import summarize_speakers

utterances = st.lists(
    st.builds(
        Utterance,
        id=st.just("u"),
        audio=st.none(),
        text=st.just("a"),
        speaker=st.sampled_from(["zoë", "adam", "eve", "bob"]),
        language=st.just("en-us"),
        seconds=st.one_of(st.none(), st.floats(0, 1e4)),
        split=st.sampled_from(SPLITS),
    ),
    max_size=40,
)


def hours(rows: Sequence[Utterance]) -> float:
    return round(sum(row.seconds or 0.0 for row in rows) / 3600, 4)


@given(utterances, st.lists(st.sampled_from(["adam", "gone"])))
def test_speakers_are_those_of_a_pass_for_each(rows: list[Utterance], rejected: list[str]) -> None:
    found = summarize_speakers(rows, rejected)
    assert list(found) == sorted({*rejected, *(row.speaker for row in rows)})
    for speaker, of in found.items():
        own = [row for row in rows if row.speaker == speaker]
        assert (of["utterances"], of["hours"], of["rejected"]) == (len(own), hours(own), rejected.count(speaker))
        assert of["splits"] == {split: [row.split for row in own].count(split) for split in SPLITS}
