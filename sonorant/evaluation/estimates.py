"""Figures in the form of metrics.json."""

from collections.abc import Iterable
from typing import Any

Figures = dict[str, Any]
"""Metrics by name. A string instead of a value is the reason why it is missing ("not run: <why>")."""


def estimate(name: str, value: float, interval: Iterable[float], digits: int) -> Figures:
    """Return a rounded value and, as `<name>_ci95`, its 95 % interval."""
    return {name: round(float(value), digits), f"{name}_ci95": [round(float(end), digits) for end in interval]}
