import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.extras.learning_curve.conclusions import Measure, forecast_sentence, gain_sentence
from sonorant.extras.learning_curve.fit import Curve, curve_of, fit
from sonorant.extras.learning_curve.points import Point, paired

MINUTES = np.array([5.0, 10.0, 20.0, 40.0, 60.0])
WORDS = Measure(name="wer", words="words misunderstood", unit="points")


def voices(random: np.random.Generator, law: tuple[float, float, float], sentences: int = 120) -> list[Point]:
    """Three voices by size, with noise by sentence and by data."""
    a, b, c = law
    hard_S, helped_S = 3.0 * random.standard_normal(sentences), random.uniform(0.0, 2.0, sentences)
    weight_S = random.integers(4, 12, sentences)
    points = []
    for minutes in MINUTES:
        parts = []
        for _ in range(3):
            value_S = a + hard_S + b * helped_S * minutes**-c + 0.15 * random.standard_normal()
            value_S = value_S + 1.0 * random.standard_normal(sentences)
            parts.append(np.stack([value_S * weight_S, weight_S], axis=1))
        values = tuple(float(part[:, 0].sum() / part[:, 1].sum()) for part in parts)
        half = 1.96 * 3.2 / sentences**0.5
        intervals = tuple((value - half, value + half) for value in values)
        points.append(Point(minutes=float(minutes), values=values, intervals=intervals, parts=tuple(parts)))
    return points


def within(true: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= true <= ends[1]


@pytest.mark.parametrize("law", [(2.0, 20.0, 0.7), (4.0, 0.0, 0.5)])
def test_intervals_hold_the_planted_curve_in_19_of_20_cases(law: tuple[float, float, float]) -> None:
    random, cases = np.random.default_rng(1), 60
    held: dict[str, list[bool]] = {"point": [], "gain": [], "ahead": []}
    a, b, c = law
    errors: list[float] = []
    halves: list[float] = []
    for _ in range(cases):
        curve = curve_of(voices(random, law))
        forecast = curve.forecast(30)
        held["point"].append(within(a + b * 20.0**-c, curve.ci95[2]))
        held["gain"].append(within(b * (60.0**-c - 5.0**-c), curve.gain_ci95))
        errors.append(curve.gain - b * (60.0**-c - 5.0**-c))
        halves.append(np.ptp(curve.gain_ci95) / 2)
        if forecast is not None:
            held["ahead"].append(within(b * (90.0**-c - 60.0**-c), forecast.ci95))
    assert len(held["ahead"]) > 0.9 * cases, "a power law is taken for one"
    for name, found in held.items():
        assert np.mean(found) >= 0.88, (name, np.mean(found))
    assert np.mean(halves) < 1.4 * 1.96 * np.std(errors), "nor is the interval far too wide"


def test_pairing_by_sentences_makes_differences_certain() -> None:
    random = np.random.default_rng(2)
    points = voices(random, (2.0, 4.0, 0.7))
    alone = [Point(minutes=point.minutes, values=point.values, intervals=point.intervals) for point in points]
    assert paired(points) and not paired(alone)
    one, other = (np.ptp(curve_of(each).gain_ci95) for each in (points, alone))
    assert one < 0.8 * other


def test_a_noiseless_power_law_is_found_again() -> None:
    law = fit(MINUTES, (1.5 + 12 * MINUTES**-0.5)[None])
    assert law.c[0] == pytest.approx(0.5, rel=0.05) and law.at(120.0)[0] == pytest.approx(
        1.5 + 12 * 120**-0.5, rel=0.02
    )


def exact(values: list[float]) -> Curve:
    points = [
        Point(minutes=minutes, values=(value - 0.01, value, value + 0.01))
        for minutes, value in zip(MINUTES, values, strict=False)
    ]
    return curve_of(points)


def test_where_a_curve_tells_nothing_it_says_so() -> None:
    bent = exact([1.0, 9.0, 1.0, 9.0, 1.0])
    assert bent.law is None and "do not follow a power law" in forecast_sentence(bent, WORDS, 20)
    few = exact([5.0, 4.0, 3.5])
    assert "3 sizes are too few" in forecast_sentence(few, WORDS, 20)
    flat = curve_of(voices(np.random.default_rng(3), (4.0, 0.0, 0.5)))
    assert "which may be chance with 3 seeds" in forecast_sentence(flat, WORDS, 20)
    assert gain_sentence(flat, WORDS).endswith("which may be chance.")


def test_gain_and_forecast_are_sentences() -> None:
    curve = exact([float(1.5 + 12 * minutes**-0.5) for minutes in MINUTES])
    sentence = forecast_sentence(curve, WORDS, 20)
    assert (
        sentence.startswith("Another 20 minutes of recordings would change words misunderstood by -0.2")
        and "95 % interval -0" in sentence
    )
    assert gain_sentence(curve, WORDS).startswith("From 5.0 to 60.0 minutes: -3.8")


@pytest.mark.parametrize("more", [60.5, 0.0, float("nan")])
def test_farther_than_twice_the_minutes_nothing_is_foretold(more: float) -> None:
    with pytest.raises(SonorantError, match=r"there are 60.0 minutes, .*give at most 60"):
        exact([5.0, 4.0, 3.5, 3.2, 3.0]).forecast(more)


def test_one_seed_and_one_size_are_refused() -> None:
    with pytest.raises(SonorantError, match="at least two sizes"):
        exact([5.0])
    with pytest.raises(SonorantError, match="results vary by seed"):
        curve_of([Point(minutes=minutes, values=(1.0,)) for minutes in (5.0, 10.0)])
