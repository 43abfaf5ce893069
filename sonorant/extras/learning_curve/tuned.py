"""Compare fine-tuned voices with voices trained from scratch on the same recordings."""

from collections.abc import Sequence
from dataclasses import dataclass

from sonorant.extras.learning_curve.conclusions import Measure
from sonorant.extras.learning_curve.points import Point, excludes_zero, interval, resampled
from sonorant.pages.blocks import Section, Table


@dataclass(frozen=True, kw_only=True)
class Advantage:
    minutes: float
    seeds: int
    """Number of seeds; the smaller number if the two voices differ."""
    scratch: float
    tuned: float
    """Mean over seeds of the fine-tuned voices."""
    difference: float
    """`tuned` minus `scratch`."""
    ci95: tuple[float, float]
    """95 % interval of the difference over seeds and sentences."""

    def sentence(self, measure: Measure) -> str:
        low, high = (measure.number(end) for end in self.ci95)
        told = "" if excludes_zero(self.ci95) else f", which with {self.seeds} seeds may be chance"
        return (
            f"Fine-tuning with {self.minutes:.1f} minutes instead of training from scratch: "
            f"{measure.amount(self.difference)} of {measure.words} (95 % interval {low} to {high}){told}."
        )


def advantages(pairs: Sequence[tuple[Point, Point]]) -> list[Advantage]:
    """Compare pairs of points (scratch, tuned) in order of increasing minutes. Raises SonorantError if no size has two
    seeds."""
    pairs = sorted(pairs, key=lambda pair: pair[0].minutes)
    values_RP = resampled([point for pair in pairs for point in pair])
    differences_RP = values_RP[:, 1::2] - values_RP[:, 0::2]
    return [
        Advantage(
            minutes=scratch.minutes,
            seeds=min(len(scratch.values), len(tuned.values)),
            scratch=scratch.mean,
            tuned=tuned.mean,
            difference=tuned.mean - scratch.mean,
            ci95=interval(differences_R),
        )
        for (scratch, tuned), differences_R in zip(pairs, differences_RP.T, strict=True)
    ]


Tuned = dict[Measure, list[Advantage] | str]
"""Advantages per metric, or the reason why there are none; empty without fine-tuned voices."""


def tuned_sentences(tuned: Tuned) -> list[str]:

    told = []
    for measure, found in tuned.items():
        told += [f"{measure.words}: {found}."] if isinstance(found, str) else [each.sentence(measure) for each in found]
    return told


def tuned_section(source: str, tuned: Tuned) -> list[Section]:
    head = ["minutes", "seeds", "from scratch", "fine-tuned", "difference", "95 % interval"]
    tables = [
        Table(caption=measure.name, head=head, rows=[_row(each, measure) for each in found])
        for measure, found in tuned.items()
        if not isinstance(found, str)
    ]
    title = f"Fine-tuned from {source}, compared with from scratch"
    return [Section(anchor="tuned", title=title, parts=[*tuned_sentences(tuned), *tables])] if tuned else []


def _row(found: Advantage, measure: Measure) -> list[str]:
    values = (f"{measure.scale * value:.3g}" for value in (found.scratch, found.tuned))
    ends = " to ".join(measure.number(end) for end in found.ci95)
    return [f"{found.minutes:.1f}", str(found.seeds), *values, measure.number(found.difference), ends]
