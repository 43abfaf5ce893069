"""Torch runtime of the codec language model and its codec, on the CPU or a GPU. `dynamic` accepts any batch; `static`
uses buffers of a few shapes; `compiled` compiles the step of `static`, once for one row and once for more; `recorded`
replays it as a CUDA graph. On a GPU, `sonorant.speech.torch_graphs` also records compiled steps, because torch's own
graphs (`reduce-overhead`) belong to the thread that created them."""

import math
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from sonorant.audio.arrays import Floats, Ints
from sonorant.extras.codec_lm.decoding.session import Stepper
from sonorant.extras.codec_lm.saved import AnyCodec, load_codec, load_language_model
from sonorant.extras.codec_lm.sounding import decoding_of
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.extras.codec_lm.torch_dynamic import DynamicStepper, TorchStep
from sonorant.extras.codec_lm.torch_static import InPlace, Record, Rooms, Shapes, StaticStepper, in_place
from sonorant.files import sha256_file, user_caches
from sonorant.speech.buckets import Counters
from sonorant.speech.bundle import VoiceDescription
from sonorant.speech.decoding import DecodingDescription
from sonorant.speech.runtimes import LoadOptions
from sonorant.speech.torch_graphs import (
    HALVES,
    Compiler,
    CudaGraphs,
    check_device,
    check_variant,
    halve,
    keep_compiled,
)

Way = Literal["dynamic", "static", "compiled", "recorded"]
SMALLEST = 128
"""Number of slots in the smallest shape; fewer are no faster."""


class TorchTokenRuntime:
    """A `TokenRuntime` for any number of threads and any batch size."""

    def __init__(self, step: TorchStep, codec: AnyCodec) -> None:
        self._step, self._codec = step, codec

    @torch.inference_mode()
    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints) -> Floats:
        tensors = (torch.tensor(value, device=self._step.device) for value in (tokens, lengths, speaker))
        states: Floats = self._step.model.encode_speech(*tensors).cpu().numpy()
        return states

    def stepper(self) -> Stepper:
        return DynamicStepper(self._step)

    def decode(self, codes: Ints, lengths: Ints) -> Floats:
        assert isinstance(self._codec, SourceCodec)  # `decode` is for voices with a source
        return self._computed(self._codec.frames, codes, lengths)

    def vocode(self, frames: NDArray[Any], lengths: Ints) -> Floats:
        return self._computed(self._codec.vocode, frames, lengths)

    @torch.inference_mode()
    def _computed(self, compute: Callable[[Tensor, Tensor], Tensor], given: NDArray[Any], lengths: Ints) -> Floats:
        device, half = self._step.device, self._step.half
        with torch.autocast(device.type, half, enabled=half is not None, cache_enabled=False):
            computed = compute(torch.tensor(given, device=device), torch.tensor(lengths, device=device))
        result: Floats = computed.float().cpu().numpy()
        return result


class StaticTokenRuntime(TorchTokenRuntime):
    """A `TorchTokenRuntime` with buffers of a few shapes. Batches that fit no shape are counted and decoded as by
    `dynamic`."""

    def __init__(
        self, step: TorchStep, codec: AnyCodec, decoding: DecodingDescription, shapes: Shapes, way: Way
    ) -> None:
        super().__init__(step, codec)
        self.compiler = Compiler() if way == "compiled" else None
        self._graphs = CudaGraphs() if step.device.type == "cuda" and way != "static" else None
        functions: dict[bool, InPlace] = {drawn: in_place(step, drawn) for drawn in (False, True)}
        if self.compiler:
            functions = {drawn: self.compiler(function) for drawn, function in functions.items()}
        record: Record = self._graphs.record if self._graphs else lambda run: run
        self._new_rooms = lambda: Rooms(step, decoding, shapes, functions, record)
        self._shapes = shapes
        self._hits = self._misses = self._warmed = 0
        self._idle: list[Rooms] = []
        self._lock = threading.Lock()

    def stepper(self) -> StaticStepper:
        """Create a stepper. Its buffers are reused after it is deleted."""
        with self._lock:
            rooms = self._idle.pop() if self._idle else self._new_rooms()
        stepper = StaticStepper(rooms, self._count)
        weakref.finalize(stepper, self._idle.append, rooms)
        return stepper

    def warm_up(self, progress: bool = True) -> None:
        """Prepare one stepper for every shape, so that no request has to wait."""
        began, stepper, plan = perf_counter(), self.stepper(), self._shapes.plan()
        steps = tqdm(plan, desc="warm-up", unit="shape", disable=not progress)
        for rows, slots, drawn in steps:
            steps.set_postfix_str(f"{rows} rows x {slots} slots, {'drawn' if drawn else 'greedy'}")
            stepper.rooms.prepare(rows, slots, drawn)
        self._hits = self._misses = 0
        self._warmed = self._prepared()
        if progress:
            counts = self.compiler
            compiled = f"; compiled graphs: {counts.made} made, {counts.taken} from the cache" if counts else ""
            print(f"warm-up: {perf_counter() - began:.1f} s{compiled}", file=sys.stderr)

    def counters(self) -> Counters:
        """Return batch counts since loading or `warm_up`; `late` counts compilations and recordings while serving."""
        prepared = self._prepared()
        return Counters(hits=self._hits, misses=self._misses, prepared=prepared, late=prepared - self._warmed)

    def _count(self, hit: bool) -> None:
        with self._lock:
            self._hits += hit
            self._misses += not hit

    def _prepared(self) -> int:
        return sum(one.prepared for one in (self.compiler, self._graphs) if one)


def load_tokens(
    trained: tuple[Path, Path],
    description: VoiceDescription,
    options: LoadOptions,
    *,
    way: Way = "dynamic",
    device: str = "cpu",
) -> TorchTokenRuntime:
    """Load a language model and its codec from their folders. Raises SonorantError as the parallel family's
    `load_functions` does."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    place = torch.device(device)
    check_device(place)
    (model, described), (codec, codec_described) = load_language_model(trained[0]), load_codec(trained[1])
    check_variant(options.variant, any("quantization" in one for one in (described, codec_described)), trained, place)
    model, codec = model.to(place), codec.to(place)
    half = HALVES.get(options.variant or "")
    if half is not None:
        for module in (model.transformer, model.text, model.logits, model.advance, codec):
            halve(module, half)
    step = TorchStep(model, place, half)
    if way == "dynamic":
        return TorchTokenRuntime(step, codec)
    decoding = decoding_of(description)
    slots = options.slots or slots_of(decoding, description.lengths.tokens[-1])
    runtime = StaticTokenRuntime(step, codec, decoding, Shapes(_rising(options.batches), _rising(slots)), way)
    if way == "compiled":
        keep_compiled(options.cache_folder or cache_folder(trained[0]))
    if options.warm_up:
        runtime.warm_up()
    return runtime


def _rising(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(sizes))


def slots_of(decoding: DecodingDescription, phonemes: int) -> tuple[int, ...]:
    """Return powers of two from `SMALLEST` to the number of slots that the longest text needs for its whole frame
    budget."""
    frames = math.ceil(decoding.defaults.budget * decoding.frames_per_phoneme.p99 * phonemes) + decoding.codebooks - 1
    before = 1 + max(1, decoding.prompt_frames)
    sizes = [SMALLEST]
    while sizes[-1] < max(before + frames, phonemes):
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def cache_folder(language_model: Path) -> Path:
    """Return the folder for compiled code, named by torch version and weights."""
    weights = sha256_file(language_model / "weights.pt")[:16]
    return user_caches() / "compiled" / f"torch-{torch.__version__}" / weights
