"""Figures of several ranks as a row of metrics. Knows nothing of what they measure."""

from __future__ import annotations

DETAILED = 8
"""Ranks up to which each has metrics of its own; of more, the largest value and whose it is."""


def mean(figures: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over the ranks; a rank without it counts as zero."""
    return {name: sum(row.get(name, 0.0) for row in figures) / len(figures) for name in _names(figures)}


def by_rank(group: str, figures: list[dict[str, float]]) -> dict[str, float]:
    """Rows of the ranks, by rank, as `<group>/rank<rank>/<name>`, or `<group>/largest/<name>` and `<group>/largest_rank/<name>`."""
    if len(figures) <= DETAILED:
        return {f"{group}/rank{rank}/{name}": value for rank, row in enumerate(figures) for name, value in row.items()}
    row: dict[str, float] = {}
    for name in _names(figures):
        value, rank = max((found[name], -rank) for rank, found in enumerate(figures) if name in found)
        row |= {f"{group}/largest/{name}": value, f"{group}/largest_rank/{name}": float(-rank)}
    return row


def _names(figures: list[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for row in figures for name in row))
