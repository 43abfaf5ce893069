"""One process of `benchmarks.decoding`: a job as JSON on stdin, its figures as JSON in the last line of stdout. Judges
nothing.

`race` has all decoders speak the same rows in turn; `start` loads one, prepared for its bucket, and speaks once. A
decoder is
`<runtime>/<variant>`. One thread throughout; what goes wrong with a decoder stands in its place.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.latency_worker import TEXTS, memory_mib, trained_folders
from benchmarks.turns import WARM_UP, figures, ratio, take_turns
from sonorant.decoding.settings import DecodingDescription
from sonorant.decoding.speech import Spoken, decode_texts
from sonorant.decoding.state import EMPTY
from sonorant.errors import SonorantError
from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.runtimes import LoadOptions, TokenRuntime, load_runtime
from sonorant.runtime.voice import Voice

DYNAMIC = "torch/fp32"
"""Eager torch, a cache that grows: what the others are compared with on a CPU."""
DYNAMIC_GPU = "torch-cuda/fp32"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process measures."""

    bundle: str
    """Folder of the voice, of the family codec_lm."""
    trained: dict[str, list[str] | None]
    """`float` and `quantized`: folders of language model and codec, None where there are none."""
    decoders: list[str]
    """`<runtime>/<variant>`."""
    batch: int
    """Rows."""
    bucket: int
    """Slots of the cache that the rows' texts may need."""
    seconds: float
    """Of the race."""
    cache: str
    """Folder where compiled artefacts are kept."""
    first_audio: bool
    """Whether the race also times how soon a sentence is first heard."""


def run(job: Job, mode: str) -> dict[str, Any]:
    """The figures of a job."""
    return {"race": _race, "start": _start}[mode](job)


class Decoder:
    """A loaded runtime with a stepper of its own."""

    def __init__(self, job: Job, name: str) -> None:
        """Load and warm up. Raises SonorantError saying why it cannot run."""
        self.voice = load(job, name)
        self._runtime = cast(TokenRuntime, self.voice.runtime)
        self._stepper = self._runtime.stepper()
        self._decoding = decoding(self.voice)
        self._greedy = replace(
            self._decoding.defaults, temperature=0.0, advance="median", repetition_penalty=1.0, retries=0
        )
        self.took: list[float] = []
        """Seconds of decoding alone, of each call of `decode_texts`."""

    def speak(self, tokens: NDArray[np.int64]) -> Spoken:
        """Rows of phoneme ids (B, N, 3) to samples, greedily; the codes."""
        rows = len(tokens)
        lengths = np.full(rows, tokens.shape[1])
        states = self._runtime.encode(tokens, lengths, np.zeros(rows, np.int64))
        began = time.perf_counter()
        spoken = decode_texts(self._stepper, states, lengths, self._decoding, self._greedy)
        self.took.append(time.perf_counter() - began)
        self._runtime.vocode(spoken.codes_BFG, spoken.lengths_B)
        return spoken


def _race(job: Job) -> dict[str, Any]:
    decoders: dict[str, Decoder] = {}
    found: dict[str, Any] = {"not_run": {}, "decoders": {}}
    for name in job.decoders:
        try:
            decoders[name] = Decoder(job, name)
        except SonorantError as error:
            found["not_run"][name] = f"not run: {error}".replace(f"{job.bundle}/", "")
    voice = next(iter(decoders.values())).voice
    tokens = rows_of_text(voice, job.batch, job.bucket)
    spoken = {name: decoder.speak(tokens) for name, decoder in decoders.items()}
    for decoder in decoders.values():
        decoder.took.clear()
    whole = take_turns(
        {name: partial(decoder.speak, tokens) for name, decoder in decoders.items()}, job.seconds, least=5
    )
    found |= {"phonemes": tokens.shape[1]}
    for name, decoder in decoders.items():
        steps = int(spoken[name].lengths_B.sum())
        took = np.array(decoder.took[WARM_UP:])
        first = DYNAMIC_GPU if "cuda" in name and DYNAMIC_GPU in decoders else DYNAMIC
        found["decoders"][name] = {
            "tokens_per_second": round(steps / float(np.median(took)), 1),
            "rtf": round(float(np.median(whole[name])) / (steps / decoding(voice).frames_per_second), 5),
            "frames": steps,
            "identical": spoken[name].codes_BFG.tobytes() == spoken[first].codes_BFG.tobytes(),
            "counters": counters(decoder.voice),
            # Frame for frame: another precision may speak the text in other time.
            **ratio(np.array(decoders[first].took[WARM_UP:]) / int(spoken[first].lengths_B.sum()), took / steps),
        }
    if job.first_audio:
        found["first_audio"] = first_audio({name: decoder.voice for name, decoder in decoders.items()}, job.seconds)
    return found


def _start(job: Job) -> dict[str, Any]:
    [name] = job.decoders
    began = time.perf_counter()
    try:
        decoder = Decoder(job, name)
    except SonorantError as error:
        return {"not_run": f"not run: {error}".replace(f"{job.bundle}/", "")}
    loaded = time.perf_counter() - began
    decoder.speak(rows_of_text(decoder.voice, job.batch, job.bucket))
    found = {"load_s": round(loaded, 2), "peak_mib": memory_mib("VmHWM"), "counters": counters(decoder.voice)}
    if "cuda" in name:
        import torch

        found["gpu_peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return found


def load(job: Job, name: str) -> Voice:
    """A decoder's voice, prepared for the job's bucket and batch alone."""
    runtime, variant = name.split("/")
    bundle = read_bundle(Path(job.bundle))
    options = LoadOptions(
        threads=1,
        variant=variant,
        trained=trained_folders(job.trained, name),
        batches=(job.batch,),
        slots=(job.bucket,),
        cache_folder=Path(job.cache),
        warm_up=True,
    )
    return Voice(bundle, load_runtime(runtime, bundle, options))


def rows_of_text(voice: Voice, batch: int, bucket: int) -> NDArray[np.int64]:
    """Phoneme ids (B, N, 3) of a passage, each row from another place, N as many as the bucket has room for with their
    whole budget."""
    described = decoding(voice)
    before = 1 if described.text == "pointer" else 2
    slots_a_phoneme = described.defaults.budget * described.frames_per_phoneme.p99 + before - 1
    count = int((bucket - 1 - max(1, described.prompt_frames) - described.codebooks) // slots_a_phoneme)
    if count <= EMPTY:
        raise SonorantError(f"a bucket of {bucket} slots has no room for any text; take a larger one")
    phonemes = voice.frontend.speak(TEXTS["paragraph"]).phonemes
    enough = phonemes * (1 + (count + 13 * batch) // len(phonemes))
    return np.stack(
        [voice.symbols.to_tokens(enough[13 * row :][: count - EMPTY]).astype(np.int64) for row in range(batch)]
    )


def first_audio(voices: dict[str, Voice], seconds: float) -> dict[str, Any]:
    """Time from text to the first chunk of a stream, in turn, frontend included."""

    def hear_first(voice: Voice) -> None:
        speech = voice.stream(TEXTS["medium"])
        next(speech)
        speech.close()

    work: dict[str, Callable[[], object]] = {name: partial(hear_first, voice) for name, voice in voices.items()}
    took = take_turns(work, seconds, least=8)
    return {
        name: {key: value for key, value in figures(took[name]).items() if key in ("p50_ms", "p95_ms")}
        for name in voices
    }


def decoding(voice: Voice) -> DecodingDescription:
    """How the voice is decoded. Raises SonorantError for one of another family."""
    if voice.description.decoding is None:
        raise SonorantError(f"{voice.bundle.folder}: this voice decodes no tokens; name one of the family codec_lm")
    return voice.description.decoding


def counters(voice: Voice) -> dict[str, int] | None:
    """What became of the requests, where a runtime of fixed shapes counts them."""
    count = getattr(voice.runtime, "counters", None)
    return dataclasses.asdict(count()) if count else None


def main() -> None:
    """Read, measure, print."""
    job = json.load(sys.stdin)
    mode = job.pop("mode")
    print(json.dumps(run(Job(**job), mode)))


if __name__ == "__main__":
    main()
