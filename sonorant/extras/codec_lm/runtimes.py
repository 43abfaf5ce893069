"""Loaders of the family codec_lm, one a runtime. Each imports its runtime when called, so that speaking needs no other
runtime's packages."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sonorant.extras.codec_lm.decoding.session import TokenRuntime
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions


def load_onnxruntime(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> TokenRuntime:
    from sonorant.extras.codec_lm.onnx_runtime import OnnxTokenCudaRuntime, OnnxTokenRuntime

    decoding = bundle.description.decoding
    assert decoding is not None  # checked by `read_bundle`
    graphs = {graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}
    return (OnnxTokenRuntime if device == "cpu" else OnnxTokenCudaRuntime)(graphs, decoding, threads=options.threads)


def load_torch(bundle: Bundle, options: LoadOptions, **how: Any) -> TokenRuntime:
    """The trained models; `how`: `way` and `device` of `load_tokens`."""
    from sonorant.extras.codec_lm.torch_runtime import load_tokens

    assert options.trained is not None  # checked by `load_runtime`
    return load_tokens(options.trained, bundle.description, options, **how)


LOADERS: dict[str, Callable[[Bundle, LoadOptions], TokenRuntime]] = {
    "onnxruntime": load_onnxruntime,
    "onnxruntime-cuda": partial(load_onnxruntime, device="cuda"),
    "torch": load_torch,
    "torch-static": partial(load_torch, way="static"),
    "torch-compiled": partial(load_torch, way="compiled"),
    "torch-cuda": partial(load_torch, device="cuda"),
    "torch-cuda-compiled": partial(load_torch, way="compiled", device="cuda"),
    "torch-cuda-graphs": partial(load_torch, way="recorded", device="cuda"),
}
