"""Error rates by speaker add up to the whole, and nobody is lost."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonorant.evaluation.error_rates import ErrorCounts
from sonorant.evaluation.speakers import by_speaker

JUDGED = st.lists(st.tuples(st.sampled_from(["anna", "ben"]), st.integers(0, 9), st.integers(1, 9)), min_size=1)


@given(JUDGED)
def test_the_speakers_errors_are_all_errors(judged: list[tuple[str, int, int]]) -> None:
    speakers = [speaker for speaker, _, _ in judged]
    wrong, words = (np.array(column) for column in list(zip(*judged, strict=True))[1:])
    counts = {"fp32": ErrorCounts(wrong, words, wrong, words)}
    rows = {row["speaker"]: row for row in by_speaker(counts, speakers, ["anna", "ben", "eve"], None)}
    assert list(rows) == ["anna", "ben", "eve"] and rows["eve"]["wer"] is None
    assert sum(row["sentences"] for row in rows.values()) == len(judged)
    spoken = {name: sum(w for who, _, w in judged if who == name) for name in rows}
    errors = sum(row["wer"]["fp32"] * spoken[name] / 100 for name, row in rows.items() if row["wer"])
    assert abs(errors - wrong.sum()) < 1e-2 * len(judged)


def test_nobody_has_a_rate_where_nobody_listened() -> None:
    rows = by_speaker({}, ["anna"], ["anna", "ben"], "not run: why")
    assert [row["wer"] for row in rows] == ["not run: why"] * 2
