import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sonorant.audio.wav import write_wav
from sonorant.evaluation.report.report_page import ReportConfig, ReportInputs, write_report
from sonorant.files import read_json, write_json, write_jsonl, write_text
from tests.support.tiny_voice import write_trained

RATE = 16000
KINDS = {"recordings": 0, "vocoder": 0, "fp32": 1, "fp16": 1, "int8": 2}
"""Number of word errors in the second sentence, by kind."""
REFERENCES = ("Nobody knew why.", "The harbor lights <flickered> and went out.", "A thin layer of frost.")
HEARD = {
    0: "the harbor lights flickered and went out",
    1: "the harbor lights flicker and went out",
    2: "the harper lights went out",
}
PROVENANCE = {"git_commit": "c0ffee" * 6, "data": "1" * 64, "steps": 200, "validation_loss": 0.25}
STAGES = ("metrics", "choice", "parity", "quantization", "summary", "audit")


def reports() -> dict[str, Any]:
    return dict(yaml.safe_load(Path(__file__).with_name("reports.yaml").read_text(encoding="utf-8")))


def write_inputs(folder: Path) -> ReportInputs:
    """Write all inputs below `folder`, deterministically."""
    acoustic, vocoder = write_trained(folder / "models")
    for role, model in (("predictor", acoustic), ("waveform", vocoder)):
        description = read_json(model / "model.json") | {"provenance": PROVENANCE}
        write_json(model / "model.json", description)
        write_text(model / "curves.csv", _curves())
        write_json(folder / "quantized" / role / "model.json", description | {"quantization": {"method": "ptq"}})
    found = reports()
    for name in STAGES:
        write_json(folder / f"{name}.json", found[name])
    _write_evaluation(folder / "evaluation")
    write_family(folder, "parallel")
    return ReportInputs(
        **{name: folder / f"{name}.json" for name in STAGES},
        evaluation=folder / "evaluation",
        predictor=acoustic,
        waveform=vocoder,
        quantized=folder / "quantized",
        families=folder / "families",
        hashes={"data/prepared": "d41d8cd98f00b204e9800998ecf8427e.dir"},
    )


def drawn(inputs: ReportInputs, sentences: int = 6) -> str:
    out = inputs.evaluation.parent / "page.html"
    write_report(out, inputs, ReportConfig(sentences=sentences))
    return out.read_text(encoding="utf-8")


def write_family(folder: Path, family: str, wrong: int = 1, sentences: str = "a" * 64) -> None:
    """Evaluation of another family, with `wrong` word errors in the second sentence."""
    found, out = reports(), folder / "families" / family
    figures = found["family"] | ({"decoding": found["decoded"]} if family == "codec_lm" else {})
    summary = {"family": family, "sentences": {"count": 3, "sha256": sentences}, "variants": {"fp32": figures}}
    write_json(out / "family.json", summary)
    _write_evaluation(out, {"recordings": 0, "fp32": wrong})


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
