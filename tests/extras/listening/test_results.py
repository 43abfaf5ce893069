import numpy as np
import pytest

from sonorant.extras.listening.answers import Answer, Header
from sonorant.extras.listening.listening_sounds import ANCHOR, RECORDINGS, A, B
from sonorant.extras.listening.results import DIFFERENCE, LISTENERS, judge, screen, told
from sonorant.training.intervals import crossed_bootstrap

SYSTEMS = (A, B, RECORDINGS, ANCHOR)


def pair(listener: str, sentence: str, prefers: str | None) -> Answer:
    return Answer(listener=listener, kind="pair", sentence=sentence, order=(A, B), prefers=prefers, time="now")


def rating(listener: str, sentence: str, *scores: int) -> Answer:
    given = dict(zip(SYSTEMS, scores, strict=True))
    return Answer(listener=listener, kind="rating", sentence=sentence, order=SYSTEMS, scores=given, time="now")


def panel(random: np.random.Generator, listeners: int, sentences: int, better: float, taste: float) -> list[Answer]:
    """Ratings of A above B by `better` points, varied by listener, sentence and chance."""
    tastes, hard = taste * random.standard_normal(listeners), 5 * random.standard_normal(sentences)
    answers = []
    for who in range(listeners):
        for place in range(sentences):
            found = better + tastes[who] + hard[place] + 12 * random.standard_normal()
            a, b = (int(np.clip(np.rint(50 + sign * found / 2), 0, 100)) for sign in (1, -1))
            answers.append(pair(f"{who}", f"{place}", A if found > 6 else B if found < -6 else None))
            answers.append(rating(f"{who}", f"{place}", a, b, 98, 20))
    return answers


@pytest.mark.parametrize("better", [15.0, -15.0])
@pytest.mark.parametrize("listeners", [1, 8])
def test_a_planted_preference_comes_out_with_its_sign(better: float, listeners: int) -> None:
    for seed in range(5):
        results = judge(panel(np.random.default_rng(seed), listeners, 20, better, 5.0 * (listeners > 1)))
        assert results.preference
        for one, none in ((results.preference, 50.0), (results.ratings[DIFFERENCE], 0.0)):
            assert (one.low > none) if better > 0 else (one.high < none)
        assert results.ratings[RECORDINGS].mean == 98 and results.ratings[ANCHOR].mean == 20


@pytest.mark.parametrize(("listeners", "taste"), [(1, 0.0), (8, 0.0), (8, 6.0)])
def test_where_neither_is_better_intervals_hold_the_truth_as_often_as_they_say(listeners: int, taste: float) -> None:
    random, held = np.random.default_rng(0), {"preference": 0, "ratings": 0}
    for _ in range(100):
        results = judge(panel(random, listeners, 20, 0.0, taste))
        assert results.preference
        held["preference"] += results.preference.low <= 50 <= results.preference.high
        held["ratings"] += results.ratings[DIFFERENCE].low <= 0 <= results.ratings[DIFFERENCE].high
    assert all(count >= 88 for count in held.values()), held


def test_the_crossed_bootstrap_leaves_gaps_out() -> None:
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 5.0]])
    assert crossed_bootstrap(values, rows=True, resamples=500) == (1.0, 5.0)


def test_where_all_say_the_same_the_interval_has_a_width() -> None:
    preference = judge([pair("anna", f"{n}", A) for n in range(10)]).preference
    assert preference and preference.mean == preference.high == 100.0 and 60 < preference.low < 80


def test_a_pair_without_preference_counts_half() -> None:
    answers = [pair("anna", f"{n}", prefers) for n, prefers in enumerate([A, None, None, B])]
    results = judge(answers)
    assert results.preference and results.preference.mean == 50.0
    assert results.preferred == {"anna": {A: 1, None: 2, B: 1}}


@pytest.mark.parametrize(("missed", "left_out"), [(0, False), (3, False), (4, True), (20, True)])
def test_who_misses_the_hidden_recording_too_often_is_left_out(missed: int, left_out: bool) -> None:
    """15 % of 20 sentences are 3."""
    answers = [rating("ben", f"{n}", 100, 0, 89 if n < missed else 90, 50) for n in range(20)]
    answers += [pair("ben", f"{n}", A) for n in range(20)]
    answers += [rating("anna", f"{n}", 30, 60, 100, 50) for n in range(20)] + [pair("anna", "1", B)]
    why = f"rated the hidden recording below 90 in {missed} of 20 sentences"
    assert screen(answers) == ({"ben": why} if left_out else {})
    results = judge(answers)
    assert results.ratings[A].mean == (30 if left_out else 65)
    assert results.preferred.keys() == ({"anna"} if left_out else {"ben", "anna"}), "in the pairs too"


def test_the_lines_name_listeners_counts_and_certainty() -> None:
    header = Header(test="x", seed=3, A="new/", B="old/", recordings="person/", sentences=tuple(map(str, range(20))))
    answers = panel(np.random.default_rng(0), 6, 20, 15.0, 3.0)
    answers += [rating("deaf", f"{n}", 50, 50, 50, 50) for n in range(20)]
    lines = told(header, answers).splitlines()
    assert lines[:3] == ["A: new/", "B: old/", "recordings: person/"]
    assert "  deaf gave 20 of 40 answers" in lines
    assert "  excluded: deaf, who rated the hidden recording below 90 in 20 of 20 sentences" in lines
    [preference] = [line for line in lines if "A over B" in line]
    assert preference.endswith("A is preferred")
    assert lines[-1] == "Intervals are over listeners and sentences."
    few = told(header, [answer for answer in answers if answer.listener in "0123"[: LISTENERS - 1]]).splitlines()
    assert few[-1].startswith("Intervals are over sentences; ")
    assert told(header, []).splitlines()[-1] == "No answers yet."
    assert told(header, [rating("deaf", "1", 1, 1, 1, 1)]).splitlines()[-1] == "All listeners are excluded."
