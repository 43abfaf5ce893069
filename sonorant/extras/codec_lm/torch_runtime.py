"""The codec language model and its codec as a torch runtime, on the CPU or a GPU.

`dynamic` takes any batch; `static` uses buffers of a few shapes; `compiled` compiles that step, once for one row and
once for more; `recorded` replays it as a CUDA graph. On a GPU a compiled step is recorded too, by
`sonorant.speech.torch_graphs`: torch's own graphs (`reduce-overhead`) belong to the thread that made them."""

import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from sonorant.audio.arrays import Floats, Ints
from sonorant.extras.codec_lm.decoding.session import Stepper
from sonorant.extras.codec_lm.saved import load_codec, load_language_model
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.extras.codec_lm.torch_dynamic import DynamicStepper, TorchStep
from sonorant.extras.codec_lm.torch_static import InPlace, Record, Rooms, Shapes, StaticStepper, Tally, in_place
from sonorant.files import sha256_file
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
    log_compilation,
)

Way = Literal["dynamic", "static", "compiled", "recorded"]
SMALLEST = 128
"""Slots of the smallest shape: fewer are no faster."""


class Decodes(Protocol):
    """A codec; see `SoundCodec.vocode` and, with a source, `SourceCodec.frames`."""

    def vocode(self, frames: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Frames or codes to samples."""


class TorchTokenRuntime:
    """A `TokenRuntime` for any number of threads and batches of any size."""

    def __init__(self, step: TorchStep, codec: Decodes) -> None:
        """`step` and `codec` are on the same device."""
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


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """Result of a warm-up."""

    seconds: float
    shapes: int
    """Rows and slots, with and without drawing."""
    taken: int
    """Compiled graphs found in the cache folder."""
    made: int
    """Graphs compiled now."""


class StaticTokenRuntime(TorchTokenRuntime):
    """`TorchTokenRuntime` in buffers of a few shapes. Batches that fit none are decoded by the dynamic way and
    counted."""

    def __init__(
        self,
        step: TorchStep,
        codec: Decodes,
        shapes: Shapes,
        functions: Mapping[bool, InPlace],
        compiler: Compiler | None,
        graphs: CudaGraphs | None,
    ) -> None:
        """`functions`: steps in place by whether rows draw, shared by all steppers; `compiler`: what compiled them;
        `graphs`: records each room's step."""
        super().__init__(step, codec)
        self.shapes = shapes
        self._functions, self._compiler, self._graphs = functions, compiler, graphs
        self._record: Record = graphs.record if graphs else lambda run: run
        self._tally = Tally()
        self._warmed = 0
        self._idle: list[Rooms] = []
        """Rooms without a stepper."""
        self._lending = threading.Lock()

    def stepper(self) -> StaticStepper:
        """As `TokenRuntime.stepper`; its rooms are reused once it is gone."""
        with self._lending:
            rooms = self._idle.pop() if self._idle else Rooms(self._step, self.shapes)
        stepper = StaticStepper(
            self._step, self.shapes, rooms, self._functions, self._record, DynamicStepper(self._step), self._tally
        )
        weakref.finalize(stepper, self._idle.append, rooms)
        return stepper

    def warm_up(self, progress: bool = True) -> Warmed:
        """Prepare one stepper for every shape, so that no request waits; `progress` reports on stderr."""
        from tqdm import tqdm

        began, before = perf_counter(), self._taken_and_made()
        stepper, plan = self.stepper(), self.shapes.plan()
        if progress:
            rows_planned, slots_planned = (", ".join(map(str, sizes)) for sizes in self.shapes)
            print(
                f"warm-up: {len(plan)} shapes: {rows_planned} rows x {slots_planned} slots, greedy and drawn",
                file=sys.stderr,
            )
        steps = tqdm(plan, desc="warm-up", unit="shape", disable=not progress)
        for rows, slots, drawn in steps:
            steps.set_postfix_str(f"{rows} x {slots} {'drawn' if drawn else 'greedy'}")
            stepper.prepare(rows, slots, drawn)
        self._tally.clear()
        self._warmed = self._prepared()
        taken, made = (now - then for now, then in zip(self._taken_and_made(), before, strict=True))
        warmed = Warmed(seconds=perf_counter() - began, shapes=len(plan), taken=taken, made=made)
        if progress:
            compiled = f"; compiled graphs: {made} made, {taken} taken from the folder" if self._compiler else ""
            print(f"warm-up: {warmed.seconds:.1f} s{compiled}", file=sys.stderr)
        return warmed

    def counters(self) -> Counters:
        """Batches since loading or `warm_up`; `late`: compilations and recordings while serving."""
        prepared = self._prepared()
        return Counters(
            hits=self._tally.hits, misses=self._tally.misses, prepared=prepared, late=prepared - self._warmed
        )

    def _prepared(self) -> int:
        return sum(one.prepared for one in (self._compiler, self._graphs) if one)

    def _taken_and_made(self) -> tuple[int, int]:
        return (self._compiler.taken, self._compiler.made) if self._compiler else (0, 0)


def load_tokens(
    trained: tuple[Path, Path],
    description: VoiceDescription,
    options: LoadOptions,
    *,
    way: Way = "dynamic",
    device: str = "cpu",
) -> TorchTokenRuntime:
    """Load trained folders (language model, codec). `options.variant`: as in the parallel family's `load_functions`.
    Raises SonorantError as the other torch runtimes do."""
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
    assert description.decoding is not None  # checked by `read_bundle`
    slots = options.slots or slots_of(description.decoding, description.lengths.tokens[-1])
    runtime = _static(step, codec, Shapes(tuple(sorted(options.batches)), tuple(sorted(slots))), way)
    if way == "compiled":
        keep_compiled(options.cache_folder or cache_folder(trained[0]))
    if options.explain:
        log_compilation()
    if options.warm_up:
        runtime.warm_up()
    return runtime


def slots_of(decoding: DecodingDescription, phonemes: int) -> tuple[int, ...]:
    """Powers of two from `SMALLEST` to the slots for the longest text with its whole budget."""
    frames = math.ceil(decoding.defaults.budget * decoding.frames_per_phoneme.p99 * phonemes) + decoding.codebooks - 1
    before = 1 + max(1, decoding.prompt_frames)
    sizes = [SMALLEST]
    while sizes[-1] < max(before + frames, phonemes):
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def cache_folder(language_model: Path) -> Path:
    """Folder of a language model's compiled steps in the user's cache, by torch version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (
        cache / "sonorant" / "compiled" / f"torch-{torch.__version__}" / sha256_file(language_model / "weights.pt")[:16]
    )


def _static(step: TorchStep, codec: Decodes, shapes: Shapes, way: Way) -> StaticTokenRuntime:
    functions = {drawn: in_place(step, drawn) for drawn in (False, True)}
    graphs = CudaGraphs() if step.device.type == "cuda" and way != "static" else None
    compiler = Compiler() if way == "compiled" else None
    if compiler:
        functions = {drawn: compiler(function) for drawn, function in functions.items()}
    return StaticTokenRuntime(step, codec, shapes, functions, compiler, graphs)
