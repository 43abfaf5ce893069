"""The headline: what ships, why, and what became of every candidate. Knows nothing of how that was decided."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.figures import grouped, megabytes, optional, with_interval
from sonorant.report.kinds import RECORDINGS
from sonorant.report.markup import Cell, Html, badge, element, note, section, table


def shipped(choice: Document) -> str:
    """The candidate that ships, as runtime/variant."""
    return f"{choice['runtime'].text()}/{choice['variant'].text()}"


def headline(choice: Document, metrics: Document) -> Html:
    """The verdict in a sentence, and the figures of what ships."""
    variant = choice["variant"].text()
    judged, size = metrics["intelligibility"][variant], metrics["size"][variant]
    row = next((row for row in choice["table"].rows() if row["candidate"].text() == shipped(choice)), None)
    facts = [
        ("Word error rate, %", with_interval(judged, "wer")),
        ("the recordings' own, %", with_interval(metrics["intelligibility"][RECORDINGS], "wer")),
        ("Speed over onnxruntime/fp32", (row and optional(row, "speedup", ".2f")) or "–"),
        ("Size of the graphs", megabytes(size["bytes"].number())),
    ]
    listed = [element("div", element("dt", name), element("dd", value)) for name, value in facts]
    return element(
        "header",
        element("p", "Sonorant · report of a voice", class_="over"),
        element("h1", f"{variant} on {choice['runtime'].text()} ships"),
        element("p", choice["sentence"].text(), class_="sentence"),
        element("dl", *listed, class_="facts"),
        _tally(choice),
    )


def candidates(choice: Document) -> Html:
    """The table that led to the choice: every candidate with its verdict."""
    ships = shipped(choice)
    met = [row for row in choice["table"].rows() if not _not_run(row)]
    rows: list[list[Cell]] = [
        [row["candidate"].text(), _verdict(row, ships), *_figures(row), row["reason"].text()] for row in met
    ]
    absent = grouped((row["candidate"].text(), row["reason"].text()) for row in choice["table"].rows() if _not_run(row))
    rows += [[names, badge("not run", "none"), words] for names, words in absent]
    head = [
        "candidate",
        "verdict",
        "p50, ms",
        "real-time factor",
        "times fp32's speed",
        "WER, %",
        "above fp32, points",
        "size",
        "why",
    ]
    return section(
        "choice",
        "The choice",
        note(
            f"Target: {choice['target'].text()}. In brackets: 95 % intervals, paired with fp32 on the same sentences."
        ),
        table("Candidates", head, rows, prose=("why",)),
    )


def status(passed: bool) -> Html:
    """Passed or failed, as a badge."""
    return badge("passed", "good") if passed else badge("failed", "bad")


def _tally(choice: Document) -> Html:
    """How many candidates passed, failed, by name, and were not run."""
    rows = choice["table"].rows()
    absent = [row for row in rows if _not_run(row)]
    failed = [row["candidate"].text() for row in rows if not row["passed"].flag() and not _not_run(row)]
    parts: list[str] = [badge(f"{len(rows) - len(absent) - len(failed)} passed", "good")]
    if failed:
        parts += [" ", badge(f"{len(failed)} failed", "bad"), f" {', '.join(failed)}"]
    if absent:
        parts += [" ", badge(f"{len(absent)} not run", "none")]
    return element("p", *parts, class_="badges")


def _not_run(row: Document) -> bool:
    return row["reason"].text().startswith("not run")


def _verdict(row: Document, ships: str) -> Html:
    if row["candidate"].text() == ships:
        return badge("ships", "good")
    return status(row["passed"].flag())


def _figures(row: Document) -> list[Cell]:
    above = (
        with_interval(row, "wer_above_fp32", "+.1f")
        if row.get("wer_above_fp32_ci95")
        else optional(row, "wer_above_fp32", "+.1f")
    )
    size = row.get("bytes")
    return [
        optional(row, "p50_ms", ".1f"),
        optional(row, "rtf", ".4f"),
        optional(row, "speedup", ".2f"),
        optional(row, "wer", ".1f"),
        above,
        megabytes(size.number()) if size else None,
    ]
