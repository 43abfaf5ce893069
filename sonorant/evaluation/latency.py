"""Measure latency from phoneme ids to samples, and time to first audio.

Candidates of one runtime alternate with the baseline in one process, in a new order each round. Speedups are ratios
within a round, so machine load cancels out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sonorant.audio.arrays import Doubles, Ints
from sonorant.errors import SonorantError
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.measured_candidates import alone
from sonorant.processes import spread, usable_cores
from sonorant.speech.runtimes import BASELINE, REFERENCE
from sonorant.speech.voice import Voice
from sonorant.training.intervals import bootstrap

REQUIRED = (BASELINE, REFERENCE)
WARM_UP, WARM_SECONDS = 3, 0.5
"""Number of warm-up rounds, and seconds after which no further one starts."""
LONGEST = 5.0
"""Seconds per sentence length after which no further round starts."""
LEAST = 5
THREADS = {"threads_1": 1, "threads_all": usable_cores()}


@dataclass(frozen=True)
class LatencyJob:
    bundle: Path
    runtime: str
    candidates: tuple[str, ...]
    threads: int
    trained: tuple[Path, Path]
    classes: dict[str, Ints]
    repeats: int

    def load(self, candidate: str) -> Voice:
        runtime, variant = candidate.split("/")
        return Voice.load(self.bundle, runtime, self.threads, variant=variant, trained=self.trained)


def sentence_classes(tokens: Sequence[Ints]) -> dict[str, Ints]:
    """Return the shortest, median and longest sentence (phoneme ids (N, 3)) as `short`, `medium` and `long`."""
    by_length = sorted(tokens, key=len)
    return {"short": by_length[0], "medium": by_length[len(by_length) // 2], "long": by_length[-1]}


def measure(
    bundle: Path,
    trained: tuple[Path, Path],
    candidates: Mapping[str, str | None],
    classes: dict[str, Ints],
    repeats: int,
) -> Figures:
    """Time each candidate on one thread and on all cores, warm, one sentence at a time.

    `candidates` maps names to the reason for not timing them, or None; `repeats` is the maximum number of rounds.
    Returns `{candidate: {class: {threads_1 | threads_all: {rtf, p50_ms, p95_ms, p99_ms, seconds, phonemes, threads,
    repeats, over_fp32, over_fp32_ci95}}} | "not run: <why>"}`; `over_fp32` is the median speedup over `BASELINE`.
    Raises SonorantError if one of `REQUIRED` cannot run.
    """
    speed: Figures = {candidate: f"not run: {reason}" for candidate, reason in candidates.items() if reason}
    timed = [candidate for candidate, reason in candidates.items() if not reason]
    for runtime in dict.fromkeys(candidate.split("/")[0] for candidate in timed):
        own = tuple(candidate for candidate in timed if candidate.startswith(f"{runtime}/"))
        for label, threads in THREADS.items():
            job = LatencyJob(bundle, runtime, own, threads, trained, classes, repeats)
            # One process each: torch has one thread pool per process, which keeps spinning.
            name = f"latency, {runtime}, {threads} threads"
            [measured] = spread(_measure, [job], label=name, unit="run", processes=1)
            for candidate, found in measured.items():
                if isinstance(found, str):
                    speed[candidate] = found
                    continue
                for length, figure in found.items():
                    speed.setdefault(candidate, {}).setdefault(length, {})[label] = figure
    return {candidate: speed[candidate] for candidate in candidates}


def _measure(job: LatencyJob) -> Figures:
    figures: Figures = {}
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
        inputs = alone(tokens)
        lengths = {candidate: int(voice.synthesize(*inputs).lengths[0]) for candidate, voice in voices.items()}
        runs = {candidate: partial(voice.synthesize, *inputs) for candidate, voice in voices.items()}
        took = take_turns(runs, job.repeats, LONGEST, LEAST)
        for candidate in [candidate for candidate in job.candidates if candidate in voices]:
            figure = _times(took[candidate], lengths[candidate] / voices[candidate].sample_rate)
            beside = {} if candidate == BASELINE else over_baseline(took[BASELINE] / took[candidate])
            about = {"phonemes": len(tokens), "threads": job.threads, "repeats": len(took[candidate])}
            figures.setdefault(candidate, {})[name] = figure | about | beside
    return figures


def take_turns(runs: Mapping[str, Callable[[], object]], rounds: int, longest: float, least: int) -> dict[str, Doubles]:
    """Time runs after warm-up, in a new order each round; return seconds (R,) per run. No further round starts after
    `longest` seconds and `least` rounds."""
    took: dict[str, list[float]] = {name: [] for name in runs}
    names, started = list(runs), time.perf_counter()
    for turn in range(WARM_UP):
        if turn and time.perf_counter() - started > WARM_SECONDS:
            break
        for run in runs.values():
            run()
    started = time.perf_counter()
    for turn in range(rounds):
        if turn >= least and time.perf_counter() - started > longest:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            begin = time.perf_counter()
            runs[name]()
            took[name].append(time.perf_counter() - begin)
    return {name: np.array(times) for name, times in took.items()}


def _times(took: Doubles, seconds: float) -> dict[str, float]:
    p50, p95, p99 = (float(value) for value in np.percentile(took, [50, 95, 99]) * 1000.0)
    return {
        "rtf": round(p50 / 1000.0 / seconds, 6),
        "p50_ms": round(p50, 3),
        "p95_ms": round(p95, 3),
        "p99_ms": round(p99, 3),
        "seconds": round(seconds, 3),
    }


def over_baseline(ratios: Doubles) -> Figures:
    return estimate("over_fp32", float(np.median(ratios)), bootstrap(np.median, ratios), 4)


FIRST_AUDIO_SENTENCES = 20


def measure_first_audio(bundle: Path, variants: Sequence[str], texts: Sequence[str]) -> Figures:
    """Measure time to first audio when streaming, after warm-up: `{variant: {p50_ms, p95_ms, sentences} | "not run:
    <why>"}`."""
    # Sequential: parallel runs would disturb each other.
    measure_variant = partial(_measure_first_audio, bundle, tuple(texts))
    found = spread(measure_variant, variants, label="first audio", unit="variant", processes=1)
    return dict(zip(variants, found, strict=True))


def _measure_first_audio(bundle: Path, texts: Sequence[str], variant: str) -> Figures | str:
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
