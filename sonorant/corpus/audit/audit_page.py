"""The audit as one HTML page that needs nothing beside it."""

from typing import Any

import numpy as np

from sonorant.corpus.audit.findings import Audited
from sonorant.pages.blocks import Section, Table, render
from sonorant.pages.charts import Charts, columns

SHOWN = 200
BINS = 40


def audit_page(summary: dict[str, Any], audited: list[Audited]) -> str:
    """What judged, how the scores are spread, and the worst utterances first."""
    sources = [[name, said] for name, said in summary["sources"].items()]
    kinds = [[fault, str(count)] for fault, count in summary["faults"].items()]
    parts: list[Any] = [Table(caption="What judged", head=["source", "state"], rows=sources, prose=["state"])]
    if not sources:
        parts = ["Nothing judged: audit.sources is empty."]
    if kinds:
        parts.append(Table(caption="Likely faults", head=["fault", "utterances"], rows=kinds))
    ran = any(said == "ran" for said in summary["sources"].values())
    if ran:
        parts.append(Charts(charts=[_scores([row.score for row in audited])]))
    sections = [Section(anchor="judged", title="Judged", parts=parts)]
    if ran:
        worst = sorted(audited, key=lambda row: (-row.score, row.id))[:SHOWN]
        head = ["id", "score", "likely fault", "text; doubtful words in brackets", "heard"]
        rows = [[row.id, f"{row.score:.3f}", _fault(row), _marked(row), "; ".join(row.heard.values())] for row in worst]
        table = Table(caption="The worst first", head=head, rows=rows, prose=head[2:])
        hint = "Hear and decide: sonorant review. All of them are in audit.jsonl."
        sections.append(Section(anchor="worst", title="Worst", parts=[hint, table]))
    title = f"Audit: {summary['doubtful']} of {summary['utterances']} utterances are doubtful"
    return render(__package__, "audit.html", title=title, sections=sections)


def _fault(row: Audited) -> str | None:
    return f"{row.fault}: {row.reading}" if row.reading else row.fault


def _marked(row: Audited) -> str:
    return " ".join(f"[{word.text}]" if word.doubtful else word.text for word in row.words)


def _scores(scores: list[float]) -> Any:
    counts, edges = np.histogram(scores, bins=BINS, range=(0, 1))
    labels = [(float(place), f"{edges[place]:.2g}") for place in range(0, BINS + 1, BINS // 4)]
    unit = "probability that text and sound do not match"
    return columns("Score: utterances", unit, counts.tolist(), labels, logarithmic=True)
