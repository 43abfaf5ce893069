"""One process of `benchmarks.latency`: a job as JSON on stdin, its figures as JSON in the last line of stdout. Judges
nothing.

`warm` times all candidates in turn; `cold` loads one and speaks its first request. A number of threads is a process
each, because torch has one pool of threads a process; a cold start is one anyway.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.turns import CONTROL, WARM_UP, figures, ratio, take_turns
from sonorant.errors import SonorantError
from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.runtimes import BASELINE, LoadOptions, load_runtime, runtime_row
from sonorant.runtime.voice import Voice

TEXTS = {
    "short": "Good morning.",
    "medium": "The train was late again, so we walked along the river.",
    "long": "When the rain had stopped at last, the children ran out into the garden, where the old dog was already "
    "waiting for them beside the gate, and nobody thought of going home before the lamps were lit.",
    "paragraph": "Good morning. It had been a long winter, and the village was slow to wake from it. Snow still "
    "lay in the shade of the mill. Down by the bridge, two men were mending a boat which had not seen "
    "water since October. One of them sang. The other, who had heard the song before, counted nails. By noon the sun "
    "had reached the church, and the first windows were opened. Somebody laughed.",
}
BURST = 2
"""Requests that each of several speakers makes in a row."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process measures."""

    bundle: str
    """Folder of the voice."""
    trained: dict[str, list[str] | None]
    """`float` and `quantized`: folders of acoustic model and vocoder, None where there are none."""
    candidates: list[str]
    """`<runtime>/<variant>`; a warm job's first is `BASELINE`."""
    threads: int
    lengths: list[str]
    """Keys of `TEXTS`; a cold job times the first, and speaks the others for what memory they take."""
    concurrency: dict[str, list[int]]
    """How many speak at once, for each length."""
    seconds: float
    """For each cell of the table."""


def run(job: Job, mode: str) -> dict[str, Any]:
    """The figures of a job; what goes wrong with a candidate stands in its place."""
    return {"warm": _warm, "cold": _cold}[mode](job)


def _warm(job: Job) -> dict[str, Any]:
    voices: dict[str, Voice] = {}
    found: dict[str, Any] = {"not_run": {}, "spoken": {}, "first_audio": {}}
    for candidate in job.candidates:
        try:
            voices[candidate] = load(job, candidate)
        except SonorantError as error:
            found["not_run"][candidate] = f"not run: {error}".replace(f"{job.bundle}/", "")
    for length in job.lengths:
        tokens = _tokens(next(iter(voices.values())), TEXTS[length])
        audio = {candidate: _speak(voice, tokens) for candidate, voice in voices.items()}
        cells = {
            f"concurrency_{many}": _cell(voices, tokens, audio, many, job.seconds) for many in job.concurrency[length]
        }
        found["spoken"][length] = {"phonemes": sum(map(len, tokens)), "sentences": len(tokens)} | cells
    found["first_audio"] = _first_audio(voices, job)
    return found


def _cell(
    voices: dict[str, Voice], tokens: list[NDArray[np.int64]], audio: dict[str, float], many: int, seconds: float
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
        row[candidate] = figures(took[candidate]) | {"audio_s": round(spoken, 2)}
        if many > 1:  # a round is a burst; percentiles are those of its requests
            timed = np.array(requests[candidate][WARM_UP * many * BURST :])
            row[candidate] |= {key: value for key, value in figures(timed).items() if key.startswith("p")} | {
                "requests": len(timed)
            }
        row[candidate]["rtf"] = round(float(np.median(took[candidate])) / spoken, 6)
        row[candidate]["audio_per_second"] = round(spoken / float(np.median(took[candidate])), 2)
        if BASELINE in took:
            # Audio for audio: candidates may speak a text in slightly different time.
            row[candidate] |= ratio(took[BASELINE] / audio[BASELINE], took[candidate] / audio[candidate])
    return row


def _first_audio(voices: dict[str, Voice], job: Job) -> dict[str, Any]:
    """Time from text to the first chunk of a stream, all texts and candidates in turn, frontend included."""
    work = {
        f"{length}|{candidate}": partial(_hear_first, voice, TEXTS[length])
        for length in job.lengths
        for candidate, voice in voices.items()
    }
    took = take_turns(work, job.seconds * len(job.lengths), least=8)
    row: dict[str, Any] = {}
    for name, times in took.items():
        length, _, candidate = name.partition("|")
        if name != CONTROL:
            row.setdefault(length, {CONTROL: figures(took[CONTROL])})[candidate] = figures(times)
    return row


def _cold(job: Job) -> dict[str, Any]:
    [candidate] = job.candidates
    began = time.perf_counter()
    try:
        voice = load(job, candidate)
    except SonorantError as error:
        return {"not_run": f"not run: {error}"}
    loaded, memory = time.perf_counter() - began, memory_mib("VmRSS")
    first, *others = (_tokens(voice, TEXTS[length]) for length in job.lengths)
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


def load(job: Job, candidate: str) -> Voice:
    """A candidate's voice, prepared for every shape it is prepared for. Raises SonorantError saying why it cannot
    run."""
    runtime, variant = candidate.split("/")
    trained = trained_folders(job.trained, candidate)
    bundle = read_bundle(Path(job.bundle))
    return Voice(
        bundle,
        load_runtime(runtime, bundle, LoadOptions(threads=job.threads, variant=variant, trained=trained, warm_up=True)),
    )


def trained_folders(trained: dict[str, list[str] | None], candidate: str) -> tuple[Path, Path] | None:
    """Those that a torch runtime runs for a candidate; None for other runtimes. Raises SonorantError where there are
    none."""
    runtime, variant = candidate.split("/")
    if runtime_row(runtime).standalone:
        return None
    folders = trained["quantized" if variant == "int8" else "float"]
    if folders is None:
        raise SonorantError("no trained models of that kind")
    return Path(folders[0]), Path(folders[1])


def _tokens(voice: Voice, text: str) -> list[NDArray[np.int64]]:
    return [voice.symbols.to_tokens(sentence.phonemes).astype(np.int64) for sentence in voice.frontend.sentences(text)]


def _speak(voice: Voice, tokens: list[NDArray[np.int64]]) -> float:
    """Speak sentences one after the other; the seconds of audio."""
    one = np.zeros(1, np.int64)
    lengths = [voice.synthesize(t[None], np.array([len(t)]), one, np.ones(1, np.float32))[1] for t in tokens]
    return float(sum(int(length[0]) for length in lengths)) / voice.sample_rate


def _burst(
    pool: ThreadPoolExecutor, many: int, voice: Voice, tokens: list[NDArray[np.int64]], took: list[float]
) -> None:
    def timed(_: int) -> float:
        begin = time.perf_counter()
        _speak(voice, tokens)
        return time.perf_counter() - begin

    took += pool.map(timed, range(many * BURST))


def _hear_first(voice: Voice, text: str) -> None:
    speech = voice.stream(text)
    next(speech)
    speech.close()


def memory_mib(key: str) -> float | None:
    """MiB of this process: VmRSS now, VmHWM at most so far."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    [kibibytes] = re.findall(rf"^{key}:\s+(\d+) kB", status.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return round(int(kibibytes) / 1024, 1)


def main() -> None:
    """Read, measure, print."""
    job = json.load(sys.stdin)
    mode = job.pop("mode")
    print(json.dumps(run(Job(**job), mode)))


def as_json(job: Job, mode: str) -> str:
    """What `main` reads."""
    return json.dumps(dataclasses.asdict(job) | {"mode": mode})


if __name__ == "__main__":
    main()
