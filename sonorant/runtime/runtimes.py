"""What can run a voice's graphs, and how each is loaded. Knows nothing of text, speakers or sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.session import Stepper
from sonorant.errors import SonorantError
from sonorant.runtime.bundle import Bundle


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


class TokenRuntime(Protocol):
    """Runs the graphs of the family codec_lm on numpy arrays. `F` code frames, `G` streams of codes; the rest as in `Runtime`."""

    def encode(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64]) -> NDArray[np.float32]:
        """What is said: tokens (B, N, 3), lengths, speaker (B,) -> states (B, N, C)."""

    def stepper(self) -> Stepper:
        """Something new that makes codes of states, with a cache of its own. Any number of threads may have one each."""

    def vocode(self, codes: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Codes (B, F, G), real frames of each row (B,) -> samples (B, S), about -1 to 1."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a runtime is loaded; each runtime reads the options that concern it."""

    threads: int | None = None
    """CPU threads inside an operator; None = one a physical core. torch has one pool of them for the whole process."""
    variant: str | None = None
    """Precision, such as fp32 or int8; None = the bundle's default, or what the trained folders hold."""
    trained: tuple[Path, Path] | None = None
    """torch runtimes: the trained folders of the acoustic model and of the vocoder, for int8 those of quantised models."""
    batches: tuple[int, ...] = (1,)
    """Runtimes of fixed shapes: rows that requests may have."""
    warm_up: bool = False
    """Runtimes of fixed shapes: prepare all of them while loading, so that no request waits for it."""
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

    return OnnxRuntime({graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}, threads=options.threads)


def _onnxruntime_cuda(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.runtime.onnx import OnnxCudaRuntime

    return OnnxCudaRuntime({graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}, threads=options.threads)


def _torch(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    from sonorant.runtime.torch import load_torch

    return load_torch(_trained(options), options.variant, device, options.threads)


def _torch_compiled(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    from sonorant.runtime.fixed_shapes import load_compiled

    return load_compiled(_trained(options), bundle.description.lengths, options, device)


def _torch_graphs(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.runtime.fixed_shapes import load_recorded

    return load_recorded(_trained(options), bundle.description.lengths, options)


def _tensorrt(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.tensorrt.engines import Engines
    from sonorant.tensorrt.installation import this_machine

    engines = Engines(bundle, this_machine(), options.engines)
    from sonorant.tensorrt.runtime import load_tensorrt  # only now: it imports TensorRT

    return load_tensorrt(bundle, engines, options)


def _trained(options: LoadOptions) -> tuple[Path, Path]:
    if options.trained is None:
        raise SonorantError("the torch runtimes need the folders of the trained models; a bundle alone is spoken by onnxruntime")
    return options.trained


RUNTIMES: dict[str, Callable[[Bundle, LoadOptions], Runtime]] = {
    "onnxruntime": _onnxruntime,
    "onnxruntime-cuda": _onnxruntime_cuda,
    "torch": _torch,
    "torch-compiled": _torch_compiled,
    "torch-cuda": partial(_torch, device="cuda"),
    "torch-cuda-compiled": partial(_torch_compiled, device="cuda"),
    "torch-cuda-graphs": _torch_graphs,
    "tensorrt": _tensorrt,
}
"""Named by what computes and, where that is not the CPU, on what; `torch-cuda-graphs` replays the kernels of `torch-cuda`."""
