"""The ladder of checks against torch, candidate by candidate. Knows nothing of listening."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.figures import grouped
from sonorant.report.markup import Cell, Html, badge, note, section, table
from sonorant.report.verdict import status

SAME_TOKENS = "greedy tokens that are torch's"


def ladder(parity: Document) -> Html:
    """Which rung stopped which candidate, and how far each graph is from torch."""
    climbed = [(candidate, found) for candidate, found in parity.items() if not found.not_run]
    graphs = list(
        dict.fromkeys(graph for _, found in climbed if found.get("graphs") for graph, _ in found["graphs"].items())
    )
    by_token = [SAME_TOKENS] if any(found.get("tokens") for _, found in climbed) else []
    rows = [_row(candidate, found, graphs, bool(by_token)) for candidate, found in climbed]
    absent = grouped((candidate, found.text()) for candidate, found in parity.items() if found.not_run)
    rows += [[names, badge("not run", "none"), words] for names, words in absent]
    differences = [f"{graph}: difference (allowed)" for graph in graphs]
    head = ["candidate", "verdict", *differences, "log-mel distance, dB", *by_token, "stopped by"]
    return section(
        "ladder",
        "The ladder",
        note(
            "Every precision and runtime against torch: int8 against torch's fake-quantised model, all others against its float model."
        ),
        table("Parity", head, rows, prose=("stopped by",)),
    )


def _row(candidate: str, found: Document, graphs: list[str], by_token: bool) -> list[Cell]:
    failed = found.get("failed")
    compared = found.get("graphs")
    return [
        candidate,
        status(found["passed"].flag()),
        *(_difference(compared, graph) for graph in graphs),
        _log_mel(compared),
        *([_same_tokens(found.get("tokens"))] if by_token else []),
        failed.text() if failed else None,
    ]


def _difference(compared: Document | None, graph: str) -> str | None:
    found = compared.get(graph) if compared else None
    if found is None:
        return None
    return found.not_run or f"{found['max_abs_diff'].number():.1e} ({found['tolerance'].number():.0e})"


def _same_tokens(found: Document | None) -> str | None:
    """`99.76 % of 408`, where greedy tokens were compared."""
    if found is None:
        return None
    return found.not_run or f"{100 * found['share'].number():.2f} % of {found['decisions'].number():.0f}"


def _log_mel(compared: Document | None) -> str | None:
    """The largest over the graphs, where it was measured."""
    measured = [found.get("log_mel_db") for _, found in compared.items() if not found.not_run] if compared else []
    distances = [distance.number() for distance in measured if distance]
    return f"{max(distances):.3f}" if distances else None
