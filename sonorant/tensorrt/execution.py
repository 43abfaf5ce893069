"""One engine at work on one stream: buffers, contexts, CUDA graphs. Knows nothing of voices; importing it needs TensorRT.

A recorded graph is bound to the shapes, the addresses and the context it was recorded with, so each has a context of its own. All contexts
share one piece of scratch memory, because on one stream they run in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt as trt
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.tensorrt.device import Buffer, Graph, Stream
from sonorant.tensorrt.messages import Messages

Arrays = dict[str, NDArray[Any]]
Shapes = tuple[tuple[int, ...], ...]


def load_engine(file: Path, messages: Messages, *, version_compatible: bool) -> trt.ICudaEngine:
    """Deserialise an engine. Raises SonorantError naming the file if TensorRT refuses it."""
    runtime = trt.Runtime(messages)
    runtime.engine_host_code_allowed = version_compatible  # such an engine brings code of its own, a runtime
    engine = runtime.deserialize_cuda_engine(file.read_bytes())
    if engine is None:
        raise SonorantError(f"{file}: TensorRT does not load it ({messages.told()}); delete it and build it again")
    return engine


class Execution:
    """Runs an engine. Not for several threads at once: each takes an execution of its own."""

    def __init__(self, engine: trt.ICudaEngine, stream: Stream, messages: Messages) -> None:
        """`engine` is shared between executions, `stream` between those that run in turn."""
        self._engine, self._stream, self._messages = engine, stream, messages
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self._inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        self._outputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT]
        self._dtypes = {name: np.dtype(trt.nptype(engine.get_tensor_dtype(name))) for name in names}
        self._buffers = {name: Buffer() for name in names}
        self._scratch = Buffer()
        self._scratch.reserve(max(1, engine.device_memory_size_v2))
        self._contexts: dict[int, trt.IExecutionContext] = {}
        self._recorded: dict[Shapes, tuple[trt.IExecutionContext, Graph | None]] = {}

    def run(self, inputs: Mapping[str, NDArray[Any]], profile: int, *, record: bool) -> Arrays:
        """Run the engine on arrays of sizes that the profile of that index covers.

        Args:
            inputs: by the names and dtypes of the graph's inputs.
            profile: index of the optimisation profile.
            record: whether these shapes will come again and are worth a CUDA graph.

        Returns the outputs by name. Raises SonorantError with TensorRT's words if it fails.
        """
        arrays = {name: np.ascontiguousarray(inputs[name], self._dtypes[name]) for name in self._inputs}
        shapes = tuple(array.shape for array in arrays.values())
        context, graph = self._recorded.get(shapes, (None, None))
        first = context is None
        if context is None:
            context = self._new_context(profile) if record else self._context(profile)
            self._lay_out(context, arrays)
        for name, array in arrays.items():
            self._buffers[name].write(array, self._stream)
        if graph is not None:
            graph.launch()
        else:
            self._enqueue(context)
        shape_of = {name: tuple(context.get_tensor_shape(name)) for name in self._outputs}
        outputs = {name: self._buffers[name].read(shape, self._dtypes[name], self._stream) for name, shape in shape_of.items()}
        self._stream.synchronize()
        if record and first:
            # Only after a run: TensorRT does the rest of its preparations in the first one, which cannot be recorded.
            self._recorded[shapes] = context, self._stream.capture(lambda: context.execute_async_v3(self._stream.handle))
        return outputs

    def _enqueue(self, context: trt.IExecutionContext) -> None:
        if not context.execute_async_v3(self._stream.handle):
            raise SonorantError(f"TensorRT: {self._messages.told()}")

    def _context(self, profile: int) -> trt.IExecutionContext:
        if profile not in self._contexts:
            self._contexts[profile] = self._new_context(profile)
        return self._contexts[profile]

    def _new_context(self, profile: int) -> trt.IExecutionContext:
        context = self._engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
        context.set_device_memory(self._scratch.address, max(1, self._engine.device_memory_size_v2))
        context.set_optimization_profile_async(profile, self._stream.handle)
        self._stream.synchronize()
        return context

    def _lay_out(self, context: trt.IExecutionContext, arrays: Arrays) -> None:
        """Give the context its shapes, and buffers that are large enough."""
        for name, array in arrays.items():
            if not context.set_input_shape(name, array.shape):
                raise SonorantError(
                    f"TensorRT: input '{name}' of shape {array.shape} is outside the profile ({self._messages.told()})"
                )
        sizes = {name: array.nbytes for name, array in arrays.items()}
        for name in self._outputs:
            sizes[name] = self._dtypes[name].itemsize * int(np.prod(tuple(context.get_tensor_shape(name))))
        moved = [name for name, size in sizes.items() if self._buffers[name].reserve(size)]
        if moved:
            self._recorded.clear()  # they hold the old addresses, and come again when their shapes do
        for name, buffer in self._buffers.items():
            context.set_tensor_address(name, buffer.address)
