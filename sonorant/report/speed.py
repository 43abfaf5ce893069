"""Latency, size and memory of every candidate. Knows nothing of what they sound like."""

from __future__ import annotations

from sonorant.report.charts import ChartRow, bars
from sonorant.report.document import Document
from sonorant.report.figures import grouped, megabytes, optional
from sonorant.report.markup import Cell, Html, element, note, section, table

ENOUGH = 100
"""Rounds from which on the slowest of a hundred is more than the slowest of all."""
CHARTED = "threads_1"
"""The number of threads of the charts; the table has all."""


def latency(metrics: Document, shipped: str) -> Html:
    """Charts of the median, one a class of sentences, and the table of everything that was timed."""
    speed = metrics["speed"]
    classes = list(
        dict.fromkeys(name for _, classes in speed.items() if not classes.not_run for name, _ in classes.items())
    )
    charts = [_chart(speed, name, shipped) for name in classes]
    rows = [
        _timed(candidate, name, figures)
        for candidate, found in speed.items()
        if not found.not_run
        for name, threads in found.items()
        for _, figures in threads.items()
    ]
    rows += _absent(speed)
    head = [
        "candidate",
        "sentence",
        "threads",
        "real-time factor",
        "p50, ms",
        "p95, ms",
        "p99, ms",
        "times fp32's speed",
    ]
    return section(
        "latency",
        "Latency",
        note(
            "Bars: median on one thread, lines: up to the 95th percentile. "
            "Times fp32's speed: measured in turn with it, above 1 is faster. "
            f"p99 from {ENOUGH} rounds on: of fewer it is nearly the slowest."
        ),
        element("div", *charts, class_="charts"),
        table("Timed", head, rows),
    )


def size_and_memory(metrics: Document) -> Html:
    """Size on disk of every variant, and what candidates take of memory."""
    sizes = [(name, found) for name, found in metrics["size"].items() if name != "bundle_bytes"]
    graphs = list(dict.fromkeys(graph for _, found in sizes for graph, _ in found["graphs"].items()))
    rows = [
        [
            name,
            megabytes(found["bytes"].number()),
            *(_bytes(found["graphs"], graph) for graph in graphs),
            f"{found['over_fp32'].number():.2f}",
        ]
        for name, found in sizes
    ]
    memory: list[list[Cell]] = [
        [candidate, *(optional(found, key, ".0f") for key in ("loaded_mib", "peak_mib"))]
        for candidate, found in metrics["memory"].items()
        if not found.not_run
    ]
    memory += _absent(metrics["memory"])
    return section(
        "size",
        "Size and memory",
        table("On disk", ["variant", "all graphs", *graphs, "of fp32's size"], rows),
        note(f"The bundle that was judged, with all variants: {megabytes(metrics['size']['bundle_bytes'].number())}."),
        table("Memory, MiB", ["candidate", "loaded", "peak while speaking"], memory),
    )


def _chart(speed: Document, name: str, shipped: str) -> Html:
    timed = [
        (candidate, found[name][CHARTED]) for candidate, found in speed.items() if not found.not_run and found.get(name)
    ]
    rows = [
        ChartRow(
            name=candidate,
            value=figures["p50_ms"].number(),
            high=figures["p95_ms"].number(),
            said=f"{figures['p50_ms'].number():.1f} ms",
            strong=candidate == shipped,
        )
        for candidate, figures in timed
    ]
    return bars(f"A {name} sentence ({timed[0][1]['seconds'].number():.1f} s of speech)", rows)


def _timed(candidate: str, name: str, figures: Document) -> list[Cell]:
    shown = [f"{figures[key].number():{form}}" for key, form in (("rtf", ".4f"), ("p50_ms", ".1f"), ("p95_ms", ".1f"))]
    slowest = f"{figures['p99_ms'].number():.1f}" if figures["repeats"].number() >= ENOUGH else None
    sentence = f"{name}, {figures['seconds'].number():.1f} s"
    return [
        candidate,
        sentence,
        f"{figures['threads'].number():.0f}",
        *shown,
        slowest,
        optional(figures, "over_fp32", ".2f"),
    ]


def _absent(measured: Document) -> list[list[Cell]]:
    """Rows of the candidates that have words in place of figures."""
    return [list(row) for row in grouped((name, found.text()) for name, found in measured.items() if found.not_run)]


def _bytes(graphs: Document, graph: str) -> str | None:
    found = graphs.get(graph)
    return megabytes(found.number()) if found else None
