"""What can run a voice's graphs, and how each is loaded. Knows nothing of text, speakers or sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.runtime.bundle import GRAPHS, Bundle


class Runtime(Protocol):
    """Runs the three graphs on numpy arrays. `B` batch, `N` tokens, `C` channels, `M` mel bins, `T` frames, `S` samples.

    Padding is exact: a row is as it would be alone.
    """

    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What is said, and when: tokens (B, N, 3), lengths, speaker, speed (B,) -> states (B, N, C), and for each token the frame after
        its last one (B, N), constant over padded tokens."""

    def decode(self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.float32]:
        """What `encode` gave, and the frames wanted (T,), in a row -> their log-mel (B, M, T); silence outside an utterance."""

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log-mel (B, M, T), real frames of each row (B,) -> samples (B, S), about -1 to 1, S = T * hop."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a runtime is loaded; each runtime reads the options that concern it."""

    threads: int | None = None
    """Threads inside an operator; None = one a physical core."""
    variant: str | None = None
    """onnxruntime, tensorrt: which variant of the graphs; None = the bundle's default."""
    trained: tuple[Path, Path] | None = None
    """torch: the trained folders of the acoustic model and of the vocoder."""
    engines: Path | None = None
    """tensorrt: folder of the bundle's engines; None = its folder in the user's cache."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SonorantError(f"threads must be at least 1, not {self.threads}")


def load_runtime(name: str, bundle: Bundle, options: LoadOptions) -> Runtime:
    """Load a runtime by name. Raises SonorantError listing the names there are, or as the runtime's own loader does."""
    if name not in RUNTIMES:
        raise SonorantError(f"unknown runtime '{name}'; there are: {', '.join(RUNTIMES)}")
    return RUNTIMES[name](bundle, options)


def _onnxruntime(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.runtime.onnx import OnnxRuntime

    return OnnxRuntime({graph: bundle.graph_file(graph, options.variant) for graph in GRAPHS}, threads=options.threads)


def _torch(bundle: Bundle, options: LoadOptions) -> Runtime:
    if options.trained is None:
        raise SonorantError("the torch runtime needs the folders of the trained models; a bundle alone is spoken by onnxruntime")
    from sonorant.runtime.torch import TorchRuntime

    return TorchRuntime(*options.trained, threads=options.threads)


def _tensorrt(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.tensorrt.engines import Engines
    from sonorant.tensorrt.installation import this_machine

    engines = Engines(bundle, this_machine(), options.engines)
    from sonorant.tensorrt.runtime import TensorRTRuntime  # only now: it imports TensorRT

    runtime = TensorRTRuntime(bundle, engines, options.variant)
    runtime.warm_up()
    return runtime


RUNTIMES: dict[str, Callable[[Bundle, LoadOptions], Runtime]] = {
    "onnxruntime": _onnxruntime,
    "torch": _torch,
    "tensorrt": _tensorrt,
}
