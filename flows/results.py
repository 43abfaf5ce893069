"""The results of a pipeline run for people: rows and Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from sonorant.plugins import load_family

NOT_MEASURED = "-"


def spoken_by(kind: str, metrics: Mapping[str, Any]) -> str:
    """The speaker: the recordings, the vocoder's or codec's copy of them (the key `vocoder`), or a variant."""
    waveform = load_family(metrics.get("family", "parallel")).waveform.title
    names = {"recordings": "the recordings", "vocoder": f"{waveform}'s copy of them"}
    return names.get(kind, f"the voice, {kind}")


def intelligibility_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for recordings, copy and each variant: error rates in percent, 95 % interval, paired points above fp32."""
    rows = []
    for key, found in metrics.get("intelligibility", {}).items():
        row = {"spoken by": spoken_by(key, metrics)}
        if isinstance(found, str):
            rows.append(row | {"WER %": found, "95 % interval": "", "CER %": "", "above fp32": "", "words": ""})
            continue
        low, high = found["wer_ci95"]
        above = found.get("above_fp32")
        row |= {
            "WER %": f"{found['wer']:.1f}",
            "95 % interval": f"{low:.1f} - {high:.1f}",
            "CER %": f"{found['cer']:.1f}",
            "above fp32": "{:+.1f} ({:+.1f} to {:+.1f})".format(above["wer"], *above["wer_ci95"]) if above else "",
            "words": str(found["words"]),
        }
        rows.append(row)
    return rows


def speaker_rows(metrics: Mapping[str, Any], variant: str | None) -> list[dict[str, str]]:
    """A row for each speaker of a voice of several, as the variant that ships speaks: words above the recordings', and
    how many sentences are recognised as theirs."""
    found = metrics.get("speakers") or []
    recognised = (metrics.get("confusion") or {}).get(variant)
    own = {row["speaker"]: row for row in recognised} if isinstance(recognised, list) else {}
    rows = []
    for row in found if len(found) > 1 else ():
        heard = (row["intelligibility"] or {}).get(variant, "not judged")
        shown = {"speaker": row["speaker"], "sentences": str(row["sentences"]), "WER %": heard, "above recordings": ""}
        if isinstance(heard, dict):
            above = heard["above_recordings"]
            beyond = "{:+.1f} ({:+.1f} to {:+.1f})".format(above["wer"], *above["wer_ci95"])
            shown |= {"WER %": f"{heard['wer']:.1f}", "above recordings": beyond}
        known = own.get(row["speaker"])
        rows.append(shown | {"recognised %": _percent(known["recognised"], *known["recognised_ci95"]) if known else ""})
    return rows


def choice_rows(choice: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each candidate, the chosen one marked: median latency, speedup over fp32, error rate, size, reason."""
    chosen = f"{choice.get('runtime')}/{choice.get('variant')}"
    return [
        {
            "candidate": f"{row['candidate']} (ships)" if row["candidate"] == chosen else row["candidate"],
            "p50 ms": _figure(row["p50_ms"], ".1f"),
            "times fp32's speed": _figure(row["speedup"], ".2f"),
            "WER %": _figure(row["wer"], ".1f"),
            "MB": _figure(row["bytes"], ".1f", 1e-6),
            "verdict": row["reason"],
        }
        for row in choice.get("table", [])
    ]


def naturalness_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for recordings, copy and each variant: distances from the recordings, DNSMOS; a dash = not run."""
    return [
        {
            "spoken by": spoken_by(key, metrics),
            "mel-cepstral dB": _figure(found.get("mcd_db"), ".2f"),
            "log-mel dB": _figure(found.get("log_mel_db"), ".2f"),
            "pitch cents": _figure(found.get("f0_rmse_cents"), ".0f"),
            "length": _figure(found.get("duration_ratio"), ".3f"),
            "DNSMOS": _figure(found["dnsmos"]["ovrl"] if isinstance(found.get("dnsmos"), dict) else None, ".2f"),
        }
        for key, found in metrics.get("naturalness", {}).items()
        if isinstance(found, dict)
    ]


def codec_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for the codec, if there is one: its bit rate and the share of codes in use."""
    found = metrics.get("codec")
    if not found:
        return []
    return [
        {
            "bit/s": f"{found['bits_per_second']:.0f}",
            "frames/s": f"{found['frames_per_second']:.2f}",
            "codebooks": str(len(found["use"])),
            "codes in use %": ", ".join(f"{100 * use:.0f}" for use in found["use"]),
        }
    ]


def decoding_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each variant of an autoregressive voice: runaways, retries, time to the first audio."""
    return [
        {
            "variant": variant,
            "sentences": str(found["sentences"]),
            "ran away": str(found["runaways"]),
            "rate % (95 % interval)": _percent(found["runaway_rate"], *found["runaway_rate_ci95"]),
            "attempts more": str(found["retries"]),
            "still not well": str(found["unrecovered"]),
            "first audio ms": _first_audio(metrics.get("first_audio", {}).get(variant)),
        }
        for variant, found in metrics.get("decoding", {}).items()
        if isinstance(found, dict)
    ]


def speed_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each candidate, sentence class and thread count: real-time factor, milliseconds, speedup over fp32."""
    rows = []
    for candidate, lengths in metrics.get("speed", {}).items():
        if isinstance(lengths, str):
            columns = ("sentences", "threads", "real-time factor", "p50 ms", "p95 ms", "times fp32's speed")
            rows.append({"candidate": candidate} | dict.fromkeys(columns, "") | {"sentences": lengths})
            continue
        rows += [
            {
                "candidate": candidate,
                "sentences": length,
                "threads": threads.removeprefix("threads_"),
                "real-time factor": f"{found['rtf']:.4f}",
                "p50 ms": f"{found['p50_ms']:.1f}",
                "p95 ms": f"{found['p95_ms']:.1f}",
                "times fp32's speed": _figure(found.get("over_fp32"), ".2f"),
            }
            for length, by_threads in lengths.items()
            for threads, found in by_threads.items()
        ]
    return rows


def memory_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each candidate that ran: its process's memory when loaded, and the peak while speaking."""
    return [
        {"candidate": candidate, "loaded MiB": f"{found['loaded_mib']:.0f}", "peak MiB": f"{found['peak_mib']:.0f}"}
        for candidate, found in metrics.get("memory", {}).items()
        if isinstance(found, dict)
    ]


def stage_rows(seconds: Mapping[str, float]) -> list[dict[str, str]]:
    return [{"stage": stage, "seconds": f"{value:.1f}"} for stage, value in seconds.items()]


def gate_rows(gates: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"gate": name, "verdict": verdict} for name, verdict in gates.items()]


def markdown(title: str, sections: Mapping[str, Sequence[Mapping[str, str]]], links: Mapping[str, str]) -> str:
    """A page: a table for each section that is not empty, then the links, name to address or path."""
    parts = [f"# {title}"]
    for name, rows in sections.items():
        if rows:
            cells = [[cell.replace("|", "/") for cell in row.values()] for row in rows]
            lines = [list(rows[0]), ["---"] * len(rows[0]), *cells]
            parts.append(f"## {name}\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    if links:
        parts.append("## Where it is\n" + "\n".join(f"- {name}: {_link(target)}" for name, target in links.items()))
    return "\n\n".join(parts) + "\n"


def plain_table(rows: Sequence[Mapping[str, str]]) -> str:
    if not rows:
        return f"  {NOT_MEASURED}"
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    counted = [line for line in table if len(line) < 3 or any(line[2:])]  # a reason alone runs over the rest
    widths = [max(map(len, column)) for column in zip(*counted, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in table)
    return "\n".join("  " + "  ".join(line).rstrip() for line in padded)


def _link(target: str) -> str:
    return f"[{target}]({target})" if target.startswith("http") else f"`{target}`"


def _percent(rate: float, low: float, high: float) -> str:
    return f"{100 * rate:.1f} ({100 * low:.1f} - {100 * high:.1f})"


def _first_audio(found: Any) -> str:
    return f"{found['p50_ms']:.0f} (p95 {found['p95_ms']:.0f})" if isinstance(found, dict) else NOT_MEASURED


def _figure(value: Any, form: str, scale: float = 1.0) -> str:
    return f"{value * scale:{form}}" if isinstance(value, int | float) else NOT_MEASURED
