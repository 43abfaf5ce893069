"""The graphs of the family parallel under ONNX Runtime, on the CPU or a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sonorant.arrays import Floats, Ints
from sonorant.runtime.onnx import CPU, ON_CUDA, Providers, check_cuda, open_session


class OnnxRuntime:
    """A session a graph; see `sonorant.runtime.runtimes.Runtime`. Any number of threads may use it."""

    providers: Providers = (CPU,)

    def __init__(self, graphs: dict[str, Path], *, threads: int | None = None) -> None:
        """Load the files of the parallel family's graphs. `threads`: threads inside an operator, None = one a physical
        core."""
        self._encoder, self._decoder, self._vocoder = (
            open_session(graphs[name], threads, self.providers) for name in ("encoder", "decoder", "vocoder")
        )

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats) -> tuple[Floats, Ints]:
        """Phonemes to states and ends, as `Runtime.encode`."""
        inputs: dict[str, NDArray[Any]] = {"tokens": tokens, "lengths": lengths, "speaker": speaker, "speed": speed}
        states, ends = self.run(self._encoder, ["states", "ends"], inputs)
        return states, ends

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        """States to mel, as `Runtime.decode`."""
        return self.run(self._decoder, ["mel"], {"states": states, "ends": ends, "time": time})[0]

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        """Mel to samples, as `Runtime.vocode`."""
        return self.run(self._vocoder, ["samples"], {"mel": mel, "lengths": lengths})[0]

    def run(
        self, session: onnxruntime.InferenceSession, outputs: list[str], inputs: dict[str, NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """One session's outputs in the order of their names."""
        return session.run(outputs, inputs)


class OnnxCudaRuntime(OnnxRuntime):
    """The same on an NVIDIA GPU; what it cannot compute there runs on the CPU."""

    providers = ON_CUDA

    def __init__(self, graphs: dict[str, Path], *, threads: int | None = None) -> None:
        """As `OnnxRuntime`. Raises SonorantError if the installed package has no CUDA, or CUDA does not start."""
        check_cuda()
        super().__init__(graphs, threads=threads)

    def run(
        self, session: onnxruntime.InferenceSession, outputs: list[str], inputs: dict[str, NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """One session's outputs; they stay on the GPU until all are there, and are then copied once."""
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name in outputs:
            binding.bind_output(name, "cuda")
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()
