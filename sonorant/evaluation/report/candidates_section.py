"""First screen, table of all candidates and their parity checks."""

from typing import NamedTuple

from sonorant.evaluation.recordings import RECORDINGS
from sonorant.evaluation.report.document import Document
from sonorant.pages.blocks import Badge, Cell, Section, Table, not_run

TIMES = {"p50_ms": ".1f", "rtf": ".4f", "speedup": ".2f"}


class Fact(NamedTuple):
    name: str
    value: str
    interval: str
    """95 % interval or unit; may be empty."""
    beside: str


class Headline(NamedTuple):
    title: str
    sentence: str
    facts: list[Fact]
    tally: list[tuple[Badge, str]]


def shipped(choice: Document) -> str:
    return f"{choice['runtime'].text()}/{choice['variant'].text()}"


def headline(choice: Document, metrics: Document) -> Headline:
    variant, size = choice["variant"].text(), metrics["size"]
    [row] = [row for row in choice["table"].rows() if row["candidate"].text() == shipped(choice)]
    delay, rtf, speedup = (row.figure(key, form=form) or "–" for key, form in TIMES.items())
    of_fp32 = f"{size.figure(variant, 'over_fp32', form='.2f')} of fp32's"
    facts = [
        _beside_recordings("Word error rate, %", metrics["intelligibility"], variant, "wer"),
        _beside_recordings("Naturalness (DNSMOS)", metrics["naturalness"], variant, "dnsmos", "ovrl", form=".2f"),
        Fact("Speed", f"{speedup} ×", "fp32's", f"{delay} ms per sentence, {rtf} of real time"),
        Fact("Size", size.megabytes(variant, "bytes") or "–", "", of_fp32),
    ]
    return Headline(f"{variant} on {choice['runtime'].text()} ships", choice["sentence"].text(), facts, _tally(choice))


def candidates(choice: Document) -> Section:
    ran = [row for row in choice["table"].rows() if not _not_run(row)]
    absent = [(row["candidate"].text(), row["reason"].text()) for row in choice["table"].rows() if _not_run(row)]
    rows = [
        [
            row["candidate"].text(),
            Badge("ships", "good") if row["candidate"].text() == shipped(choice) else _verdict(row),
            *(row.figure(key, form=form) for key, form in TIMES.items()),
            row.figure("wer", form=".1f"),
            row.estimate("wer_above_fp32", form="+.1f"),
            row.megabytes("bytes"),
            row["reason"].text(),
        ]
        for row in ran
    ]
    head = ["candidate", "verdict", "p50, ms", "real-time factor", "times fp32's speed", "WER, %", "above fp32, points"]
    note = f"Target: {choice['target'].text()}. In brackets: 95 % intervals, paired with fp32 on the same sentences."
    table = Table(caption="Candidates", head=[*head, "size", "why"], rows=rows, prose=["why"])
    return Section(anchor="choice", title="Choice", parts=[note, table, *not_run("Candidates", absent)])


def parity(found: Document) -> Section:
    compared = [graphs for _, checked in found.measured() if (graphs := checked.get("graphs"))]
    names = list(dict.fromkeys(graph for graphs in compared for graph, _ in graphs.items()))
    head = [*(f"{graph}: difference (allowed)" for graph in names), "log-mel distance, dB"]
    by_token = any(checked.get("tokens") for _, checked in found.measured())  # autoregressive voices
    head += ["greedy tokens equal to torch's"] if by_token else []
    rows = [
        [
            candidate,
            _verdict(checked),
            *(_difference(checked, name) for name in names),
            _farthest(checked),
            *([_same_tokens(checked.get("tokens"))] if by_token else []),
            failed.text() if (failed := checked.get("failed")) else None,
        ]
        for candidate, checked in found.measured()
    ]
    table = Table(caption="Parity", head=["candidate", "verdict", *head, "failed"], rows=rows, prose=["failed"])
    note = "Every precision and runtime compared with torch: int8 with the fake-quantised model, all others with float."
    return Section(anchor="parity", title="Parity check", parts=[note, table, *not_run("Parity", found.absent())])


def _beside_recordings(title: str, judged: Document, variant: str, *keys: str, form: str = ".1f") -> Fact:
    ours, theirs = (judged.estimate(kind, *keys, form=form) for kind in (variant, RECORDINGS))
    if ours is None or not ours[0].isdigit():  # a reason
        return Fact(title, "–", "", ours or "not rated")
    value, _, interval = ours.partition(" ")
    return Fact(title, value, interval, f"recordings {theirs or 'not rated'}")


def _tally(choice: Document) -> list[tuple[Badge, str]]:
    rows = choice["table"].rows()
    absent = sum(_not_run(row) for row in rows)
    failed = [row["candidate"].text() for row in rows if not row["passed"].flag() and not _not_run(row)]
    tally = [(Badge(f"{len(rows) - absent - len(failed)} passed", "good"), "")]
    tally += [(Badge(f"{len(failed)} failed", "bad"), ", ".join(failed))] if failed else []
    return tally + ([(Badge(f"{absent} not run", "none"), "")] if absent else [])


def _not_run(row: Document) -> bool:
    return row["reason"].text().startswith("not run")


def _verdict(row: Document) -> Badge:
    return Badge("passed", "good") if row["passed"].flag() else Badge("failed", "bad")


def _difference(checked: Document, graph: str) -> Cell:
    difference, tolerance = (
        checked.figure("graphs", graph, key, form=form) for key, form in (("max_abs_diff", ".1e"), ("tolerance", ".0e"))
    )
    return difference if difference == tolerance else f"{difference} ({tolerance})"  # equal: a reason, or both absent


def _farthest(checked: Document) -> Cell:
    graphs = checked.get("graphs")
    measured = [graph.get("log_mel_db") for _, graph in graphs.measured()] if graphs else []
    far = [distance.number() for distance in measured if distance]
    return f"{max(far):.3f}" if far else None


def _same_tokens(found: Document | None) -> Cell:
    if found is None or found.not_run:
        return found.not_run if found else None
    return f"{100 * found['share'].number():.2f} % of {found['decisions'].number():.0f}"
