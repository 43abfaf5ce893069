"""Loaders of the family parallel, one a runtime. Each imports its runtime when called, so that speaking needs no other
runtime's packages."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions, Runtime


def load_onnxruntime(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    from sonorant.families.parallel.onnx_runtime import OnnxCudaRuntime, OnnxRuntime

    graphs = {graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}
    return (OnnxRuntime if device == "cpu" else OnnxCudaRuntime)(graphs, threads=options.threads)


def load_torch(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    """The trained models, eager."""
    from sonorant.families.parallel import torch_runtime

    return torch_runtime.load_torch(_trained(options), options.variant, device, options.threads)


def load_compiled(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    """The trained models, compiled for each of a few shapes."""
    from sonorant.families.parallel import torch_runtime

    return torch_runtime.load_compiled(_trained(options), bundle.description, options, device)


def load_recorded(bundle: Bundle, options: LoadOptions) -> Runtime:
    """The trained models, as CUDA graphs for each of a few shapes."""
    from sonorant.families.parallel import torch_runtime

    return torch_runtime.load_recorded(_trained(options), bundle.description, options)


def _trained(options: LoadOptions) -> tuple[Path, Path]:
    assert options.trained is not None  # checked by `load_runtime`
    return options.trained


LOADERS: dict[str, Callable[[Bundle, LoadOptions], Runtime]] = {
    "onnxruntime": load_onnxruntime,
    "onnxruntime-cuda": partial(load_onnxruntime, device="cuda"),
    "torch": load_torch,
    "torch-compiled": load_compiled,
    "torch-cuda": partial(load_torch, device="cuda"),
    "torch-cuda-compiled": partial(load_compiled, device="cuda"),
    "torch-cuda-graphs": load_recorded,
}
