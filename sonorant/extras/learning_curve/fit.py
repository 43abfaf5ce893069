"""Power-law fit of a learning curve, a + b * minutes^-c, and its forecast (Hestness et al. 2017, "Deep learning scaling
is predictable, empirically"). Intervals come from fitting each resample of the points."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.errors import SonorantError
from sonorant.extras.learning_curve.points import Point, excludes_zero, interval, resampled

EXPONENTS = np.geomspace(0.05, 2.0, 40)
"""Values of c to try; at 0.05 the curve is nearly logarithmic."""
LEAST_POINTS = 4
"""Minimum number of points to fit: one more than the unknowns."""
FARTHEST = 2.0
"""Maximum minutes of a forecast, as a multiple of the recorded minutes."""


@dataclass(frozen=True, kw_only=True)
class PowerLaws:
    """Parameters, each (R,), of R curves a + b * minutes^-c."""

    a: Doubles
    b: Doubles
    c: Doubles

    def at(self, minutes: float) -> Doubles:
        """Return the value of each curve, (R,)."""
        return self.a + self.b * minutes**-self.c


def fit(minutes_P: Doubles, values_RP: Doubles) -> PowerLaws:
    """Fit each row by least squares: a and b linearly, c as the best of `EXPONENTS`."""
    best_R = np.full(len(values_RP), np.inf)
    found_3R = np.zeros((3, len(values_RP)))
    for c in EXPONENTS:
        terms_P2 = np.stack([np.ones_like(minutes_P), minutes_P**-c], axis=1)
        ab_2R = np.linalg.lstsq(terms_P2, values_RP.T, rcond=None)[0]
        error_R = np.square(values_RP.T - terms_P2 @ ab_2R).sum(axis=0)
        better_R = error_R < best_R
        best_R[better_R] = error_R[better_R]
        found_3R[:, better_R] = np.stack([*ab_2R, np.full(len(values_RP), c)])[:, better_R]
    return PowerLaws(a=found_3R[0], b=found_3R[1], c=found_3R[2])


@dataclass(frozen=True, kw_only=True)
class Forecast:
    minutes: float
    """Additional minutes."""
    difference: float
    ci95: tuple[float, float]
    certain: bool
    """Whether the intervals of both the forecast and the gain so far exclude zero: extrapolating a power law, which is
    monotonic, would make a chance trend look certain."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    points: tuple[Point, ...]
    """Points in order of increasing minutes."""
    ci95: tuple[tuple[float, float], ...]
    gain: float
    """Change of the mean metric from the fewest to the most minutes."""
    gain_ci95: tuple[float, float]
    law: PowerLaws | None
    """Fit of the means, if there is one."""
    laws: PowerLaws | None
    """Fits of the resamples, if there is a fit."""
    why_none: str
    """Reason why there is no fit; otherwise empty."""

    @property
    def most(self) -> float:
        """Maximum minutes of any point."""
        return self.points[-1].minutes

    def forecast(self, more: float) -> Forecast | None:
        """Return the effect of `more` additional minutes, or None if there is no fit. Raises SonorantError beyond
        `FARTHEST`."""
        if not 0 < more <= (FARTHEST - 1) * self.most:
            raise SonorantError(
                f"--more {more:g}: there are {self.most:.1f} minutes, and the fit is valid up to {FARTHEST:g} times "
                f"as many; give at most {int((FARTHEST - 1) * self.most)}"
            )
        if self.law is None or self.laws is None:
            return None
        difference, differences_R = (law.at(self.most + more) - law.at(self.most) for law in (self.law, self.laws))
        ends = interval(differences_R)
        certain = excludes_zero(ends) and excludes_zero(self.gain_ci95)
        return Forecast(minutes=more, difference=float(difference[0]), ci95=ends, certain=certain)


def curve_of(points: Sequence[Point]) -> Curve:
    """Fit a curve to `points`. Raises SonorantError if there are fewer than two sizes, or if no size has two seeds."""
    if len(points) < 2:
        raise SonorantError("a learning curve needs at least two sizes; give more with --minutes")
    points = sorted(points, key=lambda point: point.minutes)
    values_RP = resampled(points)
    means_P, minutes_P = np.array([point.mean for point in points]), np.array([point.minutes for point in points])
    law, why = fit(minutes_P, means_P[None]), ""
    if len(points) < LEAST_POINTS:
        why = f"{len(points)} sizes are too few to fit a power law, which needs {LEAST_POINTS}"
    elif missed := _missed(law, minutes_P, means_P, values_RP):
        why = (
            f"the points do not follow a power law, which misses the point at {missed:.0f} minutes by more than chance"
        )
    return Curve(
        points=tuple(points),
        ci95=tuple(interval(values_R) for values_R in values_RP.T),
        gain=float(means_P[-1] - means_P[0]),
        gain_ci95=interval(values_RP[:, -1] - values_RP[:, 0]),
        law=None if why else law,
        laws=None if why else fit(minutes_P, values_RP),
        why_none=why,
    )


def _missed(law: PowerLaws, minutes_P: Doubles, means_P: Doubles, values_RP: Doubles) -> float | None:
    """Return the minutes of the first point that is farther from the curve than its uncertainty allows."""
    places_RP = values_RP - values_RP.mean(axis=1, keepdims=True)  # an offset common to all sizes cannot bend a curve
    for place, (minutes, mean) in enumerate(zip(minutes_P, means_P, strict=True)):
        low, high = interval(places_RP[:, place])
        if abs(float(law.at(minutes)[0]) - mean) > (high - low) / 2:
            return float(minutes)
    return None
