"""Sections on latency, size and memory."""

from sonorant.evaluation.report.document import Document
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table, not_run
from sonorant.pages.charts import Chart, ChartRow, Charts, bars

ENOUGH = 100


def latency(metrics: Document, shipped: str) -> Section:
    speed = metrics["speed"]
    timed = [(candidate, name, threads) for candidate, found in speed.measured() for name, threads in found.items()]
    charts = [_chart(speed, name, shipped) for name in dict.fromkeys(name for _, name, _ in timed)]
    rows = [_timed(candidate, name, run) for candidate, name, threads in timed for _, run in threads.items()]
    head = ["candidate", "sentence", "threads", "real-time factor", "p50, ms", "p95, ms", "p99, ms"]
    table = Table(caption="Timed", head=[*head, "times fp32's speed"], rows=rows)
    parts: list[Part] = [
        "Bars: median on one thread; lines: up to the 95th percentile. Times fp32's speed: timed alternately with "
        f"fp32; above 1 is faster. The 99th percentile requires {ENOUGH} rounds.",
        Charts(charts=charts),
        Fold(summary="all timings", parts=[table]),
        *not_run("Timed", speed.absent()),
    ]
    return Section(anchor="latency", title="Latency", parts=parts)


def size_and_memory(metrics: Document) -> Section:
    sizes = [(name, found) for name, found in metrics["size"].items() if name != "bundle_bytes"]
    graphs = list(dict.fromkeys(graph for _, found in sizes for graph, _ in found["graphs"].items()))
    memory = metrics["memory"]
    rows: list[list[Cell]] = [
        [
            name,
            found.megabytes("bytes"),
            *(found.megabytes("graphs", graph) for graph in graphs),
            found.figure("over_fp32", form=".2f"),
        ]
        for name, found in sizes
    ]
    used = [[name, found.figure("loaded_mib"), found.figure("peak_mib")] for name, found in memory.measured()]
    parts: list[Part] = [
        Table(caption="On disk", head=["variant", "all graphs", *graphs, "relative to fp32"], rows=rows),
        f"The evaluated bundle with all variants: {metrics['size'].megabytes('bundle_bytes')}.",
        Table(caption="Memory, MiB", head=["candidate", "loaded", "peak while speaking"], rows=used),
        *not_run("Memory", memory.absent()),
    ]
    return Section(anchor="size", title="Size and memory", parts=parts)


def _chart(speed: Document, name: str, shipped: str) -> Chart:
    timed = [(candidate, found[name]["threads_1"]) for candidate, found in speed.measured() if found.get(name)]
    rows = [
        ChartRow(
            name=candidate,
            value=run["p50_ms"].number(),
            high=run["p95_ms"].number(),
            said=f"{run.figure('p50_ms', form='.1f')} ms",
            strong=candidate == shipped,
        )
        for candidate, run in timed
    ]
    return bars(f"A {name} sentence ({timed[0][1].figure('seconds', form='.1f')} s of speech)", rows)


def _timed(candidate: str, name: str, run: Document) -> list[Cell]:
    sentence = f"{name}, {run.figure('seconds', form='.1f')} s"
    figures = [run.figure(key, form=form) for key, form in (("rtf", ".4f"), ("p50_ms", ".1f"), ("p95_ms", ".1f"))]
    slowest = run.figure("p99_ms", form=".1f") if run["repeats"].number() >= ENOUGH else None
    return [candidate, sentence, run.figure("threads"), *figures, slowest, run.figure("over_fp32", form=".2f")]
