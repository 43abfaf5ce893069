"""Sections on latency, size and memory."""

from sonorant.evaluation.report.document import Document
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table, not_run
from sonorant.pages.charts import Chart, ChartRow, Charts, bars

ENOUGH = 100
"""Minimum rounds for a 99th percentile."""
CHARTED = "threads_1"
"""Thread count of the charts; the table has all."""


def latency(metrics: Document, shipped: str) -> Section:
    """Median latency by sentence class, and a table of all timings."""
    speed = metrics["speed"]
    timed = [(candidate, name, threads) for candidate, found in speed.measured() for name, threads in found.items()]
    charts = [_chart(speed, name, shipped) for name in dict.fromkeys(name for _, name, _ in timed)]
    rows = [_timed(candidate, name, run) for candidate, name, threads in timed for _, run in threads.items()]
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
    parts: list[Part] = [
        "Bars: median on one thread, lines: up to the 95th percentile. Times fp32's speed: measured in turn with it, "
        f"above 1 is faster. p99 from {ENOUGH} rounds on: of fewer it is nearly the slowest.",
        Charts(charts=charts),
        Fold(summary="all timings", parts=[Table(caption="Timed", head=head, rows=rows)]),
        *not_run("Timed", speed.absent()),
    ]
    return Section(anchor="latency", title="Latency", parts=parts)


def size_and_memory(metrics: Document) -> Section:
    """Disk size by variant, memory by candidate."""
    sizes = [(name, found) for name, found in metrics["size"].items() if name != "bundle_bytes"]
    graphs = list(dict.fromkeys(graph for _, found in sizes for graph, _ in found["graphs"].items()))
    rows = [_size(name, found, graphs) for name, found in sizes]
    memory = metrics["memory"]
    used: list[list[Cell]] = [
        [candidate, *(found.figure(key, ".0f") for key in ("loaded_mib", "peak_mib"))]
        for candidate, found in memory.measured()
    ]
    parts: list[Part] = [
        Table(caption="On disk", head=["variant", "all graphs", *graphs, "of fp32's size"], rows=rows),
        f"The bundle that was judged, with all variants: {metrics['size'].megabytes('bundle_bytes')}.",
        Table(caption="Memory, MiB", head=["candidate", "loaded", "peak while speaking"], rows=used),
        *not_run("Memory", memory.absent()),
    ]
    return Section(anchor="size", title="Size and memory", parts=parts)


def _chart(speed: Document, name: str, shipped: str) -> Chart:
    timed = [(candidate, found[name][CHARTED]) for candidate, found in speed.measured() if found.get(name)]
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


def _timed(candidate: str, name: str, run: Document) -> list[Cell]:
    rtf, p50, p95, threads = (run[key].number() for key in ("rtf", "p50_ms", "p95_ms", "threads"))
    slowest = f"{run['p99_ms'].number():.1f}" if run["repeats"].number() >= ENOUGH else None
    sentence = f"{name}, {run['seconds'].number():.1f} s"
    figures = [f"{threads:.0f}", f"{rtf:.4f}", f"{p50:.1f}", f"{p95:.1f}"]
    return [candidate, sentence, *figures, slowest, run.figure("over_fp32", ".2f")]


def _size(name: str, found: Document, graphs: list[str]) -> list[Cell]:
    total, parts = f"{found['bytes'].number() / 1e6:.2f} MB", [found["graphs"].megabytes(graph) for graph in graphs]
    return [name, total, *parts, f"{found['over_fp32'].number():.2f}"]
