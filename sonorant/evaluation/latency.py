"""Latency of each candidate from phoneme ids to samples, and time to first audio.

Candidates of one runtime alternate with the baseline in one process, in a new order each round: speedups are ratios
within a round, so machine load cancels.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles, Floats, Ints
from sonorant.errors import SonorantError
from sonorant.processes import spread, usable_cores
from sonorant.speech.runtimes import BASELINE, REFERENCE, runtime_row
from sonorant.speech.voice import Voice
from sonorant.training.intervals import bootstrap

REQUIRED = (BASELINE, REFERENCE)
WARM_UP, WARM_SECONDS = 3, 0.5
"""Warm-up rounds per length, and the seconds after which they stop."""
LONGEST = 5.0
"""Seconds after which no further round of a sentence class starts."""
LEAST = 5
"""Minimum number of timed rounds."""
RESAMPLES = 1000
THREADS = {"threads_1": 1, "threads_all": usable_cores()}


@dataclass(frozen=True)
class LatencyJob:
    """Measurements made by one process."""

    bundle: Path
    runtime: str
    candidates: tuple[str, ...]
    """Candidates of the same runtime."""
    threads: int
    trained: tuple[Path, Path]
    classes: dict[str, Ints]
    repeats: int

    def load(self, candidate: str) -> Voice:
        """Load a candidate's voice. Raises SonorantError if it cannot run here."""
        runtime, variant = candidate.split("/")
        trained = None if runtime_row(runtime).standalone else self.trained
        return Voice.load(self.bundle, runtime, self.threads, variant=variant, trained=trained)


def sentence_classes(tokens: Sequence[Ints]) -> dict[str, Ints]:
    """`short`, `medium` and `long`: shortest, median and longest of the phoneme ids (N, 3)."""
    by_length = sorted(tokens, key=len)
    return {"short": by_length[0], "medium": by_length[len(by_length) // 2], "long": by_length[-1]}


def measure(
    bundle: Path,
    trained: tuple[Path, Path],
    candidates: Mapping[str, str | None],
    classes: dict[str, Ints],
    repeats: int,
) -> dict[str, Any]:
    """Time each candidate on one thread and on all cores, warm, one sentence at a time.

    `candidates`: reason not to time it, or None; `repeats`: maximum rounds. Returns `{candidate: {class: {threads_1 |
    threads_all: {rtf, p50_ms, p95_ms, p99_ms, seconds, phonemes, threads, repeats, over_fp32, over_fp32_ci95}}} | "not
    run: <why>"}`; `over_fp32` is the median speedup over `BASELINE`. Raises SonorantError if one of `REQUIRED` cannot
    run.
    """
    speed: dict[str, Any] = {candidate: f"not run: {reason}" for candidate, reason in candidates.items() if reason}
    timed = [candidate for candidate, reason in candidates.items() if not reason]
    for runtime in dict.fromkeys(candidate.split("/")[0] for candidate in timed):
        own = tuple(candidate for candidate in timed if candidate.startswith(f"{runtime}/"))
        speed |= _measure_runtime(LatencyJob(bundle, runtime, own, 1, trained, classes, repeats))
    return {candidate: speed[candidate] for candidate in candidates}


def _measure_runtime(job: LatencyJob) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for label, threads in THREADS.items():
        # One process each: torch has one thread pool per process, which keeps spinning.
        [measured] = spread(
            _measure,
            [replace(job, threads=threads)],
            label=f"latency, {job.runtime}, {threads} threads",
            unit="run",
            processes=1,
        )
        for candidate, found in measured.items():
            if isinstance(found, str):
                figures[candidate] = found
                continue
            for name, figure in found.items():
                figures.setdefault(candidate, {}).setdefault(name, {})[label] = figure
    return figures


def _measure(job: LatencyJob) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    voices = {BASELINE: job.load(BASELINE)}
    for candidate in job.candidates:
        if candidate == BASELINE:
            continue
        try:
            voices[candidate] = job.load(candidate)
        except SonorantError as error:
            if candidate in REQUIRED:
                raise
            figures[candidate] = f"not run: {error}"
    for name, tokens in job.classes.items():
        took, seconds = _take_turns(voices, tokens, job.repeats)
        for candidate in job.candidates:
            if candidate in voices:
                figure = _times(took[candidate], seconds[candidate])
                beside = {} if candidate == BASELINE else over_baseline(took[BASELINE] / took[candidate])
                about = {"phonemes": len(tokens), "threads": job.threads, "repeats": len(took[candidate])}
                figures.setdefault(candidate, {})[name] = figure | about | beside
    return figures


def _take_turns(
    voices: Mapping[str, Voice], tokens: Ints, repeats: int, longest: float = LONGEST
) -> tuple[dict[str, Doubles], dict[str, float]]:
    """Seconds per voice and round (R,), and seconds of speech."""
    _warm_up(voices, tokens)
    inputs = _alone(tokens)
    took: dict[str, list[float]] = {name: [] for name in voices}
    spoken: dict[str, float] = {}
    names = list(voices)
    started = time.perf_counter()
    for turn in range(repeats):
        if turn >= LEAST and time.perf_counter() - started > longest:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            begin = time.perf_counter()
            _, lengths = voices[name].synthesize(*inputs)
            took[name].append(time.perf_counter() - begin)
            spoken[name] = int(lengths[0]) / voices[name].sample_rate
    return {name: np.array(times) for name, times in took.items()}, spoken


def _warm_up(voices: Mapping[str, Voice], tokens: Ints) -> None:
    started = time.perf_counter()
    for turn in range(WARM_UP):
        if turn and time.perf_counter() - started > WARM_SECONDS:
            break
        for voice in voices.values():
            voice.synthesize(*_alone(tokens))


def _alone(tokens: Ints) -> tuple[Ints, Ints, Ints, Floats]:
    """Arguments of `Voice.synthesize` for one sentence by the first speaker."""
    return tokens[None], np.array([len(tokens)]), np.zeros(1, np.int64), np.ones(1, np.float32)


def _times(took: Doubles, seconds: float) -> dict[str, float]:
    p50, p95, p99 = (float(value) for value in np.percentile(took, [50, 95, 99]) * 1000.0)
    return {
        "rtf": round(p50 / 1000.0 / seconds, 6),
        "p50_ms": round(p50, 3),
        "p95_ms": round(p95, 3),
        "p99_ms": round(p99, 3),
        "seconds": round(seconds, 3),
    }


def over_baseline(ratios: Doubles) -> dict[str, Any]:
    """Median and 95 % interval of the per-round speedups (R,)."""
    ends = bootstrap(np.median, ratios, resamples=RESAMPLES)
    return {"over_fp32": round(float(np.median(ratios)), 4), "over_fp32_ci95": [round(end, 4) for end in ends]}


FIRST_AUDIO_SENTENCES = 20
"""Timed sentences per variant, after one warm-up."""


def measure_first_audio(bundle: Path, variants: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Time to first audio when streaming, warm: `{variant: {p50_ms, p95_ms, sentences} | "not run: <why>"}`."""
    # Sequential: parallel runs would disturb each other.
    measure_variant = partial(_measure_first_audio, bundle, tuple(texts))
    found = spread(measure_variant, variants, label="first audio", unit="variant", processes=1)
    return dict(zip(variants, found, strict=True))


def _measure_first_audio(bundle: Path, texts: Sequence[str], variant: str) -> dict[str, Any] | str:
    try:
        voice = Voice.load(bundle, threads=1, variant=variant)
        took = [_first_audio(voice, text) for text in (texts[0], *texts)][1:]
    except SonorantError as error:
        return f"not run: {error}"
    p50, p95 = (round(float(value), 3) for value in np.percentile(np.array(took) * 1000.0, [50, 95]))
    return {"p50_ms": p50, "p95_ms": p95, "sentences": len(took)}


def _first_audio(voice: Voice, text: str) -> float:
    begin = time.perf_counter()
    speech = voice.stream(text)
    next(speech)
    took = time.perf_counter() - begin
    speech.close()
    return took
