"""Sections on the shipped candidate and on all candidates with their parity checks."""

from typing import NamedTuple

from sonorant.evaluation.report.document import RECORDINGS, Document
from sonorant.pages.blocks import Badge, Cell, Section, Table, not_run

TIMES = {"p50_ms": ".1f", "rtf": ".4f", "speedup": ".2f"}
SAME_TOKENS = "greedy tokens equal to torch's"


class Fact(NamedTuple):
    """One headline figure with its reference."""

    name: str
    value: str
    interval: str
    """95 % interval, or unit; may be empty."""
    beside: str


class Headline(NamedTuple):
    title: str
    sentence: str
    facts: list[Fact]
    tally: list[tuple[Badge, str]]
    """Counts of passed, failed and skipped candidates."""


def shipped(choice: Document) -> str:
    """The shipped candidate, as runtime/variant."""
    return f"{choice['runtime'].text()}/{choice['variant'].text()}"


def headline(choice: Document, metrics: Document) -> Headline:
    """Shipped candidate: word error rate and naturalness beside the recordings', speed and size."""
    variant, judged, size = choice["variant"].text(), metrics["intelligibility"], metrics["size"]
    row = next((row for row in choice["table"].rows() if row["candidate"].text() == shipped(choice)), None)
    delay, rtf, speedup = ((row and row.figure(key, form)) or "–" for key, form in TIMES.items())
    whole, of_fp32 = size[variant].megabytes("bytes"), size[variant]["over_fp32"].number()
    facts = [
        _words(judged, variant),
        _naturalness(metrics["naturalness"], variant),
        Fact("Speed", f"{speedup} ×", "fp32's", f"{delay} ms a sentence, {rtf} of real time"),
        Fact("Size", whole or "–", "", f"{of_fp32:.2f} of fp32's"),
    ]
    return Headline(f"{variant} on {choice['runtime'].text()} ships", choice["sentence"].text(), facts, _tally(choice))


def candidates(choice: Document) -> Section:
    """Table of all candidates with the reason for or against each."""
    rows = [_candidate(row, shipped(choice)) for row in choice["table"].rows() if not _not_run(row)]
    head = ["candidate", "verdict", "p50, ms", "real-time factor", "times fp32's speed", "WER, %", "above fp32, points"]
    note = f"Target: {choice['target'].text()}. In brackets: 95 % intervals, paired with fp32 on the same sentences."
    table = Table(caption="Candidates", head=[*head, "size", "why"], rows=rows, prose=["why"])
    absent = not_run(
        "Candidates", ((r["candidate"].text(), r["reason"].text()) for r in choice["table"].rows() if _not_run(r))
    )
    return Section(anchor="choice", title="Choice", parts=[note, table, *absent])


def parity(found: Document) -> Section:
    """Deviation of each candidate's graphs from torch, and failures."""
    compared = [graphs for _, checked in found.measured() if (graphs := checked.get("graphs"))]
    names = list(dict.fromkeys(graph for graphs in compared for graph, _ in graphs.items()))
    by_token = [SAME_TOKENS] if any(checked.get("tokens") for _, checked in found.measured()) else []
    head = [
        "candidate",
        "verdict",
        *(f"{graph}: difference (allowed)" for graph in names),
        "log-mel distance, dB",
        *by_token,
    ]
    rows = [_checked(candidate, checked, names, bool(by_token)) for candidate, checked in found.measured()]
    table = Table(caption="Parity", head=[*head, "failed"], rows=rows, prose=["failed"])
    note = "Every precision and runtime against torch: int8 against the fake-quantised model, all others against float."
    return Section(anchor="parity", title="Parity check", parts=[note, table, *not_run("Parity", found.absent())])


def _words(judged: Document, variant: str) -> Fact:
    name = "Word error rate, %"
    if why := judged[variant].not_run:
        return Fact(name, "–", "", why)
    return Fact(name, *_split(judged[variant].estimate("wer")), f"recordings {judged[RECORDINGS].estimate('wer')}")


def _naturalness(natural: Document, variant: str) -> Fact:
    """DNSMOS with the recordings'."""
    name, rated, recorded = ("Naturalness (DNSMOS)", _rating(natural.get(variant)), _rating(natural.get(RECORDINGS)))
    if rated is None or rated.not_run:
        return Fact(name, "–", "", (rated and rated.not_run) or "not rated")
    beside = f"recordings {_rated(recorded)}" if recorded and not recorded.not_run else "recordings not rated"
    return Fact(name, *_split(_rated(rated)), beside)


def _split(estimate: str) -> tuple[str, str]:
    value, _, interval = estimate.partition(" ")
    return value, interval


def _rating(found: Document | None) -> Document | None:
    return found.get("dnsmos") if found and not found.not_run else None


def _rated(rated: Document) -> str:
    return rated.estimate("ovrl", ".2f") if rated.get("ovrl_ci95") else f"{rated['ovrl'].number():.2f}"


def _tally(choice: Document) -> list[tuple[Badge, str]]:
    rows = choice["table"].rows()
    absent = sum(_not_run(row) for row in rows)
    failed = [row["candidate"].text() for row in rows if not row["passed"].flag() and not _not_run(row)]
    tally = [(Badge(f"{len(rows) - absent - len(failed)} passed", "good"), "")]
    tally += [(Badge(f"{len(failed)} failed", "bad"), ", ".join(failed))] if failed else []
    return tally + ([(Badge(f"{absent} not run", "none"), "")] if absent else [])


def _not_run(row: Document) -> bool:
    return row["reason"].text().startswith("not run")


def _candidate(row: Document, ships: str) -> list[Cell]:
    name = row["candidate"].text()
    verdict = Badge("ships", "good") if name == ships else _verdict(row)
    timed = [row.figure(key, form) for key, form in (TIMES | {"wer": ".1f"}).items()]
    paired = row.get("wer_above_fp32_ci95")
    above = row.estimate("wer_above_fp32", "+.1f") if paired else row.figure("wer_above_fp32", "+.1f")
    return [name, verdict, *timed, above, row.megabytes("bytes"), row["reason"].text()]


def _checked(candidate: str, checked: Document, names: list[str], by_token: bool) -> list[Cell]:
    compared, failed = checked.get("graphs"), checked.get("failed")
    found = [compared.get(name) if compared else None for name in names]
    far = [d.number() for graph in found if graph and not graph.not_run and (d := graph.get("log_mel_db"))]
    tokens = [_same_tokens(checked.get("tokens"))] if by_token else []
    distance = f"{max(far):.3f}" if far else None
    return [
        candidate,
        _verdict(checked),
        *map(_difference, found),
        distance,
        *tokens,
        failed.text() if failed else None,
    ]


def _verdict(row: Document) -> Badge:
    return Badge("passed", "good") if row["passed"].flag() else Badge("failed", "bad")


def _difference(found: Document | None) -> str | None:
    """`6.8e-06 (1e-03)`."""
    if found is None:
        return None
    return found.not_run or f"{found['max_abs_diff'].number():.1e} ({found['tolerance'].number():.0e})"


def _same_tokens(found: Document | None) -> str | None:
    """`99.76 % of 408`."""
    if found is None:
        return None
    return found.not_run or f"{100 * found['share'].number():.2f} % of {found['decisions'].number():.0f}"
