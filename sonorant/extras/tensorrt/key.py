"""Key of an engine (graph, machine, shape profiles and settings), to detect stale engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from sonorant.checked import Count
from sonorant.errors import SonorantError, install
from sonorant.speech.buckets import MULTIPLE
from sonorant.speech.bundle import Lengths


@dataclass(frozen=True, kw_only=True)
class Machine:
    tensorrt: str
    gpu: str
    compute_capability: tuple[int, int]


def missing() -> str | None:
    """Return why TensorRT cannot run here, or None if it can."""
    for module, product in (("tensorrt", "TensorRT"), ("cuda.bindings.runtime", "cuda-bindings")):
        try:
            __import__(module)
        except ModuleNotFoundError:
            return f"{product} is not installed"
        except (ImportError, OSError) as error:
            return f"{product} cannot be loaded ({' '.join(str(error).split())[:120]})"
    from cuda.bindings import runtime as cuda

    status, count = cuda.cudaGetDeviceCount()
    return None if status == cuda.cudaError_t.cudaSuccess and count else "there is no NVIDIA GPU that CUDA can use"


def this_machine() -> Machine:
    """Describe this machine. Raises SonorantError if TensorRT cannot run on it."""
    lacking = missing()
    if lacking is not None:
        raise SonorantError(f"{lacking}; on a machine with an NVIDIA GPU run: {install('gpu')}")
    import tensorrt

    from sonorant.extras.tensorrt.device import describe_gpu

    gpu, compute_capability = describe_gpu()
    return Machine(tensorrt=tensorrt.__version__, gpu=gpu, compute_capability=compute_capability)


LEAST = {"tokens": 2, "frames": 1}
"""Minimum sizes: every utterance has a start and an end token."""
STRETCH = 2
"""Maximum size as a multiple of the corpus' longest utterance, because the slowest speed doubles the frames."""
MOST = {"tokens": 800, "frames": 1024}
"""Lower bound of the maximum size: twice the characters of the longest phrase (`sonorant.text.phrases`), and twice the
frames computed at a time (`sonorant.speech.request.Limits`)."""
Sizes = tuple[int, int, int]
"""Minimum, optimal and maximum size."""


@dataclass(frozen=True, kw_only=True)
class ShapeProfile:
    batch: Sizes
    tokens: Sizes
    """Phoneme ids per row."""
    frames: Sizes
    """Mel frames per row."""

    def covers(self, sizes: Mapping[str, int]) -> bool:
        return all(getattr(self, name)[0] <= size <= getattr(self, name)[2] for name, size in sizes.items())


def profiles_of(graph: str, lengths: Lengths, max_batch: int) -> tuple[ShapeProfile, ShapeProfile]:
    """Return a graph's profiles: one for usual utterances, tuned for the median, and one for long ones, tuned for the
    longest."""
    tokens, frames = _ranges("tokens", lengths.tokens), _ranges("frames", lengths.frames)
    if graph == "decoder":  # its tokens are only looked up, and always padded to the largest bucket
        tokens = tokens[1], tokens[1]
    usual, long = (
        ShapeProfile(batch=(1, 1, max_batch), tokens=of[0], frames=of[1]) for of in zip(tokens, frames, strict=True)
    )
    return usual, long


def _ranges(name: str, lengths: tuple[int, int, int, int]) -> tuple[Sizes, Sizes]:
    _, median, p95, longest = (-(-length // MULTIPLE) * MULTIPLE for length in lengths)
    return (LEAST[name], median, p95), (LEAST[name], longest, max(longest * STRETCH, MOST[name]))


AMPERE = (8, 0)
"""Oldest compute capability that runs hardware-compatible engines."""


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    workspace_mib: Count = 2048
    """Maximum device memory in MiB that a kernel may use as scratch."""
    max_batch: Count = 8
    """Maximum number of rows per batch."""
    tf32: bool = False
    """Whether float32 products may use TF32, which is faster but has only 10 bits of mantissa."""
    version_compatible: bool = False
    """Whether later releases of the same major TensorRT version can run the engine, which makes it larger and possibly
    slower."""
    hardware_compatible: bool = False
    """Whether any Ampere or newer GPU can run the engine, which may make it slower."""


@dataclass(frozen=True, kw_only=True)
class EngineKey:
    """Key of an engine. Engines with equal keys are interchangeable."""

    onnx: str
    """SHA-256 of the graph's file, hexadecimal."""
    machine: Machine
    config: EngineConfig
    profiles: tuple[ShapeProfile, ...]

    def stale(self, onnx: str, machine: Machine) -> list[str]:
        """Return the reasons why this engine does not fit a graph and machine."""
        reasons = []
        if self.onnx != onnx:
            reasons.append(f"built from another graph ({self.onnx[:12]}, now {onnx[:12]})")
        if not self._runs_under(machine.tensorrt):
            reasons.append(f"built with TensorRT {self.machine.tensorrt}, but this machine has {machine.tensorrt}")
        if not self._runs_on(machine):
            built, here = (f"{m.gpu} {_dotted(m.compute_capability)}" for m in (self.machine, machine))
            reasons.append(f"built on {built}, but this machine has {here}")
        return reasons

    def changed(self, config: EngineConfig, profiles: tuple[ShapeProfile, ...]) -> list[str]:
        changed = [
            f"{field.name} was {getattr(self.config, field.name)}, is {getattr(config, field.name)}"
            for field in fields(config)
            if getattr(self.config, field.name) != getattr(config, field.name)
        ]
        return changed + (["different shape profiles"] if self.profiles != profiles else [])

    def _runs_under(self, version: str) -> bool:
        built, here = _numbers(self.machine.tensorrt), _numbers(version)
        return built == here or (self.config.version_compatible and built[0] == here[0] and built <= here)

    def _runs_on(self, machine: Machine) -> bool:
        same = (self.machine.gpu, self.machine.compute_capability) == (machine.gpu, machine.compute_capability)
        return same or (self.config.hardware_compatible and machine.compute_capability >= AMPERE)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _dotted(compute_capability: tuple[int, int]) -> str:
    return f"({compute_capability[0]}.{compute_capability[1]})"
