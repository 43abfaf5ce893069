"""Loaders of the `parallel` family, one per runtime. Each imports its runtime when called, because others may be
missing."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions, Runtime


def load_onnxruntime(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> Runtime:
    from sonorant.families.parallel.onnx_runtime import OnnxCudaRuntime, OnnxRuntime

    graphs = {graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}
    return (OnnxRuntime if device == "cpu" else OnnxCudaRuntime)(graphs, threads=options.threads)


def load_torch(bundle: Bundle, options: LoadOptions, **how: Any) -> Runtime:
    """Load the trained models; `how`: `way` and `device` of `load_models`."""
    from sonorant.families.parallel.torch_runtime import load_models

    assert options.trained is not None  # checked by `load_runtime`
    return load_models(options.trained, bundle.description, options, **how)


LOADERS: dict[str, Callable[[Bundle, LoadOptions], Runtime]] = {
    "onnxruntime": load_onnxruntime,
    "onnxruntime-cuda": partial(load_onnxruntime, device="cuda"),
    "torch": load_torch,
    "torch-compiled": partial(load_torch, way="compiled"),
    "torch-cuda": partial(load_torch, device="cuda"),
    "torch-cuda-compiled": partial(load_torch, way="compiled", device="cuda"),
    "torch-cuda-graphs": partial(load_torch, way="recorded", device="cuda"),
}
