"""One process of `benchmarks latency`: `warm` times all candidates alternately; `cold` loads one and speaks its
first request. Each number of threads needs its own process, because torch has one thread pool per process."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.processes import answer, memory_mib
from benchmarks.speaking.texts import TEXTS, VoiceJob, hear_first, load, load_all
from benchmarks.turns import CONTROL, figures, ratio, take_turns
from sonorant.speech.runtimes import BASELINE
from sonorant.speech.voice import Voice

Tokens = list[NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Job(VoiceJob):
    candidates: list[str]
    """In a warm job, the first is `BASELINE`."""
    threads: int
    seconds: float
    """Duration per cell of the table."""


def warm(job: Job) -> dict[str, Any]:
    voices, not_run = load_all(job, job.candidates, partial(load, job, threads=job.threads))
    spoken: dict[str, Any] = {}
    for length in TEXTS:
        tokens = _tokens(next(iter(voices.values())), length)
        audio = {candidate: _speak(voice, tokens) for candidate, voice in voices.items()}
        took = take_turns(
            {name: partial(_speak, voice, tokens) for name, voice in voices.items()}, job.seconds, least=8
        )
        spoken[length] = {"phonemes": sum(map(len, tokens)), CONTROL: figures(took[CONTROL])}
        for candidate, seconds in audio.items():
            row = {"audio_s": round(seconds, 2), "rtf": round(float(np.median(took[candidate])) / seconds, 6)}
            if BASELINE in took:
                # Per second of audio, because candidates may speak a text in slightly different time.
                row |= ratio(took[BASELINE] / audio[BASELINE], took[candidate] / seconds)
            spoken[length][candidate] = figures(took[candidate]) | row
    return {"not_run": not_run, "spoken": spoken, "first_audio": _first_audio(voices, job)}


def _first_audio(voices: dict[str, Voice], job: Job) -> dict[str, Any]:
    pairs = {f"{length}|{name}": (length, name) for length in TEXTS for name in voices}
    work = {key: partial(hear_first, voices[name], TEXTS[length]) for key, (length, name) in pairs.items()}
    took = take_turns(work, job.seconds * len(TEXTS), least=8)
    found: dict[str, Any] = {length: {CONTROL: figures(took[CONTROL])} for length in TEXTS}
    for key, (length, name) in pairs.items():
        found[length][name] = figures(took[key])
    return found


def cold(job: Job) -> dict[str, Any]:
    began = time.perf_counter()
    voices, not_run = load_all(job, job.candidates, partial(load, job, threads=job.threads))
    if not_run:
        return {"not_run": not_run[job.candidates[0]]}
    [voice] = voices.values()
    loaded, memory = time.perf_counter() - began, memory_mib("VmRSS")
    tokens = _tokens(voice, "medium")
    began = time.perf_counter()
    _speak(voice, tokens)
    took = time.perf_counter() - began
    _speak(voice, _tokens(voice, "paragraph"))  # for the memory that it takes
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
    one = np.zeros(1, np.int64)
    lengths = [voice.synthesize(t[None], np.array([len(t)]), one, np.ones(1, np.float32)).lengths for t in tokens]
    return float(sum(int(length[0]) for length in lengths)) / voice.sample_rate


if __name__ == "__main__":
    answer(Job, {"warm": warm, "cold": cold})
