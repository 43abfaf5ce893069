"""How soon a streaming voice is heard: from the text to the first samples, on one thread. Knows nothing of servers and of many at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.errors import SonorantError
from sonorant.evaluation.processes import spread
from sonorant.runtime.voice import Voice

FIRST_AUDIO_SENTENCES = 20
"""Timed of each variant, after one that is not."""


@dataclass(frozen=True)
class Job:
    """What one process measures."""

    bundle: Path
    variant: str
    texts: tuple[str, ...]


def measure_first_audio(bundle: Path, variants: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """`{variant: {p50_ms, p95_ms, sentences} | "not run: <why>"}`: of each text streamed alone under ONNX Runtime, warm."""
    jobs = [Job(bundle, variant, tuple(texts)) for variant in variants]
    # One after the other: two at once would disturb each other.
    return dict(zip(variants, spread(_measure, jobs, label="first audio", unit="variant", processes=1), strict=True))


def _measure(job: Job) -> dict[str, Any] | str:
    try:
        voice = Voice.load(job.bundle, threads=1, variant=job.variant)
        took = [_first_audio(voice, text) for text in (job.texts[0], *job.texts)][1:]
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
