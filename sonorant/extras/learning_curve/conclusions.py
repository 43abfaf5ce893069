"""Sentences that summarise a learning curve."""

from dataclasses import dataclass

from sonorant.extras.learning_curve.fit import Curve
from sonorant.extras.learning_curve.points import excludes_zero


@dataclass(frozen=True, kw_only=True)
class Measure:
    name: str
    """Key in reports/metrics.json."""
    words: str
    unit: str = ""
    """Unit of the number, such as "points"; may be empty."""
    scale: float = 1.0
    """Factor that converts a value for display."""

    def number(self, value: float) -> str:

        return f"{self.scale * value:+.3g}"

    def amount(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".rstrip()


def forecast_sentence(curve: Curve, measure: Measure, more: float) -> str:
    """Describe the effect of `more` minutes of recordings. Raises SonorantError if `more` is too large."""
    forecast = curve.forecast(more)
    start = f"Another {more:g} minutes of recordings would change"
    if forecast is None:
        return f"There is no forecast of {measure.words} with another {more:g} minutes: {curve.why_none}."
    low, high = (measure.number(end) for end in forecast.ci95)
    amount = measure.amount(forecast.difference)
    if not forecast.certain:
        seeds = min(len(point.values) for point in curve.points)
        told = f"may be chance with {seeds} seeds" if seeds > 1 else "may be chance"
        return f"{start} {measure.words} by {amount} (95 % interval {low} to {high}), which {told}."
    return f"{start} {measure.words} by {amount} (95 % interval {low} to {high})."


def gain_sentence(curve: Curve, measure: Measure) -> str:

    low, high = (measure.number(end) for end in curve.gain_ci95)
    first, last = curve.points[0].minutes, curve.most
    told = "" if excludes_zero(curve.gain_ci95) else ", which may be chance"
    return (
        f"From {first:.1f} to {last:.1f} minutes: {measure.amount(curve.gain)} of {measure.words} "
        f"(95 % interval {low} to {high}){told}."
    )
