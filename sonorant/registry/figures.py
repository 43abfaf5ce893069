"""Look up values in reports/metrics.json, the shipped variant of a bundle, and the figures that decide."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.speech.bundle import Bundle

BESIDE = ("recordings", "vocoder")
"""Entries of `intelligibility` and `naturalness` that are not variants."""
BY_VARIANT = ("intelligibility", "naturalness", "first_audio", "short_texts", "decoding", "size")
"""Sections of metrics.json with an entry per variant; other sections have one per candidate."""


@dataclass(frozen=True, kw_only=True)
class Shipped:
    runtime: str
    """Name of the runtime in `sonorant.speech.runtimes.RUNTIMES`."""
    variant: str
    bytes: int

    @property
    def candidate(self) -> str:
        return f"{self.runtime}/{self.variant}"


def shipped(bundle: Bundle) -> Shipped:
    """Return the variant and runtime chosen by the stage `choose`, or the default variant with ONNX Runtime."""
    choice, graphs = bundle.description.choice, bundle.description.graphs
    variant = choice.get("variant") or next(iter(graphs.values())).default_variant
    size = sum(graph.variants[variant].bytes for graph in graphs.values() if variant in graph.variants)
    return Shipped(runtime=choice.get("runtime") or "onnxruntime", variant=variant, bytes=size)


def deciding(metrics: Mapping[str, Any], runtime: str, variant: str) -> dict[str, float]:
    """Return the figures in deciding.json, those that gates and choice read, of one candidate; absent ones are left
    out."""
    keys = {"variant": variant, "candidate": f"{runtime}/{variant}"}
    places = read_json(Path(__file__).with_name("deciding.json")).items()
    found = {name: number(metrics, *place.format(**keys).split()) for name, place in places}
    return {name: value for name, value in found.items() if value is not None}


def check_judged(bundle: Bundle, metrics: Mapping[str, Any]) -> None:
    """Raise SonorantError unless `metrics` were measured on the graphs of the shipped variant."""
    variant = shipped(bundle).variant
    judged = entry(metrics, "size", variant, "sha256")
    if not isinstance(judged, Mapping):
        raise SonorantError(f"key 'size.{variant}.sha256' is missing; run evaluate again")
    for name, graph in bundle.description.graphs.items():
        if variant in graph.variants and graph.variants[variant].sha256 != judged.get(name):
            raise SonorantError(f"{bundle.folder}: its {name} ({variant}) is not the measured one; run evaluate again")


def number(values: Any, *keys: str) -> float | None:
    """Return the number at the path `keys`, or None if missing or not finite."""
    value = entry(values, *keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def needed(values: Any, *keys: str) -> float:
    """Return the number at the path `keys`. If it is missing, raises SonorantError with the reason recorded instead."""
    value = number(values, *keys)
    if value is not None:
        return value
    path = [entry(values, *keys[:length]) for length in range(len(keys) + 1)]
    why = next((found for found in path if isinstance(found, str)), "missing; run evaluate again")
    raise SonorantError(f"{'.'.join(keys)}: {why}")


def estimate(values: Any, *keys: str) -> tuple[float, tuple[float, float]]:
    """Return the number at the path `keys` and its 95 % interval. Raises SonorantError if either is missing."""
    value, bounds = needed(values, *keys), entry(values, *keys[:-1], f"{keys[-1]}_ci95")
    low, high = (number(bound) for bound in bounds) if isinstance(bounds, (list, tuple)) else (None, None)
    if low is None or high is None:
        raise SonorantError(f"{'.'.join(keys)} has no 95 % interval; run evaluate again")
    return value, (low, high)


def entry(values: Any, *keys: str) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def variants(metrics: Mapping[str, Any]) -> list[str]:
    candidates = [key for section in ("speed", "parity", "memory") for key in metrics.get(section) or {} if "/" in key]
    heard = [key for key in metrics.get("intelligibility") or {} if key not in BESIDE]
    return sorted({candidate.split("/", 1)[1] for candidate in candidates} | set(heard))


def of_variant(metrics: Mapping[str, Any], variant: str) -> dict[str, Any]:
    found = {section: entry(metrics, section, variant) for section in BY_VARIANT}
    for section in ("speed", "parity", "memory"):
        candidates = metrics.get(section) or {}
        ours = {key: value for key, value in candidates.items() if key.endswith(f"/{variant}")}
        found[section] = {key.split("/", 1)[0]: value for key, value in ours.items()}
    return {section: figures for section, figures in found.items() if isinstance(figures, Mapping) and figures}
