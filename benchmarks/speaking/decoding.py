"""How fast is a codec language model decoded? `python -m benchmarks decoding`

Tokens per second (a token is one step of one row: a code of each stream), real-time factor, first audio, start
without and with compiled artefacts on disk, recompilations and peak memory, by decoder, batch and length bucket, on
one thread. Decoders alternate, so ratios hold on a busy machine; each start is a separate process. A decoder that
cannot run reports why.
"""

import dataclasses
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.processes import ask
from benchmarks.report import command, finish, options
from benchmarks.speaking.decoding_worker import DYNAMIC, DYNAMIC_GPU, Job
from benchmarks.speaking.random_voice import shipped, voice_of
from tasks.stage import run

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
"""Decoders that are started twice."""
FASTER = {1: 2.5, 4: 3.4}
"""Minimum speed of ONNX Runtime's decoding relative to dynamic eager, by rows."""
SECOND_START = 1 / 3
MORE_MEMORY = 1.3
FASTER_GPU = 3.0
SHORT = {"batches": [1], "buckets": [128], "decoders": [DYNAMIC, STATIC, ONNX], "seconds": 1.0}


def main() -> None:
    parser = command(__doc__)
    add, models = parser.add_argument, Path("models")
    add("--voice", type=Path, help="voice bundle; default: what the pipeline made, else random weights")
    add("--speech", type=Path, default=models / "predictor", help="its trained language model, for torch")
    add("--sound", type=Path, default=models / "waveform", help="its trained codec, for torch")
    add("--quantized", type=Path, default=models / "quantized", help="both of them in int8")
    add("--batches", type=int, nargs="+", default=[1, 4, 8], help="rows (default 1 4 8)")
    add("--buckets", type=int, nargs="+", default=[128, 256, 512], help="slots of the cache (default 128 256 512)")
    add("--decoders", nargs="+", default=list(DECODERS), choices=DECODERS, metavar="DECODER", help="default: all")
    add("--seconds", type=float, default=20.0, help="of each race (default 20)")
    given = options(parser, SHORT)
    if DYNAMIC not in given.decoders:
        parser.error(f"--decoders must name {DYNAMIC} too: it is what the others are compared with")
    bundle, trained = given.voice or shipped("codec_lm"), (given.speech, given.sound)
    with voice_of(bundle, "codec_lm", trained, given.quantized) as (voice, weights):
        shape: dict[str, Any] = {"batch": 0, "bucket": 0, "cache": "", "first_audio": False}
        job = Job(**voice, **shape, decoders=given.decoders, seconds=given.seconds)
        result = {"weights": weights} | measure(job, given.batches, given.buckets)
    finish("decoding", result, claims(result), given)


def measure(job: Job, batches: list[int], buckets: list[int]) -> dict[str, Any]:
    """All starts and races. A decoder that does not start is reported once and omitted from the rest."""
    result: dict[str, Any] = {"not_run": {}, "cells": {}}
    cells = [(batch, bucket) for batch in batches for bucket in buckets]
    for batch, bucket in tqdm(cells, desc="decoding", unit="cell"):
        here = replace(job, batch=batch, bucket=bucket, first_audio=(batch, bucket) == (1, max(buckets)))
        cell: dict[str, Any] = {"start": {}}
        with tempfile.TemporaryDirectory() as cache:  # kept for the race, which then need not compile
            here = replace(here, cache=cache)
            for name in (name for name in job.decoders if name not in result["not_run"]):
                started = _starts(replace(here, decoders=[name]))
                if "not_run" in started:
                    result["not_run"][name] = started["not_run"]
                else:
                    cell["start"][name] = started
            cell |= _process("race", replace(here, decoders=list(cell["start"])))
        result["not_run"] |= cell.pop("not_run")
        result["cells"][f"batch_{batch}/bucket_{bucket}"] = cell
    return result


def claims(result: dict[str, Any]) -> dict[str, bool]:
    cells = {tuple(int(part.split("_")[1]) for part in name.split("/")): cell for name, cell in result["cells"].items()}
    raced = [found for cell in cells.values() for found in cell["decoders"].items()]
    twice = [start for cell in cells.values() for name, start in cell["start"].items() if name in PREPARED]
    in_float = [found["identical"] for name, found in raced if name.endswith("fp32") and "cuda" not in name]
    held = {"greedy tokens of all float decoders on the CPU are identical, in every cell": all(in_float)}
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
        counters = [*(start["counters"] for start in twice), *(found["counters"] for _, found in raced)]
        held["after warm-up nothing is recompiled"] = not any(counted and counted["late"] for counted in counters)
        held[f"compiled takes at most {MORE_MEMORY} times the memory of eager on the same buffers"] = all(
            cell["start"][COMPILED]["second"]["peak_mib"] <= MORE_MEMORY * cell["start"][STATIC]["peak_mib"]
            for cell in cells.values()
            if COMPILED in cell["start"] and STATIC in cell["start"]
        )
    graphs = [found["speedup"] for name, found in raced if name == "torch-cuda-graphs/fp32"]
    if graphs:
        claim = f"CUDA graphs decode at least {FASTER_GPU} times as fast as dynamic eager on the GPU"
        held[claim] = min(graphs) >= FASTER_GPU
    return held


def _starts(job: Job) -> dict[str, Any]:
    """A first start, and a second one with the artefacts that the first left on disk."""
    started = _process("start", job)
    if "not_run" not in started and job.decoders[0] in PREPARED:
        started["second"] = _process("start", job)
    return started


def _process(task: str, job: Job) -> dict[str, Any]:
    found: dict[str, Any] = ask(
        "benchmarks.speaking.decoding_worker", task, job=dataclasses.asdict(job), OMP_NUM_THREADS="1"
    )
    return found


if __name__ == "__main__":
    run(main)
