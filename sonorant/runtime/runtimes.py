"""What can run a voice's graphs, and how each is loaded. Knows nothing of text, speakers or sentences.

The two candidates (`<runtime>/<variant>`) that every other is held against. Knows nothing of how candidates run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.session import Stepper
from sonorant.decoding.settings import DecodingDescription
from sonorant.errors import SonorantError
from sonorant.families.family import Family
from sonorant.runtime.bundle import Bundle


class Runtime(Protocol):
    """Runs the three graphs on numpy arrays. `B` batch, `N` tokens, `C` channels, `M` mel bins, `T` frames, `S`
    samples.

    Padding is exact: a row is as it would be alone.
    """

    def encode(
        self,
        tokens: NDArray[np.int64],
        lengths: NDArray[np.int64],
        speaker: NDArray[np.int64],
        speed: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What is said, and when: tokens (B, N, 3), lengths, speaker, speed (B,) -> states (B, N, C), and for each
        token the frame after its last one (B, N), constant over padded tokens."""

    def decode(
        self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """What `encode` gave, and the frames wanted (T,), in a row -> their log-mel (B, M, T); silence outside an
        utterance."""

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Log-mel (B, M, T), real frames of each row (B,) -> samples (B, S), about -1 to 1, S = T * hop."""


class TokenRuntime(Protocol):
    """Runs the graphs of the family codec_lm on numpy arrays. `F` code frames, `G` codebooks of codes; the rest as in
    `Runtime`."""

    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """What is said: tokens (B, N, 3), lengths, speaker (B,) -> states (B, N, C)."""

    def stepper(self) -> Stepper:
        """Something new that makes codes of states, with a cache of its own. Any number of threads may have one
        each."""

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
    """torch runtimes: the trained folders of the acoustic model and of the vocoder, for int8 those of quantised
    models."""
    batches: tuple[int, ...] = (1,)
    """Runtimes of fixed shapes: rows that requests may have."""
    warm_up: bool = False
    """Runtimes of fixed shapes: prepare all of them while loading, so that no request waits for it."""
    slots: tuple[int, ...] | None = None
    """torch runtimes of fixed shapes, family codec_lm: positions of their caches; None = powers of two up to what the
    corpus needs."""
    cache_folder: Path | None = None
    """The same: where torch keeps what it compiles, for all of this process; None = a folder of the model in the user's
    cache."""
    explain: bool = False
    """The same: log where a graph breaks, and why something is compiled again."""
    engines: Path | None = None
    """tensorrt: folder of the bundle's engines; None = its folder in the user's cache."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SonorantError(f"threads must be at least 1, not {self.threads}")
        for name, sizes in (("batches", self.batches), ("slots", self.slots)):
            if sizes is not None and (not sizes or min(sizes) < 1):
                raise SonorantError(f"{name} must be one or several numbers of at least 1, not {sizes}")


def load_runtime(name: str, bundle: Bundle, options: LoadOptions) -> Any:
    """Load a runtime by name: a `Runtime` for a bundle of the family parallel, a `TokenRuntime` for one of codec_lm.

    Raises SonorantError listing the names there are, or naming the families that the runtime speaks, or as its own
    loader does.
    """
    if name not in RUNTIMES:
        raise SonorantError(f"unknown runtime '{name}'; there are: {', '.join(RUNTIMES)}")
    family = bundle.description.family
    if family not in RUNTIMES[name]:
        others = [other for other in RUNTIMES if family in RUNTIMES[other]]
        raise SonorantError(
            f"the runtime {name} speaks the family {' and '.join(RUNTIMES[name])}; a voice of {family} is spoken by: {', '.join(others)}"
        )
    return RUNTIMES[name][family](bundle, options)


def _onnxruntime(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.families.parallel.onnx_runtime import OnnxRuntime

    return OnnxRuntime(_files(bundle, options), threads=options.threads)


def _onnxruntime_tokens(bundle: Bundle, options: LoadOptions) -> TokenRuntime:
    from sonorant.families.codec_lm.onnx_runtime import OnnxTokenRuntime

    return OnnxTokenRuntime(_files(bundle, options), _decoding(bundle), threads=options.threads)


def _onnxruntime_cuda_tokens(bundle: Bundle, options: LoadOptions) -> TokenRuntime:
    from sonorant.families.codec_lm.onnx_runtime import OnnxTokenCudaRuntime

    return OnnxTokenCudaRuntime(_files(bundle, options), _decoding(bundle), threads=options.threads)


def _onnxruntime_cuda(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.families.parallel.onnx_runtime import OnnxCudaRuntime

    return OnnxCudaRuntime(_files(bundle, options), threads=options.threads)


def _torch(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    from sonorant.families.parallel.torch_runtime import load_torch

    return load_torch(_trained(options), options.variant, device, options.threads)


def _torch_compiled(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    from sonorant.families.parallel.torch_runtime import load_compiled

    return load_compiled(_trained(options), bundle.description.lengths, options, device)


def _torch_graphs(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.families.parallel.torch_runtime import load_recorded

    return load_recorded(_trained(options), bundle.description.lengths, options)


def _torch_tokens(bundle: Bundle, options: LoadOptions, **how: Any) -> TokenRuntime:
    from sonorant.families.codec_lm.torch_runtime import load_tokens

    return load_tokens(_trained(options), bundle.description, options, **how)


def _tensorrt(bundle: Bundle, options: LoadOptions) -> Runtime:
    from sonorant.tensorrt.engines import Engines
    from sonorant.tensorrt.key import this_machine

    engines = Engines(bundle, this_machine(), options.engines)
    from sonorant.tensorrt.runtime import load_tensorrt  # only now: it imports TensorRT

    return load_tensorrt(bundle, engines, options)


def _files(bundle: Bundle, options: LoadOptions) -> dict[str, Path]:
    return {graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}


def _decoding(bundle: Bundle) -> DecodingDescription:
    assert bundle.description.decoding is not None  # or `read_bundle` had refused it
    return bundle.description.decoding


def _trained(options: LoadOptions) -> tuple[Path, Path]:
    if options.trained is None:
        raise SonorantError(
            "the torch runtimes need the folders of the trained models; a bundle alone is spoken by onnxruntime"
        )
    return options.trained


Loader = Callable[[Bundle, LoadOptions], Any]


RUNTIMES: dict[str, dict[Family, Loader]] = {
    "onnxruntime": {"parallel": _onnxruntime, "codec_lm": _onnxruntime_tokens},
    "onnxruntime-cuda": {"parallel": _onnxruntime_cuda, "codec_lm": _onnxruntime_cuda_tokens},
    "torch": {"parallel": _torch, "codec_lm": _torch_tokens},
    "torch-static": {"codec_lm": partial(_torch_tokens, way="static")},
    "torch-compiled": {"parallel": _torch_compiled, "codec_lm": partial(_torch_tokens, way="compiled")},
    "torch-cuda": {"parallel": partial(_torch, device="cuda"), "codec_lm": partial(_torch_tokens, device="cuda")},
    "torch-cuda-compiled": {
        "parallel": partial(_torch_compiled, device="cuda"),
        "codec_lm": partial(_torch_tokens, way="compiled", device="cuda"),
    },
    "torch-cuda-graphs": {"parallel": _torch_graphs, "codec_lm": partial(_torch_tokens, way="recorded", device="cuda")},
    "tensorrt": {"parallel": _tensorrt},
}
"""Named by what computes and, where that is not the CPU, on what; `torch-cuda-graphs` replays the kernels of
`torch-cuda`. For each family that it speaks, what loads it."""


BASELINE = "onnxruntime/fp32"
"""Without it there is no voice; what the others' speed and errors are relative to."""


REFERENCE = "torch/fp32"
"""The trained models themselves, which `verify` compares with; a bundle does not hold them."""
