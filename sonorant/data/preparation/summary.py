"""The figures of a prepared corpus. Knows nothing of how they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from sonorant.data.manifest import SPLITS, Utterance


def summarize(accepted: list[Utterance], rejected: Counter[str]) -> dict[str, Any]:
    """Return the figures of the accepted utterances (at least one, all fields set) and the rejected ones by reason, as plain JSON.

    Durations in seconds, amounts in hours; a share has `utterances` and `hours`.
    """
    seconds = np.array([utterance.seconds for utterance in accepted])
    characters = Counter(character for utterance in accepted for character in utterance.text)
    return {
        "utterances": len(accepted),
        "hours": _hours(accepted),
        "rejected": {"utterances": rejected.total(), "reasons": dict(rejected.most_common())},
        "splits": {split: _share([u for u in accepted if u.split == split]) for split in SPLITS},
        "speakers": _shares(accepted, lambda utterance: utterance.speaker),
        "languages": _shares(accepted, lambda utterance: utterance.language),
        "sample_rates": _shares(accepted, lambda utterance: str(utterance.sample_rate)),
        "seconds": _spread(seconds),
        "characters_per_second": _spread(speaking_rates(accepted)),
        "characters": dict(sorted(characters.items(), key=lambda item: (-item[1], item[0]))),
    }


def speaking_rates(utterances: list[Utterance]) -> np.ndarray:
    """Return characters of the spoken text by second, (U,) float64."""
    return np.array([len(utterance.spoken or "") / (utterance.seconds or 1.0) for utterance in utterances])


def _shares(utterances: list[Utterance], key: Callable[[Utterance], str]) -> dict[str, dict[str, float]]:
    return {name: _share([u for u in utterances if key(u) == name]) for name in sorted({key(u) for u in utterances})}


def _share(utterances: list[Utterance]) -> dict[str, float]:
    return {"utterances": len(utterances), "hours": _hours(utterances)}


def _hours(utterances: list[Utterance]) -> float:
    return round(sum(utterance.seconds or 0.0 for utterance in utterances) / 3600, 4)


def _spread(values: np.ndarray) -> dict[str, float]:
    names = ("min", "p5", "median", "p95", "max")
    quantiles = np.percentile(values, [0, 5, 50, 95, 100])
    return {name: round(float(value), 3) for name, value in zip(names, quantiles, strict=True)} | {
        "mean": round(float(values.mean()), 3)
    }
