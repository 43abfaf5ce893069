"""ONNX Runtime sessions on the CPU or a GPU."""

from collections.abc import Sequence
from pathlib import Path

import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from sonorant.errors import SonorantError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
CUDA_OPTIONS = {
    # The default measures every algorithm at each new length, and lengths vary here.
    "cudnn_conv_algo_search": "HEURISTIC",
    # TF32 keeps only ten bits of the mantissa of fp32.
    "use_tf32": "0",
    # The default doubles the arena whenever it is full.
    "arena_extend_strategy": "kSameAsRequested",
}
SUMS_THAT_FIT = ("session.x64quantprecision", "1")
"""Session setting for int8 on CPUs with AVX2 but without VNNI, where products of bytes overflow 16 bits. It makes ONNX
Runtime use unsigned weights, whose products do not overflow."""
Providers = Sequence[str | tuple[str, dict[str, str]]]
ON_CUDA: Providers = ((CUDA, CUDA_OPTIONS), CPU)


def check_cuda() -> None:
    """Raise SonorantError if the installed onnxruntime does not support CUDA."""
    if CUDA not in onnxruntime.get_available_providers():
        raise SonorantError(
            f"the installed onnxruntime {onnxruntime.__version__} has no {CUDA}; uninstall it and install "
            "onnxruntime-gpu instead"
        )


def open_session(
    graph: Path, threads: int | None = None, providers: Providers = (CPU,)
) -> onnxruntime.InferenceSession:
    """Open a graph. Raises SonorantError if ONNX Runtime rejects the file or the first provider does not start."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    # The graphs are chains, so running operators in parallel gains nothing.
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.inter_op_num_threads = 1
    # Spinning threads of an idle session would take cores from the active one.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry(*SUMS_THAT_FIT)
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=providers)
    except NoKernel as error:
        raise SonorantError(
            f"{graph}: ONNX Runtime lacks an operator ({' '.join(str(error).split())[:200]}); choose another variant"
        ) from None
    except Exception as error:  # ONNX Runtime has a class for each cause
        raise SonorantError(
            f"{graph}: ONNX Runtime cannot load it ({' '.join(str(error).split())[:200]}); export it again"
        ) from None
    wanted = providers[0] if isinstance(providers[0], str) else providers[0][0]
    if session.get_providers()[0] != wanted:  # it falls back to the CPU silently
        raise SonorantError(
            f"{wanted} does not start; install its CUDA and cuDNN libraries, or use a machine with a GPU"
        )
    return session
