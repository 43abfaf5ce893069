"""What one look at the machine found, and how findings are shown. Knows nothing of what was looked at."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, get_args

State = Literal["ok", "warning", "problem", "not run"]

WIDTH = 132


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing about the machine."""

    area: str
    """The kind of thing: versions, devices, links, machine, network, storage, ranks."""
    name: str
    """The thing."""
    state: State
    """problem: training fails or is wrong; warning: it is slow or at risk; not run: could not be looked at."""
    value: str
    """What was seen; why, where it was not run."""
    hint: str = ""
    """What to do; empty where nothing is."""

    def __post_init__(self) -> None:
        if self.state in ("warning", "problem") and not self.hint:
            raise ValueError(f"{self.area} {self.name}: a {self.state} needs a hint")


def ok(area: str, name: str, value: str) -> Finding:
    """As it should be."""
    return Finding(area=area, name=name, state="ok", value=value)


def warning(area: str, name: str, value: str, hint: str) -> Finding:
    """Training works, but slowly or at risk."""
    return Finding(area=area, name=name, state="warning", value=value, hint=hint)


def problem(area: str, name: str, value: str, hint: str) -> Finding:
    """Training fails, or its result is wrong."""
    return Finding(area=area, name=name, state="problem", value=value, hint=hint)


def not_run(area: str, name: str, why: str, hint: str = "") -> Finding:
    """Could not be looked at."""
    return Finding(area=area, name=name, state="not run", value=why, hint=hint)


def table(findings: Iterable[Finding]) -> str:
    """Findings as aligned text, an area a block, the hint under its finding."""
    findings = list(findings)
    name_width = max(len(finding.name) for finding in findings)
    lines = []
    area = None
    for finding in findings:
        if finding.area != area:
            area = finding.area
            lines += ["", area]
        start = f"  {finding.state:<8} {finding.name:<{name_width}}  "
        indent = " " * len(start)
        lines += textwrap.wrap(start + finding.value, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
        if finding.hint:
            lines += textwrap.wrap(f"-> {finding.hint}", WIDTH, initial_indent=indent, subsequent_indent=indent + "   ")
    totals = ", ".join(f"{count} {state}" for state, count in counts(findings).items())
    return "\n".join([*lines[1:], "", totals])


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings of each state."""
    states = [finding.state for finding in findings]
    return {state: states.count(state) for state in get_args(State)}


def as_json(findings: Iterable[Finding]) -> str:
    """Findings as one JSON object."""
    findings = list(findings)
    return json.dumps(
        {"findings": [asdict(finding) for finding in findings], "counts": counts(findings)},
        indent=2,
        ensure_ascii=False,
    )
