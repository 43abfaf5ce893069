"""Is TensorRT on this machine, with a GPU to run on? Imports it only to see. Knows nothing of engines."""

from __future__ import annotations

from dataclasses import dataclass

from sonorant.errors import SonorantError


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What an engine is tied to."""

    tensorrt: str
    """Version of TensorRT, such as 11.4.0.106."""
    gpu: str
    """The GPU's name."""
    compute_capability: tuple[int, int]
    """Its generation, such as (9, 0)."""


def missing() -> str | None:
    """What keeps TensorRT from running here, in a few words without a full stop; None: nothing."""
    for module, product in (("tensorrt", "TensorRT"), ("cuda.bindings.runtime", "cuda-bindings")):
        try:
            __import__(module)
        except ModuleNotFoundError:
            return f"{product} is not installed"
        except (ImportError, OSError) as error:
            return f"{product} does not load ({' '.join(str(error).split())[:120]})"
    from cuda.bindings import runtime as cuda

    status, count = cuda.cudaGetDeviceCount()
    return None if status == cuda.cudaError_t.cudaSuccess and count else "there is no NVIDIA GPU that its CUDA can use"


def this_machine() -> Machine:
    """The machine at hand. Raises SonorantError, beginning with what `missing` says, where TensorRT cannot run."""
    lacking = missing()
    if lacking is not None:
        raise SonorantError(f"{lacking}; on a machine with an NVIDIA GPU run: pip install 'sonorant[gpu]'")
    import tensorrt

    from sonorant.tensorrt.device import describe_gpu

    gpu, compute_capability = describe_gpu()
    return Machine(tensorrt=tensorrt.__version__, gpu=gpu, compute_capability=compute_capability)
