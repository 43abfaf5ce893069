"""Run an engine on a stream with buffers, contexts and CUDA graphs. Importing this requires TensorRT. A recorded graph
is bound to its shapes, addresses and context, so buffers are allocated once for the largest request, and each graph has
its own context. All contexts share one scratch memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt as trt
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.builder import Messages
from sonorant.extras.tensorrt.device import Buffer, CudaGraph, Stream

Arrays = dict[str, NDArray[Any]]
Shapes = tuple[tuple[int, ...], ...]

_log = logging.getLogger(__name__)


def load_engine(file: Path, messages: Messages, *, version_compatible: bool) -> trt.ICudaEngine:
    """Deserialise an engine. Raises SonorantError if TensorRT rejects the file."""
    runtime = trt.Runtime(messages)
    runtime.engine_host_code_allowed = version_compatible  # such an engine contains its own runtime code
    engine = runtime.deserialize_cuda_engine(file.read_bytes())
    if engine is None:
        raise SonorantError(f"{file}: TensorRT cannot load it ({messages.told()}); delete it and build it again")
    return engine


class Execution:
    """Runs an engine. Not thread-safe."""

    def __init__(self, engine: trt.ICudaEngine, stream: Stream, messages: Messages) -> None:
        """Allocate all memory. Raises SonorantError if the GPU has too little for the largest request."""
        self._engine, self._stream, self._messages = engine, stream, messages
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self._inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        self._outputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT]
        self._dtypes = {name: np.dtype(trt.nptype(engine.get_tensor_dtype(name))) for name in names}
        self._scratch = Buffer(engine.device_memory_size_v2)
        self._contexts = [self._new_context(profile) for profile in range(engine.num_optimization_profiles)]
        self._buffers = {name: Buffer(size) for name, size in self._most_bytes().items()}
        for context in self._contexts:
            self._set_addresses(context)
        self._recorded: dict[Shapes, tuple[trt.IExecutionContext, CudaGraph | None]] = {}

    @property
    def prepared(self) -> int:
        return sum(graph is not None for _, graph in list(self._recorded.values()))

    def run(self, inputs: Mapping[str, NDArray[Any]], profile: int, *, record: bool) -> Arrays:
        """Run the engine on inputs that the profile covers. `record`: whether to record a CUDA graph for these
        shapes."""
        arrays = {name: np.ascontiguousarray(inputs[name], self._dtypes[name]) for name in self._inputs}
        shapes = tuple(array.shape for array in arrays.values())
        context, graph = self._recorded.get(shapes, (None, None))
        first = context is None
        if context is None:
            context = self._context_to_record(profile) if record else self._contexts[profile]
            self._set_shapes(context, {name: array.shape for name, array in arrays.items()})
        for name, array in arrays.items():
            self._buffers[name].write(array, self._stream)
        if graph is not None:
            graph.launch()
        elif not context.execute_async_v3(self._stream.handle):
            raise SonorantError(f"TensorRT cannot run an engine ({self._messages.told()}); build it again")
        shape_of = {name: tuple(context.get_tensor_shape(name)) for name in self._outputs}
        outputs = {
            name: self._buffers[name].read(shape, self._dtypes[name], self._stream) for name, shape in shape_of.items()
        }
        self._stream.synchronize()
        if record and first:
            # The first run finishes TensorRT's preparations, which cannot be recorded.
            self._recorded[shapes] = context, self._record(context, shapes)
        return outputs

    def _record(self, context: trt.IExecutionContext, shapes: Shapes) -> CudaGraph | None:
        graph = self._stream.capture(lambda: context.execute_async_v3(self._stream.handle))
        if graph is None:
            _log.warning(
                "input shapes %s run without a CUDA graph, because recording failed (%s)",
                shapes,
                self._messages.told(),
            )
        return graph

    def _context_to_record(self, profile: int) -> trt.IExecutionContext:
        context = self._new_context(profile)
        self._set_addresses(context)
        return context

    def _new_context(self, profile: int) -> trt.IExecutionContext:
        context = self._engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
        if context is None:
            raise SonorantError(
                f"TensorRT cannot create a context for an engine ({self._messages.told()}); "
                "run nvidia-smi to see what else uses the GPU"
            )
        context.set_device_memory(self._scratch.address, max(1, self._engine.device_memory_size_v2))
        if not context.set_optimization_profile_async(profile, self._stream.handle):
            raise SonorantError(
                f"TensorRT cannot use profile {profile} of an engine ({self._messages.told()}); build it again"
            )
        self._stream.synchronize()
        return context

    def _most_bytes(self) -> dict[str, int]:
        most = dict.fromkeys([*self._inputs, *self._outputs], 0)
        for profile, context in enumerate(self._contexts):
            largest = {name: tuple(self._engine.get_tensor_profile_shape(name, profile)[2]) for name in self._inputs}
            self._set_shapes(context, largest)
            for name in most:
                shape = largest.get(name) or tuple(context.get_tensor_shape(name))
                most[name] = max(most[name], self._dtypes[name].itemsize * int(np.prod(shape)))
        return most

    def _set_shapes(self, context: trt.IExecutionContext, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            if not context.set_input_shape(name, shape):
                raise SonorantError(
                    f"TensorRT: input '{name}' of shape {shape} is outside the profile ({self._messages.told()}); "
                    "build the engine again"
                )

    def _set_addresses(self, context: trt.IExecutionContext) -> None:
        for name, buffer in self._buffers.items():
            if not context.set_tensor_address(name, buffer.address):
                raise SonorantError(
                    f"TensorRT cannot set the buffer of '{name}' ({self._messages.told()}); build the engine again"
                )
