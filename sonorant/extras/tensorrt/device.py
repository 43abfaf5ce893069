"""GPU memory, streams and CUDA graphs through NVIDIA's cuda-bindings (10 MB instead of torch's gigabytes). Importing
this requires that package."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import runtime as cuda
from numpy.typing import NDArray

from sonorant.errors import SonorantError


def describe_gpu() -> tuple[str, tuple[int, int]]:
    properties = _checked(cuda.cudaGetDeviceProperties(_checked(cuda.cudaGetDevice())))
    return properties.name.rstrip(b"\0").decode(), (properties.major, properties.minor)


class Stream:
    def __init__(self) -> None:
        self._stream = _checked(cuda.cudaStreamCreateWithFlags(cuda.cudaStreamNonBlocking))
        self.handle = int(self._stream)
        weakref.finalize(self, cuda.cudaStreamDestroy, self._stream)

    def synchronize(self) -> None:
        _checked(cuda.cudaStreamSynchronize(self._stream))

    def capture(self, enqueue: Callable[[], bool]) -> CudaGraph | None:
        """Record the work that `enqueue` queues, without running it. Returns None if `enqueue` returns False or
        recording fails."""
        # Captures this thread only: others may use their own streams meanwhile.
        _checked(cuda.cudaStreamBeginCapture(self._stream, cuda.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal))
        queued = enqueue()
        error, graph = cuda.cudaStreamEndCapture(self._stream)
        if not queued or error != cuda.cudaError_t.cudaSuccess:
            return None
        return CudaGraph(graph, self._stream)


class CudaGraph:
    def __init__(self, recorded: Any, stream: Any) -> None:
        self._stream = stream
        self._executable = _checked(cuda.cudaGraphInstantiate(recorded, 0))
        _checked(cuda.cudaGraphDestroy(recorded))
        weakref.finalize(self, cuda.cudaGraphExecDestroy, self._executable)

    def launch(self) -> None:
        _checked(cuda.cudaGraphLaunch(self._executable, self._stream))


class Buffer:
    """Memory on the GPU. Its address is constant, because recorded graphs contain it."""

    def __init__(self, size: int) -> None:
        """`size` is in bytes. Raises SonorantError if the GPU lacks free memory."""
        self.address = _checked(cuda.cudaMalloc(max(1, size)))
        weakref.finalize(self, cuda.cudaFree, self.address)

    def write(self, values: NDArray[Any], stream: Stream) -> None:
        """Queue a copy of `values` into the buffer; they must live until the stream is synchronised."""
        _copy(self.address, values.ctypes.data, values.nbytes, cuda.cudaMemcpyKind.cudaMemcpyHostToDevice, stream)

    def read(self, shape: tuple[int, ...], dtype: np.dtype, stream: Stream) -> NDArray[Any]:
        """Queue a copy out of the buffer; the array is filled once the stream is synchronised."""
        values = np.empty(shape, dtype)
        _copy(values.ctypes.data, self.address, values.nbytes, cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream)
        return values


def _copy(target: int, source: int, size: int, kind: cuda.cudaMemcpyKind, stream: Stream) -> None:
    _checked(cuda.cudaMemcpyAsync(target, source, size, kind, stream.handle))


def _checked(answer: tuple[Any, ...]) -> Any:
    error, *values = answer
    if error != cuda.cudaError_t.cudaSuccess:
        _, words = cuda.cudaGetErrorString(error)
        raise SonorantError(f"CUDA: {words.decode()}; run nvidia-smi to see what else uses the GPU")
    return values[0] if values else None
