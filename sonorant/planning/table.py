"""A forecast as aligned text for people. Computes nothing."""

from __future__ import annotations

from typing import Any

TITLES = {
    "parameters": "parameters",
    "memory_mib": "memory a process, MiB",
    "micro_batch": "micro-batch",
    "speed": "speed, measured here",
    "until_the_end": "until the last step",
    "work_a_step": "work a step, counted",
    "estimate": "ESTIMATE, at best",
}


def table(forecast: dict[str, Any]) -> str:
    """A block a part of the forecast, what would help last."""
    lines = [f"plan of the {forecast['model']} model"]
    for part, title in TITLES.items():
        if part in forecast:
            lines += ["", title, *(f"  {name:<26}{value}" for name, value in _rows(forecast[part]))]
    return "\n".join([*lines, "", "what would help", *(f"  {line}" for line in forecast["would_help"])])


def _rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows.append((name.replace("_", " "), ", ".join(f"{key} {_short(part, name)}" for key, part in value.items())))
        elif value != "":
            rows.append((name.replace("_", " "), _short(value, name)))
    return rows


def _short(value: Any, name: str) -> str:
    if name == "shares":
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
