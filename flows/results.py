"""Format the results of a pipeline run as text."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonorant.plugins import load_family
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, models_page, shown

NOT_MEASURED = "-"
NEXT = """\
  {again}
  make serve                                  # start Prefect and MLflow: models, runs, charts, audio
  source .venv/bin/activate
  sonorant say --voice {voice} "Good morning." -o morning.wav
"""
AGAIN = "dvc repro                                   # the same stages, already up to date"
BOTH = "dvc repro                                   # the voice of params.yaml; its report shows both voices"


def summary(found: Mapping[str, Any]) -> str:
    """Format the flow's result as text, with paths relative to the current folder."""
    where, metrics, choice, version = Path(found["where"]), found["metrics"], found["choice"], found["version"]
    here = Path(os.path.relpath(where))
    ran = [row for row in choice_rows(choice) if not row["verdict"].startswith("not run: ")]
    sections = {
        "Word error rates": plain_table(intelligibility_rows(metrics)),
        "Compared with the recordings": plain_table(naturalness_rows(metrics)),
        "Shipped variant": f"  {choice.get('sentence', 'nothing was chosen')}\n{plain_table(ran)}\n"
        f"  candidates that could not run, and why: {here / 'reports/choice.json'}",
        "Seconds per stage": plain_table(stage_rows(found["seconds"])),
    }
    if speakers := speaker_rows(metrics, choice.get("variant")):
        sections["By speaker"] = plain_table(speakers)
    if metrics.get("codec"):
        sections["The codec"] = plain_table(codec_rows(metrics))
        sections["Decoding"] = plain_table(decoding_rows(metrics))
    if version:
        sections["Gates"] = plain_table(gate_rows(found["gates"]))
        sections["Registry"] = registry_lines(version, found["champion"])
    samples = sorted((where / "reports/evaluation").glob("samples/*.wav"))[:6]
    sections["Audio samples"] = "\n".join(f"  {here / path.relative_to(where)}" for path in samples) or "  no samples"
    sections["Report"] = f"  {here / 'reports/index.html'}"
    voice = os.path.relpath(found["voice"])
    sections["Next"] = NEXT.format(voice=voice, again=AGAIN if here == Path() else BOTH).rstrip()
    return "\n" + "\n\n".join(f"{title}\n{text}" for title, text in sections.items())


def registry_lines(version: Mapping[str, Any], champion: bool) -> str:
    alias = "champion" if champion else "challenger"
    address = shown(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE}")
    page = models_page(address, version["name"], version["version"])
    at = f"  {page}\n" if page else ""
    return (
        f"  models:/{version['name']}/{version['version']}, alias {alias}\n"
        f"{at}  export MLFLOW_TRACKING_URI={address}\n"
        f'  sonorant say "From the registry." --voice models:/{version["name"]}@{alias} -o registry.wav'
    )


def spoken_by(kind: str, metrics: Mapping[str, Any]) -> str:
    """Return a row's title: the recordings, the vocoder's or codec's copy of the recordings (key `vocoder`), or a
    variant."""
    waveform = load_family(metrics.get("family", "parallel")).waveform.title
    names = {"recordings": "the recordings", "vocoder": f"{waveform}'s copy of them"}
    return names.get(kind, f"the voice, {kind}")


def intelligibility_rows(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
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
    """Return word errors and speaker recognition of the shipped variant for each speaker; no rows for a single
    speaker."""
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
    return [
        {
            "variant": variant,
            "sentences": str(found["sentences"]),
            "ran away": str(found["runaways"]),
            "rate % (95 % interval)": _percent(found["runaway_rate"], *found["runaway_rate_ci95"]),
            "extra attempts": str(found["retries"]),
            "still abnormal": str(found["unrecovered"]),
            "first audio ms": _first_audio(metrics.get("first_audio", {}).get(variant)),
        }
        for variant, found in metrics.get("decoding", {}).items()
        if isinstance(found, dict)
    ]


def stage_rows(seconds: Mapping[str, float]) -> list[dict[str, str]]:
    return [{"stage": stage, "seconds": f"{value:.1f}"} for stage, value in seconds.items()]


def gate_rows(gates: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"gate": name, "verdict": verdict} for name, verdict in gates.items()]


def plain_table(rows: Sequence[Mapping[str, str]]) -> str:
    if not rows:
        return f"  {NOT_MEASURED}"
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    counted = [line for line in table if len(line) < 3 or any(line[2:])]  # a reason may extend over the other columns
    widths = [max(map(len, column)) for column in zip(*counted, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in table)
    return "\n".join("  " + "  ".join(line).rstrip() for line in padded)


def _percent(rate: float, low: float, high: float) -> str:
    return f"{100 * rate:.1f} ({100 * low:.1f} - {100 * high:.1f})"


def _first_audio(found: Any) -> str:
    return f"{found['p50_ms']:.0f} (p95 {found['p95_ms']:.0f})" if isinstance(found, dict) else NOT_MEASURED


def _figure(value: Any, form: str, scale: float = 1.0) -> str:
    return f"{value * scale:{form}}" if isinstance(value, int | float) else NOT_MEASURED
