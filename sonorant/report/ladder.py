"""The ladder of checks against torch, candidate by candidate. Knows nothing of listening."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.markup import Html, badge, note, section, table
from sonorant.report.verdict import status


def ladder(parity: Document) -> Html:
    """Which rung stopped which candidate, and how far each graph is from torch."""
    graphs = list(
        dict.fromkeys(
            graph
            for _, found in parity.items()
            if not found.not_run and found.get("graphs")
            for graph, _ in found["graphs"].items()
        )
    )
    rows = [_row(candidate, found, graphs) for candidate, found in parity.items()]
    head = ["candidate", "verdict", *(f"{graph}: difference (allowed)" for graph in graphs), "stopped by"]
    return section(
        "ladder",
        "The ladder",
        note(
            "Every precision and runtime against torch: int8 against torch's fake-quantised model, all others against its float model."
        ),
        table("Parity", head, rows, prose=("stopped by",)),
    )


def _row(candidate: str, found: Document, graphs: list[str]) -> list[str | None]:
    if found.not_run:
        return [candidate, badge("not run", "none"), found.not_run]
    failed = found.get("failed")
    compared = found.get("graphs")
    return [
        candidate,
        status(found["passed"].flag(), failed.text() if failed else None),
        *(_difference(compared, graph) for graph in graphs),
        failed.text() if failed else None,
    ]


def _difference(compared: Document | None, graph: str) -> str | None:
    found = compared.get(graph) if compared else None
    if found is None:
        return None
    return found.not_run or f"{found['max_abs_diff'].number():.1e} ({found['tolerance'].number():.0e})"
