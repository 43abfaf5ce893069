"""Which candidates (`<runtime>/<variant>`) are judged and timed: what the stage `verify` found. Knows nothing of how
they are judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.runtime.runtimes import BASELINE, REFERENCE, runtime_row


def read_parity(path: Path) -> dict[str, Any]:
    """`{candidate: {passed, failed, max_abs_diff: {graph}, tolerance: {graph}} | "not run: <why>"}` from the report of
    `verify`.

    Raises SonorantError naming the file if it is something else, or without `BASELINE`.
    """
    try:
        parity: dict[str, Any] = {
            candidate: row if isinstance(row, str) else _parity(row) for candidate, row in read_json(path).items()
        }
        if not parity[BASELINE]["passed"]:
            raise SonorantError(
                f"{path}: {BASELINE} did not pass: {parity[BASELINE]['failed']}; nothing else can be judged"
            )
        return parity
    except (AttributeError, KeyError, TypeError) as error:
        raise SonorantError(f"{path}: not what the stage verify writes ({error}); run it again") from None


def _parity(row: dict[str, Any]) -> dict[str, Any]:
    graphs = {
        graph: found for graph, found in (row.get("graphs") or {}).items() if not isinstance(found, str)
    }  # "not run: <why>"
    figures = {key: {graph: found[key] for graph, found in graphs.items()} for key in ("max_abs_diff", "tolerance")}
    tokens = {"tokens": row["tokens"]} if "tokens" in row else {}  # of voices that speak code by code
    return {"passed": row["passed"], "failed": row["failed"], **figures, **tokens}


def judged_variants(parity: dict[str, Any]) -> list[str]:
    """The variants that passed under ONNX Runtime on the CPU, fp32 first."""
    runtime, first = BASELINE.split("/")
    variants = [
        candidate.split("/", 1)[1]
        for candidate in parity
        if candidate.startswith(f"{runtime}/") and passed(parity[candidate])
    ]
    return sorted(variants, key=lambda variant: variant != first)


def timed_candidates(parity: dict[str, Any]) -> dict[str, str | None]:
    """Every candidate of `verify`, each with why it is not timed, or None. `REFERENCE` is all that is timed of torch,
    which cannot ship."""
    return {candidate: _why_not(candidate, row) for candidate, row in parity.items()}


def _why_not(candidate: str, row: Any) -> str | None:
    if isinstance(row, str):
        return row.removeprefix("not run: ")
    if not row["passed"]:
        return f"failed verify: {row['failed']}"
    if not runtime_row(candidate.split("/")[0]).standalone and candidate != REFERENCE:
        return "no bundle holds it; python -m benchmarks.latency times it, benchmarks.decoding that of a language model"
    return None


def passed(row: Any) -> bool:
    """Whether a row of parity says that the candidate ran and passed."""
    return isinstance(row, dict) and row["passed"]
