"""Report inputs as the stages write them."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.wav import write_wav
from sonorant.evaluation.report.report_page import ReportConfig, ReportInputs, write_report
from sonorant.evaluation.short_texts.faults import Faults, summarize
from sonorant.files import read_json, write_json, write_jsonl, write_text
from tests.support.tiny_voice import write_trained

RATE = 16000
KINDS = {"recordings": 0, "vocoder": 0, "fp32": 1, "fp16": 1, "int8": 2}
"""Kind to word errors in the second sentence."""
REFERENCES = ("Nobody knew why.", "The harbor lights <flickered> and went out.", "A thin layer of frost.")
HEARD = {
    0: "the harbor lights flickered and went out",
    1: "the harbor lights flicker and went out",
    2: "the harper lights went out",
}
DECODED = {
    "sentences": 3, "runaways": 1, "runaway_rate": 0.333, "runaway_rate_ci95": [0.06, 0.79], "retries": 2,
    "unrecovered": 0, "finish_reasons": {"well": 3},
}  # fmt: skip
PROVENANCE = {"git_commit": "c0ffee" * 6, "data": "1" * 64, "steps": 200, "validation_loss": 0.25}
NO_TENSORRT = "not run: TensorRT is not installed"
NOT_FINITE = "finite: decoder.mel holds NaN at length 3"


def write_inputs(folder: Path) -> ReportInputs:
    """Write all inputs below `folder`, deterministically."""
    acoustic, vocoder = write_trained(folder / "models")
    for role, model in (("predictor", acoustic), ("waveform", vocoder)):
        description = read_json(model / "model.json") | {"provenance": PROVENANCE}
        write_json(model / "model.json", description)
        write_text(model / "curves.csv", _curves())
        write_json(folder / "quantized" / role / "model.json", description | {"quantization": {"method": "ptq"}})
    reports = {stage.__name__: stage() for stage in (metrics, choice, parity, quantization, summary, audit)}
    for name, report in reports.items():
        write_json(folder / f"{name}.json", report)
    _write_evaluation(folder / "evaluation")
    write_family(folder, "parallel")
    return ReportInputs(
        **{name: folder / f"{name}.json" for name in reports},
        evaluation=folder / "evaluation",
        predictor=acoustic,
        waveform=vocoder,
        quantized=folder / "quantized",
        families=folder / "families",
        hashes={"data/prepared": "d41d8cd98f00b204e9800998ecf8427e.dir"},
    )


def drawn(inputs: ReportInputs, sentences: int = 6) -> str:
    """Write and return the page."""
    out = inputs.evaluation.parent / "page.html"
    write_report(out, inputs, ReportConfig(sentences=sentences))
    return out.read_text(encoding="utf-8")


def write_family(folder: Path, family: str, wrong: int = 1, sentences: str = "a" * 64) -> Path:
    """Evaluation of another family, with `wrong` word errors in the second sentence."""
    out = folder / "families" / family
    figures: dict[str, Any] = {
        "intelligibility": _error_rate(10 + wrong),
        "naturalness": {"duration_ratio": 1.01, "dnsmos": {"ovrl": 3.1}},
        "size": _size(16_000_000, 1.0),
        "speed": _speed(8.0 * (10 if family == "codec_lm" else 1)),
        "first_audio": {"p50_ms": 44.0, "p95_ms": 60.0, "sentences": 3},
        "decoding": DECODED if family == "codec_lm" else None,
    }
    summary = {"family": family, "sentences": {"count": 3, "sha256": sentences}, "variants": {"fp32": figures}}
    write_json(out / "family.json", summary)
    _write_evaluation(out, {"recordings": 0, "fp32": wrong})
    return out


def metrics() -> dict[str, Any]:
    judged = {kind: _error_rate(10 + wrong) for kind, wrong in KINDS.items()}
    for kind in list(KINDS)[1:]:
        judged[kind]["above_recordings"] = {"wer": 1.0, "wer_ci95": [-1.5, 3.5]}
    for kind in ("fp16", "int8"):
        judged[kind]["above_fp32"] = {"wer": 0.5, "wer_ci95": [-0.5, 1.5]}
    distance = {"mcd_db": 3.5, "log_mel_db": 2.5, "f0_rmse_cents": 160.0, "duration_ratio": 1.01, "utterances": 3}
    absent = "not run: speechmos is not installed"
    distance |= {"dnsmos": absent, "dnsmos_below_recordings": absent}
    distance |= {"speaker_similarity": "not run: webrtcvad is not installed", "voicing_error": 0.22}
    distance |= {"voicing_error_ci95": [0.2, 0.24], "tempo_ratio": 1.012, "tempo_ratio_ci95": [0.98, 1.04]}
    distance |= {"pulses_db": -8.2, "pulses_db_ci95": [-8.6, -7.8], "pitch_correlation": "not run: only 1 of 3"}
    speed = {"onnxruntime/fp32": _speed(10.0), "onnxruntime/int8": _speed(6.0, 1.6), "torch/fp32": _speed(15.0, 0.7)}
    size = {"fp32": _size(17_000_000, 1.0), "fp16": _size(8_600_000, 0.51), "int8": _size(4_800_000, 0.28)}
    system = {"python": "3.11", "system": "Linux", "cpu": "a processor", "cores": 2, "packages": {"numpy": "2.4.6"}}
    return {
        "family": "parallel",
        "intelligibility": judged,
        "naturalness": dict.fromkeys(list(KINDS)[1:], distance),
        "short_texts": short_texts(),
        "speed": speed | {"tensorrt/fp32": NO_TENSORRT},
        "size": {"bundle_bytes": 26_000_000} | size,
        "memory": {
            "onnxruntime/fp32": {"loaded_mib": 120.0, "peak_mib": 180.0},
            "onnxruntime/int8": {"loaded_mib": 90.0, "peak_mib": 140.0},
        },
        "parity": {},
        "evaluator": {"passed": True, "sentences": 3, "noise_wer": 100.0},
        "environment": system,
    }


def short_texts() -> dict[str, Any]:
    """With missing word times, a faulty variant and a silent one."""
    good = summarize([Faults()] * 20)
    bad = summarize([Faults()] * 19 + [Faults(babbled=("yes",))])
    cuts = "not run: the audit does not say where words are (no aligner ran)"
    spoken = {"yes_no": bad, "sentences": good, "short": bad, "held_out": good, "cut_words": cuts}
    recorded = {"held_out": good, "cut_words": cuts}
    return {"listener": "pocketsphinx 5", "recordings": recorded, "fp32": spoken, "int8": spoken, "fp16": "failed: NaN"}


def choice() -> dict[str, Any]:
    """int8 ships."""
    fast = {"p50_ms": 6.0, "rtf": 0.002, "speedup": 1.6, "wer": 12.0, "wer_above_fp32": 0.5}
    fast |= {"wer_above_fp32_ci95": [-0.5, 1.5], "bytes": 4_800_000}
    slow = {"p50_ms": 10.0, "rtf": 0.003, "speedup": 1.0, "wer": 11.0}
    return {
        "variant": "int8",
        "runtime": "onnxruntime",
        "target": "latency",
        "sentence": "int8 ships: 1.6 times as fast as fp32 and as well understood.",
        "table": [
            {"candidate": "onnxruntime/int8", "passed": True, "reason": "the fastest that passes"} | fast,
            {"candidate": "onnxruntime/fp32", "passed": True, "reason": "slower than int8"} | slow,
            {"candidate": "onnxruntime/fp16", "passed": False, "reason": NOT_FINITE},
            {"candidate": "tensorrt/fp32", "passed": False, "reason": NO_TENSORRT, "p50_ms": None},
        ],
    }


def parity() -> dict[str, Any]:
    """One passes, one fails, one did not run."""
    compared = {"max_abs_diff": 2e-6, "tolerance": 1e-3, "log_mel_db": 0.01, "cases": []}
    compared |= {"worst": {"length": 3, "output": "mel"}}
    passed = {"passed": True, "failed": None, "graphs": dict.fromkeys(("encoder", "decoder", "vocoder"), compared)}
    return {
        "onnxruntime/fp32": passed,
        "onnxruntime/int8": passed,
        "onnxruntime/fp16": {"passed": False, "failed": NOT_FINITE, "graphs": {"encoder": compared}},
        "tensorrt/fp32": NO_TENSORRT,
    }


def quantization() -> dict[str, Any]:
    figures = {"loss": 0.25, "loss_ci95": [0.2, 0.3], "log_mel_db": 2.5, "log_mel_db_ci95": [2.4, 2.6]}
    figures["utterances"] = 31
    above = {"loss_percent": 0.5, "loss_percent_ci95": [0.1, 0.9], "log_mel_db": 0.01, "log_mel_db_ci95": [0.0, 0.02]}
    layer = {"kind": "Linear", "weights": 36864}
    model = {
        "shipped": "ptq",
        "sentence": "training in int8 brings nothing over post-training quantisation, which ships",
        "figures": {
            "float": figures,
            "ptq": figures | {"above_float": above},
            "qat": "not run: quantize.method is ptq",
        },
        "max_layer_loss": 0.1,
        "measure": "log_mel_db",
        "sensitivity": [
            layer
            | {"layer": f"blocks.{place}.expand", "loss_percent": 0.01 * place, "log_mel_db": 0.001 * place}
            | {"stays_float": place == 13}
            for place in range(14)
        ],
    }
    return {"predictor": model, "waveform": model}


def summary() -> dict[str, Any]:
    share = {"utterances": 3, "hours": 0.002}
    return share | {
        "rejected": {"utterances": 1, "reasons": {"silent": 1}},
        "splits": {"train": share},
        "speakers": {"anna <script>alert(1)</script>": share},
        "languages": {"en-us": share},
        "sample_rates": {"16000": share},
        "seconds": {"min": 1.0, "median": 1.5, "max": 2.0},
        "unplaced": {"seconds": 12.4, "words": 7},
    }


def audit() -> dict[str, Any]:
    sources = {"aligner": "ran", "pocketsphinx": "not run: it hears English only"}
    faults = {"sound is cut at the end": 1}
    return {"utterances": 3, "sources": sources, "doubtful": 1, "faults": faults, "dropped": 0}


def _write_evaluation(folder: Path, kinds: dict[str, int] = KINDS) -> None:
    rows = []
    for index, reference in enumerate(REFERENCES):
        errors = {kind: wrong if index == 1 else 0 for kind, wrong in kinds.items()}
        heard = {kind: HEARD[wrong] if index == 1 else reference.lower().strip(".") for kind, wrong in errors.items()}
        row = {"id": f"set-{index}", "reference": reference, "words": len(reference.split())}
        spoken = [[word, 0.25 * place, 0.25 * place + 0.2] for place, word in enumerate(reference.split())]
        row["timings"] = {kind: spoken for kind in kinds if kind not in ("recordings", "vocoder")}
        rows.append(row | {"transcripts": heard, "word_errors": errors})
        if index < 2:  # the third has no samples
            for number, kind in enumerate(kinds):
                file = folder / "samples" / f"set-{index}.{'recording' if kind == 'recordings' else kind}.wav"
                write_wav(file, _sound(0.5 + 0.1 * index, 200 + 40 * number), RATE)
    write_jsonl(folder / "sentences.jsonl", rows)
    sample = "short_texts/1.int8.wav"
    write_wav(folder / sample, _sound(0.4, 300), RATE)
    faults = {"skipped": [], "repeated": ["yes"], "babbled": ["please"], "extra": 1}
    row = {"by": "int8", "kind": "yes_no", "text": "Yes, <please>.", "words": 2, "heard": "yes yes (babble)"}
    rest = {"by": "fp32", "kind": "names", "text": "Anna.", "words": 1, "heard": "anna", "faults": {}, "sample": None}
    write_jsonl(folder / "short_texts.jsonl", [row | {"faults": faults, "sample": sample}, rest])


def _sound(seconds: float, hertz: float) -> np.ndarray:
    time = np.arange(round(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * hertz * time * (1 + time))).astype(np.float32)


def _curves() -> str:
    rows = "step,train/loss,validation/loss\n"
    for step in range(10, 201, 10):
        rows += f"{step},{5 * math.exp(-step / 60) + 0.2:.5f},{'' if step % 50 else f'{0.3 + 1 / step:.5f}'}\n"
    return rows


def _error_rate(wer: float) -> dict[str, Any]:
    return {
        "wer": wer, "wer_ci95": [wer - 2, wer + 2], "cer": wer / 2, "cer_ci95": [wer / 2 - 1, wer / 2 + 1], "words": 13,
        "utterances": 3, "recognizer": "pocketsphinx", "revision": "pocketsphinx 5", "normalizer": "words-1",
    }  # fmt: skip


def _speed(milliseconds: float, ratio: float | None = None) -> dict[str, Any]:
    timed = {"p50_ms": milliseconds, "p95_ms": milliseconds * 1.2, "p99_ms": milliseconds * 1.5}
    timed |= {"rtf": milliseconds / 3000, "seconds": 3.0, "phonemes": 30, "threads": 1, "repeats": 3}
    if ratio is not None:
        timed["over_fp32"] = ratio
    return {name: {"threads_1": timed, "threads_all": timed | {"threads": 2}} for name in ("short", "medium", "long")}


def _size(total: int, ratio: float) -> dict[str, Any]:
    graphs = {"encoder": total // 4, "decoder": total // 4, "vocoder": total // 2}
    return {"bytes": total, "graphs": graphs, "over_fp32": ratio}
