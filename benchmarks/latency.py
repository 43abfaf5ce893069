"""How fast every runtime and precision speaks: `python -m benchmarks.latency`.

Latency, throughput and time to first audio of whatever the voice's bundle holds, by length of text, speakers at once
and threads, cold and warm. All candidates take turns, so ratios hold on a busy machine; milliseconds are of this one.
What cannot run says why.
Knows nothing of how well they speak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.comparison import VOICE, compare
from benchmarks.latency_worker import TEXTS, Job, as_json
from benchmarks.random_voice import LENGTHS, random_models
from benchmarks.report import command, finish, machine, options
from sonorant.errors import SonorantError
from sonorant.export.onnx import ExportConfig
from sonorant.export.voice import export_voice
from sonorant.files import read_json
from sonorant.processes import usable_cores
from sonorant.runtime.bundle import DESCRIPTION, content_hash, read_bundle
from sonorant.runtime.runtimes import BASELINE, RUNTIMES
from tasks.params import load
from tasks.stage import run

VOICES = (Path("artifacts/variants"), Path("artifacts/voice"))
"""Taken if none is named: the bundle with all variants, or the one that ships."""
PRECISIONS = ("fp32", "fp16", "bf16", "int8")
QUICK_CONCURRENCY = {"short": [1], "medium": [1, 4, 8], "long": [1], "paragraph": [1]}
FULL_CONCURRENCY = {length: [1, 4, 8] for length in TEXTS}
FIRST_AUDIO = 1.5
"""The first audio of a paragraph comes within so many times that of a short text."""
SHORT = {"seconds": 0.1, "runtimes": ["onnxruntime", "torch"]}


def main() -> None:
    """Measure, print, judge."""
    parser = command(__doc__)
    parser.add_argument("--voice", type=Path, help="voice bundle; default: what the pipeline made, else random weights")
    parser.add_argument(
        "--predictor", type=Path, default=Path("models/predictor"), help="its trained model that speaks, for torch"
    )
    parser.add_argument(
        "--waveform", type=Path, default=Path("models/waveform"), help="its trained vocoder or codec, for torch"
    )
    parser.add_argument(
        "--quantized", type=Path, default=Path("models/quantized"), help="both of them in int8, for torch"
    )
    parser.add_argument("--seconds", type=float, default=2.5, help="for each cell of the table (default 2.5)")
    parser.add_argument(
        "--runtimes", nargs="+", default=list(RUNTIMES), choices=RUNTIMES, metavar="RUNTIME", help="default: all"
    )
    parser.add_argument("--full", action="store_true", help="every cell, compiled runtimes too: half an hour")
    parser.add_argument("--against", type=Path, help="an earlier result of the same voice: say what moved beyond noise")
    arguments = options(parser, SHORT)
    earlier = read_json(arguments.against) if arguments.against else None
    with _voice(arguments) as (job, weights):
        result = {"weights": weights, VOICE: content_hash(read_bundle(Path(job.bundle)))} | measure(
            job, arguments.runtimes, arguments.full
        )
    if earlier is not None:
        result["against"] = compare(earlier, {"result": result, "machine": machine()})
        print(json.dumps(result["against"], indent=1), file=sys.stderr)
    finish("latency", result, _claims(result), arguments)


def measure(job: Job, runtimes: list[str], full: bool) -> dict[str, Any]:
    """The whole table: warm by threads, cold by candidate."""
    candidates, not_run = _candidates(job, runtimes, full)
    result: dict[str, Any] = {"not_run": not_run, "warm": {}, "cold": {}}
    cores = usable_cores()
    for threads in sorted({1, cores}):
        # Several speakers at once share the cores by themselves; several threads each is what --full adds.
        many = job.concurrency if threads == 1 or full else {length: [1] for length in TEXTS}
        found = _process(replace(job, candidates=candidates, threads=threads, concurrency=many), "warm")
        not_run |= found.pop("not_run")
        result["warm"][f"threads_{threads}"] = found
    starts = [[length] for length in TEXTS] if full else [["medium", "paragraph"]]
    for threads in sorted({1, cores}) if full else [1]:
        for candidate in (name for name in candidates if name not in not_run):
            cell = result["cold"].setdefault(f"threads_{threads}", {}).setdefault(candidate, {})
            for lengths in starts:
                cell[lengths[0]] = _process(
                    replace(job, candidates=[candidate], threads=threads, lengths=lengths), "cold"
                )
    return result


def _candidates(job: Job, runtimes: list[str], full: bool) -> tuple[list[str], dict[str, str]]:
    """Those to be tried, the baseline first, and why the others are not."""
    exported = set.intersection(
        *(set(graph.variants) for graph in read_bundle(Path(job.bundle)).description.graphs.values())
    )
    tried, not_run = [], {}
    for candidate in (f"{runtime}/{precision}" for runtime in runtimes for precision in PRECISIONS):
        runtime, precision = candidate.split("/")
        if RUNTIMES[runtime].compiles and not full:
            not_run[candidate] = "not run: compiling takes minutes; --full times it"
        elif RUNTIMES[runtime].standalone and precision not in exported:
            not_run[candidate] = f"not run: the bundle has no variant {precision}"
        else:
            tried.append(candidate)
    return sorted(tried, key=lambda candidate: candidate != BASELINE), not_run


def _process(job: Job, mode: str) -> dict[str, Any]:
    print(f"{mode}, {job.threads} threads: {', '.join(job.candidates)}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.latency_worker"]
    done = subprocess.run(command, input=as_json(job, mode), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SonorantError(
            f"latency: the {mode} process of {', '.join(job.candidates)} ended with status {done.returncode}; see above"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _claims(result: dict[str, Any]) -> dict[str, bool]:
    warm = result["warm"]["threads_1"]
    medium = warm["spoken"]["medium"]["concurrency_1"]
    first = {length: warm["first_audio"][length][BASELINE]["p50_ms"] for length in ("short", "paragraph")}
    claims = {
        "ONNX Runtime on one thread speaks a medium sentence at a real-time factor of at most 0.05": medium[BASELINE][
            "rtf"
        ]
        <= 0.05,
        f"the first audio of a paragraph comes within {FIRST_AUDIO} times that of a short text": first["paragraph"]
        <= FIRST_AUDIO * first["short"],
    }
    if "torch/fp32" in medium:
        claims["ONNX Runtime is not slower than torch on one thread"] = medium["torch/fp32"]["speedup"] <= 1.0
    if "onnxruntime/int8" in medium:
        claims["int8 is faster than fp32 on one thread, at every length"] = all(
            row["concurrency_1"]["onnxruntime/int8"]["speedup_ci95"][0] > 1.0 for row in warm["spoken"].values()
        )
    return claims


@contextmanager
def _voice(arguments: argparse.Namespace) -> Iterator[tuple[Job, str]]:
    """What every job has in common, and what the weights are."""
    trained = (arguments.predictor, arguments.waveform)
    quantized = (arguments.quantized / "predictor", arguments.quantized / "waveform")
    bundle = arguments.voice or next((folder for folder in VOICES if (folder / DESCRIPTION).is_file()), None)
    common: dict[str, Any] = {
        "candidates": [],
        "threads": 1,
        "lengths": list(TEXTS),
        "concurrency": FULL_CONCURRENCY if arguments.full else QUICK_CONCURRENCY,
        "seconds": arguments.seconds,
    }
    if bundle is not None:
        folders = {"float": present(trained), "quantized": present(quantized)}
        yield Job(bundle=str(bundle), trained=folders, **common), "trained"
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trained = random_models(folder)
        export_voice(*trained, folder / "voice", LENGTHS, load("export", ExportConfig))
        folders = {"float": present(trained), "quantized": None}
        yield (
            Job(bundle=str(folder / "voice"), trained=folders, **common),
            "random, of the sizes in params.yaml (no voice found)",
        )


def present(folders: tuple[Path, Path]) -> list[str] | None:
    """Folders of trained models, None where one is absent."""
    return [str(folder) for folder in folders] if all((folder / "model.json").is_file() for folder in folders) else None


if __name__ == "__main__":
    run(main)
