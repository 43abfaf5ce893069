"""One process of `benchmarks decoding`: `race` has all decoders speak the same rows alternately; `start` loads
one, prepared for its bucket, and speaks once. Uses one thread."""

import dataclasses
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.processes import answer, memory_mib
from benchmarks.speaking.texts import TEXTS, VoiceJob, hear_first, load, load_all
from benchmarks.turns import WARM_UP, figures, ratio, take_turns
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.decoding.attempts import Spoken, decode_texts
from sonorant.extras.codec_lm.decoding.session import TokenRuntime
from sonorant.extras.codec_lm.decoding.state import EMPTY
from sonorant.extras.codec_lm.sounding import Sounding
from sonorant.speech.decoding import DecodingDescription
from sonorant.speech.voice import Voice

DYNAMIC = "torch/fp32"
"""Eager torch with a growing cache: the baseline on a CPU."""
DYNAMIC_GPU = "torch-cuda/fp32"


@dataclass(frozen=True, kw_only=True)
class Job(VoiceJob):
    decoders: list[str]
    """`<runtime>/<variant>`."""
    batch: int
    """Rows."""
    bucket: int
    """Number of cache slots that the rows' texts may need."""
    seconds: float
    """Duration of the race."""
    cache: str
    """Folder of compiled artefacts."""
    first_audio: bool
    """Whether the race also times the first audio of a sentence."""


class Decoder:
    def __init__(self, job: Job, name: str) -> None:
        """Load and warm up for the job's batch and bucket only.

        Raises SonorantError with the reason if it cannot run.
        """
        shapes: dict[str, Any] = {"batches": (job.batch,), "slots": (job.bucket,)}
        self.voice = load(job, name, threads=1, cache_folder=Path(job.cache), **shapes)
        self._runtime = cast(TokenRuntime, self.voice.runtime)
        self._stepper = self._runtime.stepper()
        self._decoding = decoding(self.voice)
        greedy: dict[str, Any] = {"temperature": 0.0, "advance": "median", "repetition_penalty": 1.0, "retries": 0}
        self._greedy = replace(self._decoding.defaults, **greedy)
        self.took: list[float] = []
        """Seconds of decoding alone, per call of `decode_texts`."""

    def speak(self, tokens: NDArray[np.int64]) -> Spoken:
        """Convert rows of phoneme ids (B, N, 3) to samples, greedily; return the codes."""
        rows = len(tokens)
        lengths = np.full(rows, tokens.shape[1])
        states = self._runtime.encode(tokens, lengths, np.zeros(rows, np.int64))
        began = time.perf_counter()
        spoken = decode_texts(self._stepper, states, lengths, self._decoding, self._greedy)
        self.took.append(time.perf_counter() - began)
        frames = max(1, spoken.codes_BFG.shape[1])
        Sounding(self._runtime, self.voice.description).whole(spoken.codes_BFG, spoken.lengths_B, frames)
        return spoken

    def counters(self) -> dict[str, int] | None:
        """How requests were served, if a runtime of fixed shapes counts them."""
        count = getattr(self.voice.runtime, "counters", None)
        return dataclasses.asdict(count()) if count else None


def race(job: Job) -> dict[str, Any]:
    decoders, not_run = load_all(job, job.decoders, partial(Decoder, job))
    voice = next(iter(decoders.values())).voice
    tokens = rows_of_text(voice, job.batch, job.bucket)
    spoken = {name: decoder.speak(tokens) for name, decoder in decoders.items()}
    for decoder in decoders.values():
        decoder.took.clear()
    work = {name: partial(decoder.speak, tokens) for name, decoder in decoders.items()}
    whole = take_turns(work, job.seconds, least=5)
    found: dict[str, Any] = {"not_run": not_run, "decoders": {}, "phonemes": tokens.shape[1]}
    for name, decoder in decoders.items():
        steps = int(spoken[name].lengths_B.sum())
        took = np.array(decoder.took[WARM_UP:])
        first = DYNAMIC_GPU if "cuda" in name and DYNAMIC_GPU in decoders else DYNAMIC
        found["decoders"][name] = {
            "tokens_per_second": round(steps / float(np.median(took)), 1),
            "rtf": round(float(np.median(whole[name])) / (steps / decoding(voice).frames_per_second), 5),
            "frames": steps,
            "identical": spoken[name].codes_BFG.tobytes() == spoken[first].codes_BFG.tobytes(),
            "counters": decoder.counters(),
            # Per frame, because another precision may speak the text in a different time.
            **ratio(np.array(decoders[first].took[WARM_UP:]) / int(spoken[first].lengths_B.sum()), took / steps),
        }
    if job.first_audio:
        heard = {name: partial(hear_first, decoder.voice, TEXTS["medium"]) for name, decoder in decoders.items()}
        times = take_turns(heard, job.seconds, least=8)
        rows = {name: figures(times[name]) for name in decoders}
        found["first_audio"] = {name: {key: row[key] for key in ("p50_ms", "p95_ms")} for name, row in rows.items()}
    return found


def start(job: Job) -> dict[str, Any]:
    [name] = job.decoders
    began = time.perf_counter()
    decoders, not_run = load_all(job, job.decoders, partial(Decoder, job))
    if not_run:
        return {"not_run": not_run[name]}
    loaded, decoder = time.perf_counter() - began, decoders[name]
    decoder.speak(rows_of_text(decoder.voice, job.batch, job.bucket))
    found = {"load_s": round(loaded, 2), "peak_mib": memory_mib("VmHWM"), "counters": decoder.counters()}
    if "cuda" in name:
        import torch

        found["gpu_peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return found


def rows_of_text(voice: Voice, batch: int, bucket: int) -> NDArray[np.int64]:
    """Phoneme ids (B, N, 3) of a passage, each row from a different place; N is what fits into the bucket with its
    whole budget."""
    described = decoding(voice)
    slots_a_phoneme = described.defaults.budget * described.frames_per_phoneme.p99
    count = int((bucket - 1 - max(1, described.prompt_frames) - described.codebooks) // slots_a_phoneme)
    if count <= EMPTY:
        raise SonorantError(f"a bucket of {bucket} slots has no room for any text; take a larger one")
    phonemes = voice.frontend.speak(TEXTS["paragraph"]).phonemes
    enough = phonemes * (1 + (count + 13 * batch) // len(phonemes))
    rows = [voice.symbols.to_tokens(enough[13 * row :][: count - EMPTY]) for row in range(batch)]
    return np.stack(rows).astype(np.int64)


def decoding(voice: Voice) -> DecodingDescription:
    if voice.description.decoding is None:
        raise SonorantError(f"{voice.bundle.folder}: this voice decodes no tokens; name one of the family codec_lm")
    return voice.description.decoding


if __name__ == "__main__":
    answer(Job, {"race": race, "start": start})
