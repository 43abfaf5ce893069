"""Functions of tensors recorded as CUDA graphs, one for each shape they meet. Knows nothing of voices, nor of which shapes will come.

Small networks spend most of a GPU's time on launching kernels one by one; a replayed graph launches all of them at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sonorant.runtime.torch import Function

WARM_UP = 3
"""Runs before recording, in which libraries choose their kernels and take their memory (as torch's documentation advises)."""


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    outputs: tuple[torch.Tensor, ...]
    """Where a replay writes."""
    inputs: tuple[torch.Tensor, ...]
    """Where a replay reads."""


class CudaGraphs:
    """Records functions and counts how often. All recordings share one pool of memory, so one is replayed at a time."""

    def __init__(self) -> None:
        self.prepared = 0
        """Shapes recorded so far, all functions together."""
        self._pool = torch.cuda.graph_pool_handle()
        self._lock = threading.Lock()

    def __call__(self, function: Function) -> Function:
        """The same function; at its first call with new shapes it is recorded. Nothing in it may wait for the GPU."""
        recordings: dict[tuple[Any, ...], _Recording] = {}

        def replay(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            key = tuple((value.shape, value.dtype) for value in inputs)
            with self._lock:
                if key not in recordings:
                    recordings[key] = self._record(function, inputs)
                recording = recordings[key]
                for place, value in zip(recording.inputs, inputs, strict=True):
                    place.copy_(value)
                recording.graph.replay()
                # All on one stream: the copies are made before another replay overwrites what they read.
                return tuple(output.clone() for output in recording.outputs)

        return replay

    def _record(self, function: Function, inputs: tuple[torch.Tensor, ...]) -> _Recording:
        held = tuple(value.clone() for value in inputs)
        return _Recording(*self._captured(lambda: function(*held)), inputs=held)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Work on buffers that stay where they are, recorded; it is run `WARM_UP` times for that. Nothing in it may wait for the GPU."""
        with self._lock:
            graph, _ = self._captured(function)
        return graph.replay

    def _captured(self, function: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
        """A recording of a function without arguments, and what it returned."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads may meanwhile take memory for requests of their own.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = function()
        self.prepared += 1
        return graph, outputs
