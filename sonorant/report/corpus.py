"""The corpus in figures. Knows nothing of voices."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.markup import Html, note, section, table

SHARES = {"splits": "split", "speakers": "speaker", "languages": "language", "sample_rates": "sample rate, Hz"}


def corpus(summary: Document) -> Html:
    """How much there is of what, and what was refused."""
    rows = [
        [f"{name}: {value}", f"{share['utterances'].number():.0f}", f"{share['hours'].number():.3f}"]
        for key, name in SHARES.items()
        for value, share in summary[key].items()
    ]
    seconds, rejected = summary["seconds"], summary["rejected"]
    reasons = ", ".join(f"{reason} {count.number():.0f}" for reason, count in rejected["reasons"].items())
    return section(
        "corpus",
        "Corpus",
        note(
            f"{summary['utterances'].number():.0f} utterances, {summary['hours'].number():.2f} hours, {seconds['min'].number():.1f} to "
            f"{seconds['max'].number():.1f} s long, median {seconds['median'].number():.1f} s. Rejected: "
            f"{rejected['utterances'].number():.0f}{f' ({reasons})' if reasons else ''}."
        ),
        table("Utterances", ["", "utterances", "hours"], rows),
    )
