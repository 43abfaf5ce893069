"""The headline: what ships, why, and what became of every candidate. Knows nothing of how that was decided."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.figures import megabytes, optional, with_interval
from sonorant.report.kinds import RECORDINGS
from sonorant.report.markup import Html, badge, element, note, section, table


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
    rows = [[row["candidate"].text(), _verdict(row, ships), *_figures(row), row["reason"].text()] for row in choice["table"].rows()]
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
        note(f"Target: {choice['target'].text()}. In brackets: 95 % intervals, paired with fp32 on the same sentences."),
        table("Candidates", head, rows, prose=("why",)),
    )


def status(passed: bool, words: str | None) -> Html:
    """Passed, failed or not run, as a badge."""
    if passed:
        return badge("passed", "good")
    return badge("not run", "none") if words is not None and words.startswith("not run") else badge("failed", "bad")


def _tally(choice: Document) -> Html:
    """How many candidates passed, and which failed or were not run, by name."""
    passed: list[str] = []
    failed: list[str] = []
    not_run: list[str] = []
    for row in choice["table"].rows():
        absent = row["reason"].text().startswith("not run")
        (passed if row["passed"].flag() else not_run if absent else failed).append(row["candidate"].text())
    parts: list[str] = [badge(f"{len(passed)} passed", "good")]
    for names, words, kind in ((failed, "failed", "bad"), (not_run, "not run", "none")):
        if names:
            parts += [" ", badge(f"{len(names)} {words}", kind), f" {', '.join(names)}"]
    return element("p", *parts, class_="badges")


def _verdict(row: Document, ships: str) -> Html:
    if row["candidate"].text() == ships:
        return badge("ships", "good")
    return status(row["passed"].flag(), row["reason"].text())


def _figures(row: Document) -> list[str | None]:
    above = (
        with_interval(row, "wer_above_fp32", "+.1f") if row.get("wer_above_fp32_ci95") else optional(row, "wer_above_fp32", "+.1f")
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
