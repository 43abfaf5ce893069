"""Build a TensorRT engine from an ONNX graph, with TensorRT 10 or 11. Importing this requires TensorRT. Networks are
strongly typed, as TensorRT 11 requires: the graph determines the precision."""

from __future__ import annotations

import logging
import sys
from collections import deque
from pathlib import Path

import tensorrt as trt
from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.key import EngineConfig, ShapeProfile
from sonorant.files import atomic_file
from sonorant.speech.bundle import Tensor

_log = logging.getLogger(__name__)


class Messages(trt.ILogger):
    """Logs TensorRT's messages and keeps errors for an exception. Must outlive builders, parsers and runtimes."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.errors: deque[str] = deque(maxlen=8)

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR):
            self.errors.append(msg)
        _log.log(logging.WARNING if severity == trt.ILogger.WARNING else logging.DEBUG, "%s", msg)

    def told(self) -> str:
        """Return the errors since the last call, as one line."""
        said = []
        while self.errors:
            said.append(" ".join(self.errors.popleft().split()))
        return "; ".join(said)[:300] or "TensorRT reported no reason"


class ProgressBars(trt.IProgressMonitor):
    """Progress bars, one per phase of a build. TensorRT calls this from several threads."""

    def __init__(self, label: str) -> None:
        trt.IProgressMonitor.__init__(self)  # classes bound from C++ do not support `super().__init__`
        self._label = label
        self._bars: dict[str, tqdm] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        name = phase_name if parent_phase else f"{self._label}: {phase_name}"
        self._bars[phase_name] = tqdm(total=num_steps, desc=name, unit="step", leave=not parent_phase, file=sys.stderr)

    def step_complete(self, phase_name: str, step: int) -> bool:
        if phase_name in self._bars:
            self._bars[phase_name].update(step + 1 - self._bars[phase_name].n)
        return True

    def phase_finish(self, phase_name: str) -> None:
        bar = self._bars.pop(phase_name, None)
        if bar is not None:
            bar.update((bar.total or 0) - bar.n)
            bar.close()


def build_engine(
    graph: Path,
    inputs: tuple[Tensor, ...],
    profiles: tuple[ShapeProfile, ...],
    config: EngineConfig,
    timing_cache: Path,
    *,
    label: str,
) -> bytes:
    """Build and serialise a graph's engine for this GPU. `timing_cache`: file of kernel timings, read and written.
    Raises SonorantError if TensorRT cannot parse or build the graph."""
    messages = Messages()
    builder = trt.Builder(messages)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, messages)
    if not parser.parse(graph.read_bytes()):
        reasons = [" ".join(parser.get_error(index).desc().split()) for index in range(parser.num_errors)]
        raise SonorantError(
            f"{graph}: TensorRT {trt.__version__} cannot parse it ({'; '.join(reasons)[:300] or messages.told()}); "
            "use another runtime"
        )
    settings = builder.create_builder_config()
    _apply(config, settings)
    progress = ProgressBars(label)
    settings.progress_monitor = progress
    for profile in profiles:
        _add_profile(builder, settings, inputs, profile)
    _read_timings(settings, timing_cache)
    engine = builder.build_serialized_network(network, settings)
    if engine is None:
        raise SonorantError(
            f"{graph}: TensorRT {trt.__version__} cannot build an engine ({messages.told()}); use another runtime"
        )
    with atomic_file(timing_cache) as temporary:
        temporary.write_bytes(bytes(settings.get_timing_cache().serialize()))
    return bytes(engine)


def _apply(config: EngineConfig, settings: trt.IBuilderConfig) -> None:
    settings.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, config.workspace_mib << 20)
    if not config.tf32:  # it is on by default
        settings.clear_flag(trt.BuilderFlag.TF32)
    if config.version_compatible:
        settings.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    if config.hardware_compatible:
        settings.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS


def _add_profile(
    builder: trt.Builder, settings: trt.IBuilderConfig, inputs: tuple[Tensor, ...], sizes: ShapeProfile
) -> None:
    profile = builder.create_optimization_profile()
    for tensor in inputs:
        least, tuned, most = (
            tuple(getattr(sizes, size)[place] if isinstance(size, str) else size for size in tensor.shape)
            for place in range(3)
        )
        profile.set_shape(tensor.name, least, tuned, most)
    if settings.add_optimization_profile(profile) < 0:
        raise SonorantError(
            f"TensorRT rejects the profile {sizes}, because its sizes contradict the graph; export it again"
        )


def _read_timings(settings: trt.IBuilderConfig, file: Path) -> None:
    known = file.read_bytes() if file.is_file() else b""
    if not settings.set_timing_cache(settings.create_timing_cache(known), ignore_mismatch=False):
        settings.set_timing_cache(settings.create_timing_cache(b""), ignore_mismatch=False)
