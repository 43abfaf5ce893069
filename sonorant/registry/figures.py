"""Look up figures in reports/metrics.json, and a bundle's default variant."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sonorant.errors import SonorantError
from sonorant.speech.bundle import Bundle

BESIDE = ("recordings", "vocoder")
"""Entries of `intelligibility` and `naturalness` that are not variants."""
BY_VARIANT = ("intelligibility", "naturalness", "first_audio", "short_texts", "decoding", "size")
"""Sections by variant; the others are by candidate."""


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """Default voice of a bundle."""

    runtime: str
    """Key of `sonorant.speech.runtimes.RUNTIMES`."""
    variant: str
    """Precision of the graphs."""
    bytes: int
    """Size of the variant's graphs."""

    @property
    def candidate(self) -> str:
        return f"{self.runtime}/{self.variant}"


def shipped(bundle: Bundle) -> Shipped:
    """The choice of the stage `choose`; without one, the default variant under ONNX Runtime."""
    choice, graphs = bundle.description.choice, bundle.description.graphs
    variant = choice.get("variant") or next(iter(graphs.values())).default_variant
    size = sum(graph.variants[variant].bytes for graph in graphs.values() if variant in graph.variants)
    return Shipped(runtime=choice.get("runtime") or "onnxruntime", variant=variant, bytes=size)


def check_judged(bundle: Bundle, metrics: Mapping[str, Any]) -> None:
    """Raise SonorantError unless the figures belong to the graphs of the default variant."""
    variant = shipped(bundle).variant
    judged = entry(metrics, "size", variant, "sha256")
    if not isinstance(judged, Mapping):
        raise SonorantError(f"does not say which graphs of {variant} were judged; run evaluate again")
    for name, graph in bundle.description.graphs.items():
        if variant in graph.variants and graph.variants[variant].sha256 != judged.get(name):
            raise SonorantError(f"judged another {name} of {variant} than {bundle.folder} holds; run evaluate on it")


def number(values: Any, *keys: str) -> float | None:
    """The finite number at a key path, or None."""
    value = entry(values, *keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def interval(values: Any, *keys: str) -> tuple[float, float] | None:
    """The finite interval at a key path, or None."""
    value = entry(values, *keys)
    bounds = [number(bound) for bound in value] if isinstance(value, (list, tuple)) else []
    finite = [bound for bound in bounds if bound is not None]
    return (finite[0], finite[1]) if len(finite) == len(bounds) == 2 else None


def entry(values: Any, *keys: str) -> Any:
    """The value at a key path, or None."""
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def variants(metrics: Mapping[str, Any]) -> list[str]:
    """All evaluated variants."""
    candidates = [key for section in ("speed", "parity", "memory") for key in metrics.get(section) or {} if "/" in key]
    heard = [key for key in metrics.get("intelligibility") or {} if key not in BESIDE]
    return sorted({candidate.split("/", 1)[1] for candidate in candidates} | set(heard))


def of_variant(metrics: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """One variant's figures, under the same keys for all variants."""
    found = {section: entry(metrics, section, variant) for section in BY_VARIANT}
    for section in ("speed", "parity", "memory"):
        candidates = metrics.get(section) or {}
        ours = {key: value for key, value in candidates.items() if key.endswith(f"/{variant}")}
        found[section] = {key.split("/", 1)[0]: value for key, value in ours.items()}
    return {section: figures for section, figures in found.items() if isinstance(figures, Mapping) and figures}
