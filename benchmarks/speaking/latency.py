"""How fast does every runtime and precision speak? `python -m benchmarks latency`

Latency, real-time factor and time to first audio of every variant in the voice's bundle, by length of text and
threads, cold and warm. Candidates alternate, so ratios hold on a busy machine; milliseconds are this machine's. The
result lists the candidates that cannot run, with the reason.
"""

import dataclasses
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.comparison import VOICE
from benchmarks.processes import ask
from benchmarks.report import command, finish, options
from benchmarks.speaking.latency_worker import Job
from benchmarks.speaking.random_voice import shipped, voice_of
from sonorant.processes import usable_cores
from sonorant.speech.bundle import content_hash, read_bundle
from sonorant.speech.runtimes import BASELINE, all_runtimes, runtime_row
from tasks.stage import run

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
FIRST_AUDIO = 1.5
"""Maximum ratio of a paragraph's time to first audio to that of a short text."""
SHORT = {"seconds": 0.1, "runtimes": ["onnxruntime", "torch"], "threads": [1]}


def main() -> None:
    parser = command(__doc__)
    add, models = parser.add_argument, Path("models")
    add("--voice", type=Path, help="voice bundle; default: what the pipeline made, else random weights")
    add("--predictor", type=Path, default=models / "predictor", help="its trained model that speaks, for torch")
    add("--waveform", type=Path, default=models / "waveform", help="its trained vocoder or codec, for torch")
    add("--quantized", type=Path, default=models / "quantized", help="both of them in int8, for torch")
    add("--seconds", type=float, default=2.5, help="for each cell of the table (default 2.5)")
    quick = [name for name in all_runtimes() if not runtime_row(name).compiles]
    add("--runtimes", nargs="+", default=quick, choices=all_runtimes(), help="default: all that need not compile")
    add("--threads", type=int, nargs="+", default=sorted({1, usable_cores()}), help="default: 1 and all cores")
    given = options(parser, SHORT)
    if 1 not in given.threads:
        parser.error("--threads must name 1 too: the claims are about one thread")
    trained = (given.predictor, given.waveform)
    with voice_of(given.voice or shipped(), "parallel", trained, given.quantized) as (voice, weights):
        job = Job(**voice, candidates=[], threads=1, seconds=given.seconds)
        result: dict[str, Any] = {"weights": weights, VOICE: content_hash(read_bundle(Path(job.bundle)))}
        result |= measure(job, given.runtimes, given.threads)
    finish("latency", result, _claims(result), given)


def measure(job: Job, runtimes: list[str], numbers: list[int]) -> dict[str, Any]:
    candidates, not_run = _candidates(job, runtimes)
    result: dict[str, Any] = {"not_run": not_run, "warm": {}, "cold": {}}
    for threads in numbers:
        found = _process("warm", replace(job, candidates=candidates, threads=threads))
        not_run |= found.pop("not_run")
        result["warm"][f"threads_{threads}"] = found
    for candidate in (name for name in candidates if name not in not_run):
        result["cold"][candidate] = _process("cold", replace(job, candidates=[candidate]))
    return result


def _candidates(job: Job, runtimes: list[str]) -> tuple[list[str], dict[str, str]]:
    """Candidates to try, the baseline first, and the reasons why others are not tried."""
    graphs = read_bundle(Path(job.bundle)).description.graphs
    exported = set.intersection(*(set(graph.variants) for graph in graphs.values()))
    tried, not_run = [], {}
    for candidate in (f"{runtime}/{precision}" for runtime in runtimes for precision in PRECISIONS):
        runtime, precision = candidate.split("/")
        if runtime_row(runtime).standalone and precision not in exported:
            not_run[candidate] = f"not run: the bundle has no variant {precision}"
        else:
            tried.append(candidate)
    return sorted(tried, key=lambda candidate: candidate != BASELINE), not_run


def _process(task: str, job: Job) -> dict[str, Any]:
    print(f"{task}, {job.threads} threads: {', '.join(job.candidates)}", file=sys.stderr, flush=True)
    found: dict[str, Any] = ask("benchmarks.speaking.latency_worker", task, job=dataclasses.asdict(job))
    return found


def _claims(result: dict[str, Any]) -> dict[str, bool]:
    warm = result["warm"]["threads_1"]
    first = {length: row[BASELINE]["p50_ms"] for length, row in warm["first_audio"].items()}
    medium = warm["spoken"]["medium"]
    factor = "ONNX Runtime on one thread speaks a medium sentence at a real-time factor of at most 0.05"
    soon = f"the first audio of a paragraph comes within {FIRST_AUDIO} times that of a short text"
    claims = {factor: medium[BASELINE]["rtf"] <= 0.05, soon: first["paragraph"] <= FIRST_AUDIO * first["short"]}
    if "torch/fp32" in medium:
        claims["ONNX Runtime is not slower than torch on one thread"] = medium["torch/fp32"]["speedup"] <= 1.0
    if "onnxruntime/int8" in medium:
        claims["int8 is faster than fp32 on one thread, at every length"] = all(
            row["onnxruntime/int8"]["speedup_ci95"][0] > 1.0 for row in warm["spoken"].values()
        )
    return claims


if __name__ == "__main__":
    run(main)
