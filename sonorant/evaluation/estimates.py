"""Figures as they stand in metrics.json."""

from collections.abc import Iterable
from typing import Any

Figures = dict[str, Any]
"""By name; a string in place of a figure is the reason for its absence ("not run: <why>")."""


def estimate(name: str, value: float, interval: Iterable[float], digits: int) -> Figures:
    """A rounded value and, as `<name>_ci95`, its 95 % interval."""
    return {name: round(float(value), digits), f"{name}_ci95": [round(float(end), digits) for end in interval]}
