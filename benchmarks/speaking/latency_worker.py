"""One process of `benchmarks latency`: `warm` times all candidates in turn; `cold` loads one and speaks its first
request.

A number of threads is a process each, because torch has one pool of threads a process; a cold start is one anyway.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.processes import answer, memory_mib
from benchmarks.speaking.texts import TEXTS, VoiceJob, hear_first, load, load_all
from benchmarks.turns import CONTROL, WARM_UP, figures, ratio, take_turns
from sonorant.speech.runtimes import BASELINE
from sonorant.speech.voice import Voice

BURST = 2
"""Requests that each of several speakers makes in a row."""

Tokens = list[NDArray[np.int64]]
"""Phoneme ids (N, 3) of each sentence."""


@dataclass(frozen=True, kw_only=True)
class Job(VoiceJob):
    """What to measure."""

    candidates: list[str]
    """A warm job's first is `BASELINE`."""
    threads: int
    lengths: list[str]
    """Keys of `TEXTS`; a cold job times the first, and speaks the others for what memory they take."""
    concurrency: dict[str, list[int]]
    """How many speak at once, for each length."""
    seconds: float
    """For each cell of the table."""


def warm(job: Job) -> dict[str, Any]:
    """Every length and number of speakers, all candidates in turn."""
    voices, not_run = load_all(job, job.candidates, partial(load, job, threads=job.threads))
    spoken: dict[str, Any] = {}
    for length in job.lengths:
        tokens = _tokens(next(iter(voices.values())), length)
        audio = {candidate: _speak(voice, tokens) for candidate, voice in voices.items()}
        cells = {
            f"concurrency_{many}": _cell(voices, tokens, audio, many, job.seconds) for many in job.concurrency[length]
        }
        spoken[length] = {"phonemes": sum(map(len, tokens)), "sentences": len(tokens)} | cells
    return {"not_run": not_run, "spoken": spoken, "first_audio": _first_audio(voices, job)}


def _cell(
    voices: dict[str, Voice], tokens: Tokens, audio: dict[str, float], many: int, seconds: float
) -> dict[str, Any]:
    """Every candidate's times for one text, spoken by so many at once."""
    requests: dict[str, list[float]] = {candidate: [] for candidate in voices}
    with ThreadPoolExecutor(many) as pool:
        work: dict[str, Callable[[], object]] = {
            candidate: partial(_speak, voice, tokens)
            if many == 1
            else partial(_burst, pool, many, voice, tokens, requests[candidate])
            for candidate, voice in voices.items()
        }
        took = take_turns(work, seconds, least=8 if many == 1 else 3)
    row: dict[str, Any] = {CONTROL: figures(took[CONTROL])}
    for candidate in voices:
        spoken = audio[candidate] * (1 if many == 1 else many * BURST)
        middle = float(np.median(took[candidate]))
        row[candidate] = figures(took[candidate]) | {"audio_s": round(spoken, 2)}
        if many > 1:  # a round is a burst; percentiles are those of its requests
            timed = np.array(requests[candidate][WARM_UP * many * BURST :])
            row[candidate] |= {key: value for key, value in figures(timed).items() if key.startswith("p")}
            row[candidate]["requests"] = len(timed)
        row[candidate] |= {"rtf": round(middle / spoken, 6), "audio_per_second": round(spoken / middle, 2)}
        if BASELINE in took:
            # Audio for audio: candidates may speak a text in slightly different time.
            row[candidate] |= ratio(took[BASELINE] / audio[BASELINE], took[candidate] / audio[candidate])
    return row


def _first_audio(voices: dict[str, Voice], job: Job) -> dict[str, Any]:
    """Time to first audio, all texts and candidates in turn."""
    pairs = {f"{length}|{name}": (length, name) for length in job.lengths for name in voices}
    work = {key: partial(hear_first, voices[name], TEXTS[length]) for key, (length, name) in pairs.items()}
    took = take_turns(work, job.seconds * len(job.lengths), least=8)
    found: dict[str, Any] = {length: {CONTROL: figures(took[CONTROL])} for length in job.lengths}
    for key, (length, name) in pairs.items():
        found[length][name] = figures(took[key])
    return found


def cold(job: Job) -> dict[str, Any]:
    """The start of one candidate."""
    began = time.perf_counter()
    voices, not_run = load_all(job, job.candidates, partial(load, job, threads=job.threads))
    if not_run:
        return {"not_run": not_run[job.candidates[0]]}
    [voice] = voices.values()
    loaded, memory = time.perf_counter() - began, memory_mib("VmRSS")
    first, *others = (_tokens(voice, length) for length in job.lengths)
    began = time.perf_counter()
    _speak(voice, first)
    took = time.perf_counter() - began
    for tokens in others:
        _speak(voice, tokens)
    return {
        "load_ms": round(1000 * loaded, 1),
        "first_request_ms": round(1000 * took, 1),
        "loaded_mib": memory,
        "peak_mib": memory_mib("VmHWM"),
    }


def _tokens(voice: Voice, length: str) -> Tokens:
    sentences = voice.frontend.sentences(TEXTS[length])
    return [voice.symbols.to_tokens(sentence.phonemes).astype(np.int64) for sentence in sentences]


def _speak(voice: Voice, tokens: Tokens) -> float:
    """Speak sentences one after the other; the seconds of audio."""
    one = np.zeros(1, np.int64)
    lengths = [voice.synthesize(t[None], np.array([len(t)]), one, np.ones(1, np.float32))[1] for t in tokens]
    return float(sum(int(length[0]) for length in lengths)) / voice.sample_rate


def _burst(pool: ThreadPoolExecutor, many: int, voice: Voice, tokens: Tokens, took: list[float]) -> None:
    def timed(_: int) -> float:
        begin = time.perf_counter()
        _speak(voice, tokens)
        return time.perf_counter() - begin

    took += pool.map(timed, range(many * BURST))


if __name__ == "__main__":
    answer(Job, {"warm": warm, "cold": cold})
