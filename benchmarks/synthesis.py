"""Real-time factor of speaking, by runtime and threads: `python -m benchmarks.synthesis`. Knows nothing of how well the voice sounds.

Runtimes take turns within each repeat, so that what else the machine does falls on all of them alike; figures are medians.
`processor_rtf` counts processor time instead of wall time: on one thread a busy neighbour hardly moves it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.report import finish, save_option
from sonorant.audio.mel import MelConfig
from sonorant.export.onnx import ExportConfig
from sonorant.export.voice import export_voice
from sonorant.models.acoustic import AcousticConfig
from sonorant.models.saved import build_acoustic, build_vocoder, save_model
from sonorant.models.vocoder import VocoderConfig
from sonorant.runtime.bundle import Lengths
from sonorant.runtime.voice import Voice
from sonorant.text import TextConfig, load_frontend
from tasks.params import load
from tasks.stage import run

SENTENCES = {
    "short": "Good morning.",
    "medium": "The train was late again, so we walked along the river.",
    "long": "When the rain had stopped at last, the children ran out into the garden, where the old dog was already waiting for them "
    "beside the gate, and nobody thought of going home before the lamps were lit.",
}
RUNTIMES = ("torch", "onnxruntime")
PAUSE = 0.005
LENGTHS = Lengths(tokens=(10, 40, 90, 130), frames=(60, 240, 500, 750))
"""Seconds between two runs, in which the threads of the one before go to sleep."""


def main() -> None:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.synthesis", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "--voice", type=Path, default=Path("artifacts/voice"), help="voice bundle; random weights where it is absent"
    )
    parser.add_argument("--acoustic", type=Path, default=Path("models/acoustic"), help="its trained acoustic model")
    parser.add_argument("--vocoder", type=Path, default=Path("models/vocoder"), help="its trained vocoder")
    parser.add_argument("--repeats", type=int, default=30, help="timed runs of each figure")
    save_option(parser)
    arguments = parser.parse_args()
    with _voice(arguments) as (bundle, trained, weights):
        result: dict[str, Any] = {"weights": weights, "parameters": _parameters(trained)}
        cores = len(os.sched_getaffinity(0))
        for threads in sorted({1, cores}):
            result[f"threads_{threads}"] = _measure(bundle, trained, threads, arguments.repeats)
    medium = result["threads_1"]["medium"]
    claims = {
        "ONNX Runtime on one thread speaks a medium sentence at a real-time factor of at most 0.05": medium["onnxruntime"]["rtf"]
        <= 0.05,
        "ONNX Runtime is not slower than torch on one thread": medium["onnxruntime_over_torch"] <= 1.0,
    }
    finish("synthesis", result, claims, arguments.save)


def _measure(bundle: Path, trained: tuple[Path, Path], threads: int, repeats: int) -> dict[str, Any]:
    voices = {
        name: Voice.load(bundle, runtime=name, threads=threads, trained=trained if name == "torch" else None) for name in RUNTIMES
    }
    measured: dict[str, Any] = {}
    for length, text in SENTENCES.items():
        tokens = voices["torch"].symbols.encode(voices["torch"].frontend.speak(text).phonemes)[None].astype(np.int64)
        for voice in voices.values():
            _run(voice, tokens)
        times: dict[str, list[list[float]]] = {name: [] for name in RUNTIMES}
        for _ in tqdm(range(repeats), desc=f"{length}, {threads} threads", unit="run"):
            for name, voice in voices.items():
                time.sleep(PAUSE)
                *timed, frames = _run(voice, tokens)
                times[name].append(timed)
        seconds = frames * voice.description.audio.hop / voice.sample_rate
        measured[length] = {"seconds": round(seconds, 2), "phonemes": tokens.shape[1] - 2} | _figures(times, seconds)
    return measured


def _run(voice: Voice, tokens: NDArray[np.int64]) -> tuple[float, float, float, int]:
    """Seconds of the acoustic graph and of the vocoder, processor seconds of both, and the frames spoken."""
    one = np.ones(1, np.int64)
    processor, start = time.process_time(), time.perf_counter()
    states, ends = voice.runtime.encode(tokens, one * tokens.shape[1], one * 0, one.astype(np.float32))
    mel = voice.runtime.decode(states, ends, np.arange(ends.max()))
    middle = time.perf_counter()
    voice.runtime.vocode(mel, ends[:, -1])
    return middle - start, time.perf_counter() - middle, time.process_time() - processor, int(ends.max())


def _figures(times: dict[str, list[list[float]]], seconds: float) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    totals = {}
    for name, timed in times.items():
        acoustic, vocoder, processor = np.array(timed).T
        totals[name] = acoustic + vocoder
        figures[name] = {
            "rtf": round(float(np.median(totals[name])) / seconds, 5),
            "acoustic_rtf": round(float(np.median(acoustic)) / seconds, 5),
            "vocoder_rtf": round(float(np.median(vocoder)) / seconds, 5),
            "processor_rtf": round(float(np.median(processor)) / seconds, 5),
            "p95_ms": round(float(np.percentile(totals[name], 95)) * 1000, 2),
        }
    figures["onnxruntime_over_torch"] = round(float(np.median(totals["onnxruntime"] / totals["torch"])), 3)
    return figures


@contextmanager
def _voice(arguments: argparse.Namespace) -> Iterator[tuple[Path, tuple[Path, Path], str]]:
    """A bundle, the trained folders it came from, and what its weights are."""
    trained = (arguments.acoustic, arguments.vocoder)
    if (arguments.voice / "voice.json").is_file() and all((folder / "model.json").is_file() for folder in trained):
        yield arguments.voice, trained, "trained"
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trained = _random_models(folder)
        export_voice(*trained, folder / "voice", LENGTHS, load("export", ExportConfig))
        yield folder / "voice", trained, "random, of the sizes in params.yaml (no trained voice found)"


def _random_models(folder: Path) -> tuple[Path, Path]:
    frontend = load_frontend(load("text", TextConfig).frontend, "en-us")
    common = {
        "audio": dataclasses.asdict(load("audio", MelConfig)),
        "symbols": list(frontend.symbols),
        "speakers": ["speaker"],
        "frontend": {"name": frontend.name, "version": frontend.version, "language": frontend.language},
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "provenance": {},
    }
    torch.manual_seed(0)
    acoustic = {**common, "kind": "acoustic", "config": dataclasses.asdict(load("acoustic", AcousticConfig))}
    vocoder = {**common, "kind": "vocoder", "config": dataclasses.asdict(load("vocoder", VocoderConfig))}
    save_model(folder / "acoustic", build_acoustic(acoustic).state_dict(), acoustic)
    save_model(folder / "vocoder", build_vocoder(vocoder).state_dict(), vocoder)
    return folder / "acoustic", folder / "vocoder"


def _parameters(trained: tuple[Path, Path]) -> dict[str, int]:
    weights = [torch.load(folder / "weights.pt", weights_only=True) for folder in trained]
    return {
        name: sum(tensor.numel() for tensor in state.values()) for name, state in zip(("acoustic", "vocoder"), weights, strict=True)
    }


if __name__ == "__main__":
    run(main)
