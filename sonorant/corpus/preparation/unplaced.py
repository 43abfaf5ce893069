"""What a corpus of long recordings holds that no utterance does: speech without a text, text without speech."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sonorant.files import read_jsonl
from sonorant.pages.blocks import Section, Table

SHOWN = 200
"""Rows of each table on the page; the corpus' unplaced.jsonl has all."""


def read_unplaced(corpus: Path) -> list[dict[str, Any]] | None:
    """The rows of the corpus' unplaced.jsonl; None where it has none, as corpora of short recordings.

    Raises SonorantError naming file and line.
    """
    file = corpus / "unplaced.jsonl"
    return read_jsonl(file) if file.exists() else None


def summarize_unplaced(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """`seconds` of speech without a place, and `words` of the texts."""
    return {
        "seconds": round(sum(row["end"] - row["start"] for row in rows if "start" in row), 3),
        "words": sum(row["words"] for row in rows if "words" in row),
    }


def unplaced_section(rows: Sequence[dict[str, Any]]) -> Section:
    """The page's section, with the longest parts first."""
    speech = sorted((row for row in rows if "start" in row), key=lambda row: row["start"] - row["end"])
    texts = sorted((row for row in rows if "words" in row), key=lambda row: -row["words"])
    parts: list[Table | str] = []
    if speech:
        found = [
            [row["name"], f"{row['start']:.1f}", f"{row['end']:.1f}", row["heard"], row["why"]]
            for row in speech[:SHOWN]
        ]
        head = ["recording", "from, s", "to, s", "heard", "why"]
        parts.append(Table(caption="Speech without a text", head=head, rows=found, prose=["heard", "why"]))
    if texts:
        lost = [[row["name"], str(row["words"]), row["text"], row["why"]] for row in texts[:SHOWN]]
        head = ["recording", "words", "text", "why"]
        parts.append(Table(caption="Text without speech", head=head, rows=lost, prose=["text", "why"]))
    if len(speech) > SHOWN or len(texts) > SHOWN:
        parts.append("All of them are in the corpus' unplaced.jsonl.")
    total = summarize_unplaced(rows)
    title = f"Without a place: {total['seconds']:.0f} s of speech, {total['words']:.0f} words"
    return Section(anchor="unplaced", title=title, parts=parts)
