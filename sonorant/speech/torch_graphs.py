"""Devices, precisions, compilation and CUDA graphs of the torch runtimes."""

import os
import shutil
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from sonorant.errors import SonorantError

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
Function = Callable[..., tuple[Tensor, ...]]


def halve(module: nn.Module, dtype: torch.dtype) -> None:
    """Store the large weights as autocast would cast them."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv1d):
            part.to(dtype)


def check_device(device: torch.device) -> None:
    """Raise SonorantError if the device does not exist; disable TF32 on it."""
    if device.type != "cuda":
        return
    with warnings.catch_warnings():  # the error below replaces the warning
        warnings.simplefilter("ignore")
        available = torch.cuda.is_available()
    if not available:
        raise SonorantError("torch finds no GPU; use the runtime torch or onnxruntime")
    # TF32 keeps only ten bits of the mantissa of fp32.
    torch.backends.cudnn.allow_tf32 = False


def check_variant(variant: str | None, quantized: bool, trained: tuple[Path, Path], device: torch.device) -> None:
    """Raise SonorantError if the trained folders do not support this variant on this device."""
    folders = f"{trained[0]} and {trained[1]}"
    if variant not in (None, "fp32", "int8", *HALVES):
        raise SonorantError(f"unknown torch variant '{variant}'; use one of: fp32, int8, {', '.join(HALVES)}")
    if variant == "int8" and not quantized:
        raise SonorantError(f"{folders} contain float models; for int8 give those of the stage quantize")
    if quantized and variant not in (None, "int8"):
        raise SonorantError(
            f"{folders} contain quantised models; for {variant} give models/predictor and models/waveform"
        )
    if variant == "fp16" and device.type == "cpu":
        raise SonorantError("torch computes fp16 on a CPU by emulation, slower than fp32; use a GPU, or bf16")


MOST_SHAPES = 1024
"""Maximum number of compiled shapes of one function."""
Work = TypeVar("Work", bound=Callable[..., Any])


class Compiler:
    """Compiles functions for each shape and counts compilations; dimensions marked with `torch._dynamo.mark_dynamic`
    may vary."""

    def __init__(self) -> None:
        """Raises SonorantError if the C++ compiler that torch uses to build kernels is missing."""
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise SonorantError(f"torch.compile requires {compiler}, a C++ compiler; install it, or set CXX to another")
        self.taken = 0
        """Number of graphs loaded from torch's cache."""
        self.made = 0
        self._lock = threading.Lock()

    @property
    def prepared(self) -> int:
        return self.taken + self.made

    def __call__(self, function: Work) -> Work:
        """Wrap a function so that it is compiled at the first call with each new shape."""
        # Isolated, so that another voice in this process is neither searched nor counted.
        limits: dict[str, Any] = {"recompile_limit": MOST_SHAPES, "isolate_recompiles": True}
        return cast(Work, torch.compile(function, fullgraph=True, dynamic=False, backend=self._compile, **limits))

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        with self._lock:
            before = _found()
            compiled = torch._dynamo.lookup_backend("inductor")(graph, inputs)
            if _found() > before:
                self.taken += 1
            else:
                self.made += 1
        return compiled


def _found() -> int:
    counters = torch._dynamo.utils.counters
    return counters["aot_autograd"]["autograd_cache_hit"] + counters["inductor"]["fxgraph_cache_hit"]


def keep_compiled(folder: Path) -> None:
    """Set the folder in which torch caches compiled code for this process. torch checks that code, version and machine
    match."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder.resolve())


WARM_UP = 3
"""Number of runs before recording, in which libraries choose kernels and allocate memory."""


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]


class CudaGraphs:
    """Records functions as CUDA graphs, which launch all kernels together. All graphs share one memory pool, so only
    one is replayed at a time."""

    def __init__(self) -> None:
        self.prepared = 0
        self._pool = torch.cuda.graph_pool_handle()
        self._lock = threading.Lock()

    def __call__(self, function: Function) -> Function:
        """Wrap a function so that it is recorded at the first call with each new shape; it must not wait for the
        GPU."""
        recordings: dict[tuple[Any, ...], _Recording] = {}

        def replay(*inputs: Tensor) -> tuple[Tensor, ...]:
            key = tuple((value.shape, value.dtype) for value in inputs)
            with self._lock:
                if key not in recordings:
                    recordings[key] = self._record(function, inputs)
                recording = recordings[key]
                for place, value in zip(recording.inputs, inputs, strict=True):
                    place.copy_(value)
                recording.graph.replay()
                # All run on one stream, so outputs are copied before another replay overwrites them.
                return tuple(output.clone() for output in recording.outputs)

        return replay

    def _record(self, function: Function, inputs: tuple[Tensor, ...]) -> _Recording:
        held = tuple(value.clone() for value in inputs)
        return _Recording(*self._captured(lambda: function(*held)), inputs=held)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Record a function that works on fixed buffers. It must not wait for the GPU."""
        with self._lock:
            graph, _ = self._captured(function)
        return graph.replay

    def _captured(self, function: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate at the same time.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = function()
        self.prepared += 1
        return graph, outputs
