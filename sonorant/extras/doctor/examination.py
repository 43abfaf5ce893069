"""Findings of all checks in order, as a table or as JSON."""

import json
import os
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, get_args

State = Literal["ok", "warning", "problem", "not run"]

WIDTH = 120
"""Columns of the table."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    area: str
    """versions, machine, storage or ranks."""
    name: str
    state: State
    """problem: training fails or is wrong; warning: it is slow or at risk; not run: could not be checked."""
    value: str
    """The finding, or why the check was not run."""
    hint: str = ""
    """What to do; empty if nothing."""

    def __post_init__(self) -> None:
        if self.state in ("warning", "problem") and not self.hint:
            raise ValueError(f"{self.area} {self.name}: a {self.state} needs a hint")


def ok(area: str, name: str, value: str) -> Finding:
    return Finding(area=area, name=name, state="ok", value=value)


def warning(area: str, name: str, value: str, hint: str) -> Finding:
    return Finding(area=area, name=name, state="warning", value=value, hint=hint)


def problem(area: str, name: str, value: str, hint: str) -> Finding:
    return Finding(area=area, name=name, state="problem", value=value, hint=hint)


def not_run(area: str, name: str, why: str, hint: str = "") -> Finding:
    return Finding(area=area, name=name, state="not run", value=why, hint=hint)


def table(findings: Iterable[Finding]) -> str:
    """Findings as aligned text, a block for each area, the hint below its finding."""
    findings = list(findings)
    name_width = max(len(finding.name) for finding in findings)
    lines = []
    for area, found in groupby(findings, key=lambda finding: finding.area):
        lines += ["", area]
        for finding in found:
            start = f"  {finding.state:<8} {finding.name:<{name_width}}  "
            indent = " " * len(start)
            lines += textwrap.wrap(start + finding.value, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
            if finding.hint:
                lines += textwrap.wrap(f"{indent}-> {finding.hint}", WIDTH, subsequent_indent=f"{indent}   ")
    totals = ", ".join(f"{count} {state}" for state, count in counts(findings).items())
    return "\n".join([*lines[1:], "", totals])


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    states = [finding.state for finding in findings]
    return {state: states.count(state) for state in get_args(State)}


def as_json(findings: Iterable[Finding]) -> str:
    findings = list(findings)
    value = {"findings": [asdict(finding) for finding in findings], "counts": counts(findings)}
    return json.dumps(value, indent=2, ensure_ascii=False)


def examine(*, features: Path | None, runs: Path | None, lock: Path | None, ranks: bool) -> Iterator[Finding]:
    """Yield findings as they are made.

    Args:
        features: feature store to read.
        runs: folder of run directories to write to.
        lock: requirements.lock.
        ranks: start ranks that average gradients, which takes some ten seconds.
    """
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        hint = "pip install 'sonorant[pipeline]'"
        yield not_run("versions", "torch", "not installed, so nothing can be checked for training", hint)
        return
    from sonorant.extras.doctor import gradient_test, machine, software, storage

    yield from software.examine(lock)
    yield from machine.examine(os.environ)
    if features:
        yield from storage.examine_read(features)
    if runs:
        yield from storage.examine_write(runs)
    if ranks:
        yield from gradient_test.examine(os.environ)
    else:
        yield not_run("ranks", "self-test", "left out (--no-ranks)")
