"""How fast a codec language model is decoded: `python -m benchmarks.decoding`.

Tokens a second (a token is a step of a row, which makes a code of each stream), real-time factor, first audio, start
cold and with the compiled artefacts on disk, recompilations and peak memory, by decoder, batch and length bucket, on
one thread. Decoders take turns, so ratios hold on a busy machine; each start is a process of its own. What cannot run
says why.
Knows nothing of how well it speaks.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.decoding_worker import DYNAMIC, DYNAMIC_GPU, Job
from benchmarks.latency import present
from benchmarks.random_voice import LENGTHS, random_codec_lm
from benchmarks.report import command, finish, options
from sonorant.decoding.settings import DecodingConfig
from sonorant.errors import SonorantError
from sonorant.export.onnx import ExportConfig
from sonorant.export.voice import export_voice
from sonorant.runtime.bundle import DESCRIPTION, read_bundle
from tasks.params import load
from tasks.stage import run

VOICES = (Path("artifacts/variants"), Path("artifacts/voice"))
"""Taken if none is named: the bundle with all variants, or the one that ships."""
STATIC, COMPILED, ONNX = "torch-static/fp32", "torch-compiled/fp32", "onnxruntime/fp32"
DECODERS = (
    DYNAMIC,
    STATIC,
    COMPILED,
    ONNX,
    "onnxruntime/int8",
    DYNAMIC_GPU,
    "torch-cuda-compiled/fp32",
    "torch-cuda-graphs/fp32",
    "onnxruntime-cuda/fp32",
)
"""Dynamic eager, static eager, static compiled, ONNX Runtime; the same on a GPU, and CUDA graphs."""
PREPARED = (COMPILED, "torch-cuda-compiled/fp32", "torch-cuda-graphs/fp32")
"""Those that are started twice."""
FASTER = {1: 2.5, 4: 3.4}
"""How many times as fast as dynamic eager ONNX Runtime decodes, by rows."""
SECOND_START = 1 / 3
MORE_MEMORY = 1.3
FASTER_GPU = 3.0
SHORT = {"batches": [1], "buckets": [128], "decoders": [DYNAMIC, STATIC, ONNX], "seconds": 1.0}


def main() -> None:
    """Measure, print, judge."""
    parser = command(__doc__)
    parser.add_argument("--voice", type=Path, help="voice bundle; default: what the pipeline made, else random weights")
    parser.add_argument(
        "--speech", type=Path, default=Path("models/predictor"), help="its trained language model, for torch"
    )
    parser.add_argument("--sound", type=Path, default=Path("models/waveform"), help="its trained codec, for torch")
    parser.add_argument("--quantized", type=Path, default=Path("models/quantized"), help="both of them in int8")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8], help="rows (default 1 4 8)")
    parser.add_argument(
        "--buckets", type=int, nargs="+", default=[128, 256, 512], help="slots of the cache (default 128 256 512)"
    )
    parser.add_argument(
        "--decoders", nargs="+", default=list(DECODERS), choices=DECODERS, metavar="DECODER", help="default: all"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each race (default 20)")
    arguments = options(parser, SHORT)
    if DYNAMIC not in arguments.decoders:
        parser.error(f"--decoders must name {DYNAMIC} too: it is what the others are compared with")
    with _voice(arguments) as (job, weights):
        result = {"weights": weights} | measure(job, arguments.batches, arguments.buckets)
    finish("decoding", result, claims(result), arguments)


def measure(job: Job, batches: list[int], buckets: list[int]) -> dict[str, Any]:
    """Every start and every race. A decoder that does not start is told once, and left out of the rest."""
    result: dict[str, Any] = {"not_run": {}, "cells": {}}
    cells = [(batch, bucket) for batch in batches for bucket in buckets]
    for batch, bucket in tqdm(cells, desc="decoding", unit="cell"):
        here = replace(job, batch=batch, bucket=bucket, first_audio=(batch, bucket) == (1, max(buckets)))
        cell: dict[str, Any] = {"start": {}}
        with tempfile.TemporaryDirectory() as cache:  # kept for the race, which need not compile once more
            here = replace(here, cache=cache)
            for name in (name for name in job.decoders if name not in result["not_run"]):
                started = _starts(replace(here, decoders=[name]))
                if "not_run" in started:
                    result["not_run"][name] = started["not_run"]
                else:
                    cell["start"][name] = started
            cell |= _process(replace(here, decoders=list(cell["start"])), "race")
        result["not_run"] |= cell.pop("not_run")
        result["cells"][f"batch_{batch}/bucket_{bucket}"] = cell
    return result


def claims(result: dict[str, Any]) -> dict[str, bool]:
    """What must hold of the cells that were measured."""
    cells = {tuple(int(part.split("_")[1]) for part in name.split("/")): cell for name, cell in result["cells"].items()}
    raced = [found for cell in cells.values() for found in cell["decoders"].items()]
    twice = [start for cell in cells.values() for name, start in cell["start"].items() if name in PREPARED]
    held = {
        "greedy tokens of all float decoders on the CPU are identical, in every cell": all(
            found["identical"] for name, found in raced if name.endswith("fp32") and "cuda" not in name
        )
    }
    for rows, times in FASTER.items():
        ratios = [
            max(found["speedup"] for name, found in cell["decoders"].items() if name.startswith("onnxruntime/"))
            for (batch, _), cell in cells.items()
            if batch == rows and ONNX in cell["decoders"]
        ]
        if ratios:
            claim = f"ONNX Runtime's fastest precision decodes {rows} row(s) {times} times as fast as dynamic eager"
            held[claim] = min(ratios) >= times
    if twice:
        held["a second start takes at most a third of the first, where steps are prepared"] = all(
            start["second"]["load_s"] <= SECOND_START * start["load_s"] for start in twice
        )
        held["after warm-up nothing is recompiled"] = all(
            counted["late"] == 0
            for counted in (*(start["counters"] for start in twice), *(found["counters"] for _, found in raced))
            if counted
        )
        held[f"compiled takes at most {MORE_MEMORY} times the memory of eager on the same buffers"] = all(
            cell["start"][COMPILED]["second"]["peak_mib"] <= MORE_MEMORY * cell["start"][STATIC]["peak_mib"]
            for cell in cells.values()
            if COMPILED in cell["start"] and STATIC in cell["start"]
        )
    graphs = [found["speedup"] for name, found in raced if name == "torch-cuda-graphs/fp32"]
    if graphs:
        held[f"CUDA graphs decode at least {FASTER_GPU} times as fast as dynamic eager on the GPU"] = (
            min(graphs) >= FASTER_GPU
        )
    return held


def _starts(job: Job) -> dict[str, Any]:
    """The figures of a start, and of a second one with what the first left on disk."""
    started = _process(job, "start")
    if "not_run" not in started and job.decoders[0] in PREPARED:
        started["second"] = _process(job, "start")
    return started


def _process(job: Job, mode: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.decoding_worker"],
        input=json.dumps(dataclasses.asdict(job) | {"mode": mode}),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SonorantError(
            f"decoding: the {mode} process of {', '.join(job.decoders)} ended with {done.returncode}; see above"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _voice(arguments: argparse.Namespace) -> Iterator[tuple[Job, str]]:
    """What every job has in common, and what the weights are."""
    trained = (arguments.speech, arguments.sound)
    quantized = (arguments.quantized / "predictor", arguments.quantized / "waveform")
    bundle = arguments.voice or next((folder for folder in VOICES if _is_codec_lm(folder)), None)
    common: dict[str, Any] = {
        "decoders": arguments.decoders,
        "batch": 0,
        "bucket": 0,
        "seconds": arguments.seconds,
        "cache": "",
        "first_audio": False,
    }
    if bundle is not None:
        yield (
            Job(bundle=str(bundle), trained={"float": present(trained), "quantized": present(quantized)}, **common),
            "trained",
        )
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trained = random_codec_lm(folder)
        export_voice(
            *trained, folder / "voice", LENGTHS, load("export", ExportConfig), load("decoding", DecodingConfig)
        )
        folders = {"float": present(trained), "quantized": None}
        yield (
            Job(bundle=str(folder / "voice"), trained=folders, **common),
            "random, of the sizes in params.yaml (no such voice found)",
        )


def _is_codec_lm(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file() and read_bundle(folder).description.family == "codec_lm"


if __name__ == "__main__":
    run(main)
