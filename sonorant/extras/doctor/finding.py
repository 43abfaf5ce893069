"""Findings of `sonorant doctor` and the table that lists them."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

State = Literal["ok", "warning", "problem", "not run"]


@dataclass(frozen=True)
class Finding:
    name: str
    state: State
    """`problem`: training would fail or be wrong; `warning`: it would be slow or at risk; `not run`: could not be
    checked."""
    value: str
    """What was found, or why the check was not run."""
    hint: str = ""


def ok(name: str, value: str) -> Finding:
    return Finding(name, "ok", value)


def warning(name: str, value: str, hint: str) -> Finding:
    return Finding(name, "warning", value, hint)


def problem(name: str, value: str, hint: str) -> Finding:
    return Finding(name, "problem", value, hint)


def not_run(name: str, why: str, hint: str = "") -> Finding:
    return Finding(name, "not run", why, hint)


def table(areas: Mapping[str, Iterable[Finding]]) -> str:
    width = max(len(finding.name) for found in areas.values() for finding in found)
    lines = []
    for area, found in areas.items():
        lines += ["", area]
        for finding in found:
            start = f"  {finding.state:<8} {finding.name:<{width}}  "
            indent = " " * len(start)
            lines += textwrap.wrap(start + finding.value, 120, subsequent_indent=indent, break_on_hyphens=False)
            if finding.hint:
                lines += textwrap.wrap(f"{indent}-> {finding.hint}", 120, subsequent_indent=f"{indent}   ")
    totals = ", ".join(f"{count} {state}" for state, count in counts(areas).items())
    return "\n".join([*lines[1:], "", totals])


def counts(areas: Mapping[str, Iterable[Finding]]) -> dict[str, int]:
    states = [finding.state for found in areas.values() for finding in found]
    return {state: states.count(state) for state in get_args(State)}
