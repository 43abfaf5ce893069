"""Functions of tensors recorded as CUDA graphs, one for each shape they meet. Knows nothing of voices, nor of which shapes will come.

Small networks spend most of a GPU's time on launching kernels one by one; a replayed graph launches all of them at once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch

from sonorant.runtime.torch import Function

WARM_UP = 3
"""Runs before recording, in which libraries choose their kernels and take their memory (as torch's documentation advises)."""


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[torch.Tensor, ...]
    """Where a replay reads."""
    outputs: tuple[torch.Tensor, ...]
    """Where a replay writes."""


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
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                function(*held)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads may meanwhile take memory for requests of their own.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = function(*held)
        self.prepared += 1
        return _Recording(graph, held, outputs)
