"""Graphs under ONNX' own reference evaluator: slow, and of every type. Knows nothing of bundles.

For formats that no runtime here has kernels of: it computes what the graph's file says, operator by operator, in the operator's types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from sonorant.families import FAMILIES


class ReferenceRuntime:
    """An evaluator a graph; see `sonorant.runtime.runtimes.Runtime`."""

    def __init__(self, graphs: dict[str, Path]) -> None:
        """Read the files of the parallel family's graphs."""
        self._encoder, self._decoder, self._vocoder = (
            ReferenceEvaluator(str(graphs[graph])) for graph in FAMILIES["parallel"].graphs
        )

    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Phonemes to states and ends, as `Runtime.encode`."""
        inputs = {"tokens": tokens, "lengths": lengths, "speaker": speaker, "speed": speed}
        states, ends = _run(self._encoder, inputs, "states", "ends")
        return states, ends

    def decode(self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.float32]:
        """States to mel, as `Runtime.decode`."""
        return _run(self._decoder, {"states": states, "ends": ends, "time": time}, "mel")[0]

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mel to samples, as `Runtime.vocode`."""
        return _run(self._vocoder, {"mel": mel, "lengths": lengths}, "samples")[0]


def _run(evaluator: ReferenceEvaluator, inputs: Any, *outputs: str) -> list[NDArray[Any]]:
    results: Any = evaluator.run(list(outputs), inputs)
    return results
