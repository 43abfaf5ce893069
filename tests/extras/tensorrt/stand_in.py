"""Stand-ins for CUDA and TensorRT: memory, contexts, recordings; ONNX Runtime computes.

They test our freeing, recording, replaying and padding, not TensorRT (see `test_gpu.py`). Silent errors of a real GPU,
such as reads of freed memory, go into `Gpu.faults`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime

from sonorant.extras.tensorrt.engines import Engine
from sonorant.extras.tensorrt.key import EngineConfig, EngineKey, Machine, profiles_of
from sonorant.files import sha256_file, write_json
from sonorant.speech.bundle import Bundle

MACHINE = Machine(tensorrt="11.4.0.106", gpu="stand-in", compute_capability=(9, 0))
SCRATCH = 4096
"""Bytes of scratch memory per engine."""
_OURS = (
    *(f"sonorant.extras.tensorrt.{name}" for name in ("device", "execution", "builder")),
    "sonorant.extras.tensorrt.parallel_runtime",
)
"""Modules that import TensorRT or CUDA."""


class Error(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorMemoryAllocation = 2
    cudaErrorStreamCaptureUnsupported = 900


class Direction(enum.Enum):
    INPUT = 0
    OUTPUT = 1


@dataclasses.dataclass
class Gpu:
    memory: dict[int, bytearray] = dataclasses.field(default_factory=dict)
    limit: int = 1 << 40
    """Bytes of memory."""
    faults: list[str] = dataclasses.field(default_factory=list)
    """Reads or writes of foreign memory."""
    captures: int = 0
    replays: int = 0
    runs: int = 0
    """Number of engine runs, without replays."""
    recordable: bool = True
    contexts: bool = True
    """Whether TensorRT creates contexts."""
    _next: int = 1 << 40

    @property
    def taken(self) -> int:
        return sum(map(len, self.memory.values()))

    def allocate(self, size: int) -> tuple[Error, int]:
        if self.taken + size > self.limit:
            return Error.cudaErrorMemoryAllocation, 0
        address, self._next = self._next, self._next + size + 256
        self.memory[address] = bytearray(size)
        return Error.cudaSuccess, address

    def piece(self, address: int, size: int, what: str) -> memoryview | None:
        """The memory at an address. None, with a fault, if it was freed or is too small."""
        held = self.memory.get(address)
        if held is None or size > len(held):
            self.faults.append(f"{what}: {size} bytes at {address:#x}, where there are {len(held) if held else 'none'}")
            return None
        return memoryview(held)[:size]


class Stream:
    """Runs queued work immediately, or records it."""

    known: dict[int, Stream] = {}  # noqa: RUF012 - by handle, as CUDA knows them

    def __init__(self) -> None:
        self.recording: list[Callable[[], None]] | None = None
        self.known[id(self)] = self

    def __int__(self) -> int:
        return id(self)


class Context:
    def __init__(self, engine: StandInEngine) -> None:
        self._engine = engine
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._profile = self._scratch = 0

    def set_device_memory(self, address: int, size: int) -> None:
        self._scratch = address

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        self._profile = profile
        return profile < self._engine.num_optimization_profiles

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self._engine.get_tensor_profile_shape(name, self._profile)
        self._shapes[name] = tuple(shape)
        return all(low <= size <= high for low, size, high in zip(least, shape, most, strict=True))

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self._shapes:
            return self._shapes[name]
        named = {
            size: self._shapes[given][axis]
            for given, sizes in self._engine.sizes.items()
            if given in self._shapes
            for axis, size in enumerate(sizes)
            if isinstance(size, str)
        }
        return tuple(_computed(size, named) for size in self._engine.sizes[name])

    def execute_async_v3(self, handle: int) -> bool:
        shapes = {name: self.get_tensor_shape(name) for name in self._engine.sizes}
        addresses, scratch, gpu = dict(self._addresses), self._scratch, self._engine.gpu

        def run() -> None:
            gpu.piece(scratch, SCRATCH, "scratch")
            given = {name: self._engine.read(name, shapes[name], addresses[name]) for name in self._engine.inputs}
            if all(array is not None for array in given.values()):
                computed = self._engine.session.run(self._engine.outputs, given)
                for name, array in zip(self._engine.outputs, computed, strict=True):
                    piece = gpu.piece(addresses[name], array.nbytes, f"writes {name}")
                    if piece is not None:
                        piece[:] = array.tobytes()

        recording = Stream.known[handle].recording
        if recording is not None:
            recording.append(run)
            return gpu.recordable
        gpu.runs += 1
        run()
        return True


def _computed(size: int | str, named: dict[str | int, int]) -> int:
    factors = [named[part] if part in named else int(part) for part in str(size).split("*")]
    return int(np.prod(factors))


class StandInEngine:
    device_memory_size_v2 = SCRATCH

    def __init__(self, gpu: Gpu, content: bytes) -> None:
        self.gpu = gpu
        described = json.loads(content)
        self._profiles = described["profiles"]
        self.num_optimization_profiles = len(self._profiles)
        self.session = onnxruntime.InferenceSession(described["graph"])
        tensors = [*self.session.get_inputs(), *self.session.get_outputs()]
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        self.outputs = [tensor.name for tensor in self.session.get_outputs()]
        self.sizes: dict[str, list[int | str]] = {tensor.name: tensor.shape for tensor in tensors}
        self.num_io_tensors = len(self.sizes)
        kinds = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
        self._dtypes = {tensor.name: kinds[tensor.type] for tensor in tensors}

    def read(self, name: str, shape: tuple[int, ...], address: int) -> np.ndarray | None:
        dtype = np.dtype(self._dtypes[name])
        piece = self.gpu.piece(address, int(np.prod(shape)) * dtype.itemsize, f"reads {name}")
        return None if piece is None else np.frombuffer(piece, dtype).reshape(shape)

    def get_tensor_name(self, index: int) -> str:
        return [*self.sizes][index]

    def get_tensor_mode(self, name: str) -> Direction:
        return Direction.INPUT if name in self.inputs else Direction.OUTPUT

    def get_tensor_dtype(self, name: str) -> type:
        return self._dtypes[name]

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[tuple[int, ...]]:
        sizes = self._profiles[profile]
        return [
            tuple(sizes[size][place] if isinstance(size, str) else size for size in self.sizes[name])
            for place in range(3)
        ]

    def create_execution_context(self, strategy: object) -> Context | None:
        return Context(self) if self.gpu.contexts else None


@contextmanager
def installed() -> Iterator[Gpu]:
    """Replace both packages and re-import our modules; undo it afterwards."""
    gpu = Gpu()
    names = ["tensorrt", "cuda", "cuda.bindings", "cuda.bindings.runtime", *_OURS]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    runtime, bindings = _module("cuda.bindings.runtime", _cuda(gpu)), ModuleType("cuda.bindings")
    bindings.runtime = runtime
    sys.modules |= {"tensorrt": _module("tensorrt", _tensorrt(gpu)), "cuda": ModuleType("cuda")}
    sys.modules |= {"cuda.bindings": bindings, "cuda.bindings.runtime": runtime}
    try:
        yield gpu
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def write_engines(bundle: Bundle, folder: Path, config: EngineConfig) -> None:
    """Write stand-in engines of all variants with real keys; all contain fp32."""
    folder.mkdir(exist_ok=True)
    for graph in bundle.graphs:
        for variant in bundle.description.graphs[graph].variants:
            profiles = profiles_of(graph, bundle.description.lengths, config.max_batch)
            path, computed = folder / f"{graph}.{variant}.engine", str(bundle.graph_file(graph, "fp32"))
            write_json(path, {"graph": computed, "profiles": [dataclasses.asdict(one) for one in profiles]})
            onnx = sha256_file(bundle.graph_file(graph, variant))
            key = EngineKey(onnx=onnx, machine=MACHINE, config=config, profiles=profiles)
            write_json(path.with_suffix(".json"), dataclasses.asdict(Engine(key=key, sha256=sha256_file(path))))


def _module(name: str, content: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def _tensorrt(gpu: Gpu) -> dict[str, Any]:
    class Logger:
        INTERNAL_ERROR, ERROR, WARNING = 0, 1, 2
        Severity = int

    class Runtime:
        def __init__(self, logger: Logger) -> None:
            pass

        def deserialize_cuda_engine(self, content: bytes) -> StandInEngine:
            return StandInEngine(gpu, content)

    return {
        "__version__": MACHINE.tensorrt,
        "ILogger": Logger,
        "IProgressMonitor": object,
        "Runtime": Runtime,
        "TensorIOMode": Direction,
        "ExecutionContextAllocationStrategy": enum.Enum("Strategy", "USER_MANAGED"),
        "nptype": lambda kind: kind,
        "IExecutionContext": Context,
        "ICudaEngine": StandInEngine,
    }


def _cuda(gpu: Gpu) -> dict[str, Any]:
    done = (Error.cudaSuccess,)

    def copy(target: int, source: int, size: int, kind: int, stream: int) -> tuple[Error]:
        piece = gpu.piece(target if kind == 1 else source, size, "copy")
        if piece is not None and size:
            there = ctypes.addressof((ctypes.c_char * size).from_buffer(piece))
            ctypes.memmove(there if kind == 1 else target, source if kind == 1 else there, size)
        return done

    def begin(stream: Stream, mode: int) -> tuple[Error]:
        stream.recording = []
        return done

    def end(stream: Stream) -> tuple[Error, list[Callable[[], None]] | None]:
        recorded, stream.recording = stream.recording, None
        gpu.captures += gpu.recordable
        return (Error.cudaSuccess, recorded) if gpu.recordable else (Error.cudaErrorStreamCaptureUnsupported, None)

    def launch(recorded: list[Callable[[], None]], stream: Stream) -> tuple[Error]:
        gpu.replays += 1
        for run in recorded:
            run()
        return done

    def free(address: int) -> tuple[Error]:
        gpu.memory.pop(address, None)
        return done

    properties = type("Properties", (), {"name": MACHINE.gpu.encode() + b"\0", "major": 9, "minor": 0})
    nothing = ("cudaStreamDestroy", "cudaStreamSynchronize", "cudaGraphDestroy", "cudaGraphExecDestroy")
    return {
        "cudaError_t": Error,
        "cudaMemcpyKind": enum.IntEnum("Kind", {"cudaMemcpyHostToDevice": 1, "cudaMemcpyDeviceToHost": 2}),
        "cudaStreamCaptureMode": enum.IntEnum("Mode", {"cudaStreamCaptureModeThreadLocal": 1}),
        "cudaStreamNonBlocking": 1,
        "cudaGetDevice": lambda: (Error.cudaSuccess, 0),
        "cudaGetDeviceCount": lambda: (Error.cudaSuccess, 1),
        "cudaGetDeviceProperties": lambda device: (Error.cudaSuccess, properties),
        "cudaGetErrorString": lambda error: (Error.cudaSuccess, Error(error).name.encode()),
        "cudaMalloc": gpu.allocate,
        "cudaFree": free,
        "cudaMemcpyAsync": copy,
        "cudaStreamCreateWithFlags": lambda flags: (Error.cudaSuccess, Stream()),
        "cudaStreamBeginCapture": begin,
        "cudaStreamEndCapture": end,
        "cudaGraphInstantiate": lambda recorded, flags: (Error.cudaSuccess, recorded),
        "cudaGraphLaunch": launch,
        **{name: lambda _: done for name in nothing},
    }
