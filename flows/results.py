"""What a pipeline run found, for people: rows and Markdown from reports/metrics.json. Knows nothing of Prefect and of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOT_MEASURED = "-"
SPOKEN = {"recordings": "the recordings", "vocoder": "vocoder's copy of them", "voice": "the voice"}


def intelligibility_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """One row for recordings, vocoder's copy and voice: word and character error rate in percent, the 95 % interval, words."""
    rows = []
    for key, name in SPOKEN.items():
        found = metrics.get("intelligibility", {}).get(key)
        if found:
            low, high = found["wer_ci95"]
            rows.append(
                {
                    "spoken by": name,
                    "WER %": f"{found['wer']:.1f}",
                    "95 % interval": f"{low:.1f} - {high:.1f}",
                    "CER %": f"{found['cer']:.1f}",
                    "words": str(found["words"]),
                }
            )
    return rows


def speed_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """One row for each runtime, sentence class and number of threads: real-time factor, median and 99th percentile in ms."""
    return [
        {
            "runtime": runtime,
            "sentences": length,
            "threads": threads.removeprefix("threads_"),
            "real-time factor": f"{found['rtf']:.4f}",
            "p50 ms": f"{found['p50_ms']:.1f}",
            "p99 ms": f"{found['p99_ms']:.1f}",
        }
        for runtime, lengths in metrics.get("speed", {}).items()
        if isinstance(lengths, dict)
        for length, by_threads in lengths.items()
        for threads, found in by_threads.items()
    ]


def stage_rows(seconds: Mapping[str, float]) -> list[dict[str, str]]:
    """One row a stage: how long it took."""
    return [{"stage": stage, "seconds": f"{value:.1f}"} for stage, value in seconds.items()]


def gate_rows(gates: Mapping[str, str]) -> list[dict[str, str]]:
    """One row a gate of the alias `champion`: what it said."""
    return [{"gate": name, "verdict": verdict} for name, verdict in gates.items()]


def markdown(title: str, sections: Mapping[str, Sequence[Mapping[str, str]]], links: Mapping[str, str]) -> str:
    """A page: a table a section (empty ones are left out), then the links, name to address or path."""
    parts = [f"# {title}"]
    for name, rows in sections.items():
        if rows:
            lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
            parts.append(f"## {name}\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    if links:
        parts.append("## Where it is\n" + "\n".join(f"- {name}: {_link(target)}" for name, target in links.items()))
    return "\n\n".join(parts) + "\n"


def plain_table(rows: Sequence[Mapping[str, str]]) -> str:
    """The rows as aligned text for a terminal."""
    if not rows:
        return f"  {NOT_MEASURED}"
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
    )


def _link(target: str) -> str:
    return f"[{target}]({target})" if target.startswith("http") else f"`{target}`"
