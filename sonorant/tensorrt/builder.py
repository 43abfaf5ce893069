"""An ONNX graph becomes a TensorRT engine, under TensorRT 10 or 11. Knows nothing of keys and bundles; importing it needs TensorRT.

Networks are strongly typed: 11 knows no others, and in 10 it is a flag. So precision is what the graph says, int8 by its QuantizeLinear and
DequantizeLinear, and none of the flags and calibrators that 11 removed is used.
"""

from __future__ import annotations

from pathlib import Path

import tensorrt as trt

from sonorant.errors import SonorantError
from sonorant.files import atomic_file
from sonorant.runtime.bundle import Tensor
from sonorant.tensorrt.key import EngineConfig
from sonorant.tensorrt.messages import Messages
from sonorant.tensorrt.profiles import Profile
from sonorant.tensorrt.progress import ProgressBars


def build_engine(
    graph: Path, inputs: tuple[Tensor, ...], profiles: tuple[Profile, ...], config: EngineConfig, timing_cache: Path, *, label: str
) -> bytes:
    """Build a graph's engine for this machine's GPU.

    Args:
        graph: the ONNX file.
        inputs: its inputs; dimensions that have a name are those of the profiles.
        profiles: ranges of sizes, each an optimisation profile.
        config: how to build.
        timing_cache: file of kernels timed earlier, read and written; one of another GPU or TensorRT is begun anew.
        label: what the progress bars are called.

    Returns the engine, serialised. Raises SonorantError naming the file if TensorRT does not parse or build it.
    """
    messages = Messages()
    builder = trt.Builder(messages)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, messages)
    if not parser.parse(graph.read_bytes()):
        reasons = [" ".join(parser.get_error(index).desc().split()) for index in range(parser.num_errors)]
        raise SonorantError(f"{graph}: TensorRT {trt.__version__} does not take it ({'; '.join(reasons)[:300] or messages.told()})")
    settings = builder.create_builder_config()
    _apply(config, settings)
    progress = ProgressBars(label)
    settings.progress_monitor = progress
    for profile in profiles:
        _add_profile(builder, settings, inputs, profile)
    _read_timings(settings, timing_cache)
    engine = builder.build_serialized_network(network, settings)
    if engine is None:
        raise SonorantError(f"{graph}: TensorRT {trt.__version__} builds no engine ({messages.told()})")
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


def _add_profile(builder: trt.Builder, settings: trt.IBuilderConfig, inputs: tuple[Tensor, ...], sizes: Profile) -> None:
    profile = builder.create_optimization_profile()
    for tensor in inputs:
        least, tuned, most = (
            tuple(getattr(sizes, size)[place] if isinstance(size, str) else size for size in tensor.shape) for place in range(3)
        )
        profile.set_shape(tensor.name, least, tuned, most)
    if settings.add_optimization_profile(profile) < 0:
        raise SonorantError(f"TensorRT refuses the profile {sizes}: its sizes contradict the graph")


def _read_timings(settings: trt.IBuilderConfig, file: Path) -> None:
    known = file.read_bytes() if file.is_file() else b""
    if not settings.set_timing_cache(settings.create_timing_cache(known), ignore_mismatch=False):
        settings.set_timing_cache(settings.create_timing_cache(b""), ignore_mismatch=False)
