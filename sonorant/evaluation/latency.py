"""How long a voice takes from phoneme ids to samples. Knows nothing of text or of how well it speaks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.evaluation.processes import spread, usable_cores
from sonorant.runtime.runtimes import RUNTIMES
from sonorant.runtime.voice import Voice

MEASURED = ("onnxruntime", "torch", "tensorrt")
"""Runtimes in the report. The first two must run; another that cannot is told with its reason."""
REQUIRED = ("onnxruntime", "torch")
WARM_UP = 3
"""Runs before the clock starts, at each length: memory is laid out at the first."""


@dataclass(frozen=True)
class _Job:
    bundle: Path
    runtime: str
    threads: int
    trained: tuple[Path, Path]
    classes: dict[str, NDArray[np.int64]]
    repeats: int


def sentence_classes(tokens: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """`short`, `medium` and `long`: of the sentences' phoneme ids (N, 3), the shortest, the median and the longest."""
    by_length = sorted(tokens, key=len)
    return {"short": by_length[0], "medium": by_length[len(by_length) // 2], "long": by_length[-1]}


def measure(bundle: Path, trained: tuple[Path, Path], classes: dict[str, NDArray[np.int64]], repeats: int) -> dict[str, Any]:
    """Time every runtime on one thread and on all usable cores, warm, one sentence at a time.

    Returns `{runtime: {class: {threads_1 | threads_all: {rtf, p50_ms, p95_ms, p99_ms, seconds, phonemes, threads, repeats}}}}`; `rtf` is
    the median over the seconds of audio; a runtime that cannot run is a string "not run: <why>". Raises SonorantError if one of
    `REQUIRED` cannot run.
    """
    speed: dict[str, Any] = {}
    for runtime in MEASURED:
        try:
            speed[runtime] = _measure_runtime(_Job(bundle, runtime, 1, trained, classes, repeats))
        except SonorantError as error:
            if runtime in REQUIRED:
                raise
            speed[runtime] = f"not run: {error}"
    return speed


def _measure_runtime(job: _Job) -> dict[str, Any]:
    if job.runtime not in RUNTIMES:
        raise SonorantError("this installation has no such runtime")
    figures: dict[str, Any] = {name: {} for name in job.classes}
    for label, threads in (("threads_1", 1), ("threads_all", usable_cores())):
        # A process each: torch has one pool of threads a process, and a pool that has spun up stays.
        job = _Job(job.bundle, job.runtime, threads, job.trained, job.classes, job.repeats)
        [measured] = spread(_measure, [job], label=f"latency, {job.runtime}, {threads} threads", unit="run", processes=1)
        for name, figure in measured.items():
            figures[name][label] = figure
    return figures


def _measure(job: _Job) -> dict[str, dict[str, float]]:
    trained = job.trained if job.runtime == "torch" else None
    voice = Voice.load(job.bundle, job.runtime, job.threads, trained=trained)
    return {name: _time(voice, tokens, job) for name, tokens in job.classes.items()}


def _time(voice: Voice, tokens: NDArray[np.int64], job: _Job) -> dict[str, float]:
    inputs = (tokens[None], np.array([len(tokens)]), np.zeros(1, np.int64), np.ones(1, np.float32))
    took = []
    lengths = np.zeros(1, np.int64)
    for _ in range(WARM_UP + job.repeats):
        begin = time.perf_counter()
        _, lengths = voice.synthesize(*inputs)
        took.append(time.perf_counter() - begin)
    seconds = int(lengths[0]) / voice.sample_rate
    p50, p95, p99 = (float(value) for value in np.percentile(took[WARM_UP:], [50, 95, 99]) * 1000.0)
    return {
        "rtf": round(p50 / 1000.0 / seconds, 6),
        "p50_ms": round(p50, 3),
        "p95_ms": round(p95, 3),
        "p99_ms": round(p99, 3),
        "seconds": round(seconds, 3),
        "phonemes": len(tokens),
        "threads": job.threads,
        "repeats": job.repeats,
    }
