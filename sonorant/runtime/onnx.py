"""The graphs under ONNX Runtime on the CPU. Knows nothing of bundles: it is given files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.runtime.bundle import GRAPHS


class OnnxRuntime:
    """A session a graph; see `sonorant.runtime.runtimes.Runtime`."""

    def __init__(self, graphs: dict[str, Path], *, threads: int | None = None) -> None:
        """Load the files of `bundle.GRAPHS`. `threads`: threads inside an operator, None = one a physical core."""
        self._encoder, self._decoder, self._vocoder = (open_session(graphs[graph], threads) for graph in GRAPHS)

    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Phonemes to states and ends, as `Runtime.encode`."""
        inputs = {"tokens": tokens, "lengths": lengths, "speaker": speaker, "speed": speed}
        states, ends = self._encoder.run(["states", "ends"], inputs)
        return states, ends

    def decode(self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.float32]:
        """States to mel, as `Runtime.decode`."""
        return self._decoder.run(["mel"], {"states": states, "ends": ends, "time": time})[0]

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mel to samples, as `Runtime.vocode`."""
        return self._vocoder.run(["samples"], {"mel": mel, "lengths": lengths})[0]


def open_session(graph: Path, threads: int | None = None) -> onnxruntime.InferenceSession:
    """Open a graph on the CPU. Raises SonorantError naming the file if ONNX Runtime does not take it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    # The graphs are chains: operators side by side have nothing to gain, and a second pool of threads would get in the way.
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.inter_op_num_threads = 1
    # The sessions run in turn. Threads that spin while they wait would take the cores from the session at work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a class of its own for each cause, and all of them mean the same here
        raise SonorantError(
            f"{graph}: ONNX Runtime does not load it ({' '.join(str(error).split())[:200]}); export it again"
        ) from None
