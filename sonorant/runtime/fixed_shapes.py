"""torch runtimes that are prepared for each shape: compiled, recorded as CUDA graphs, or both. Knows nothing of how that is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from sonorant.runtime.buckets import Bucketed, Buckets
from sonorant.runtime.bundle import Lengths
from sonorant.runtime.compiled import Compiler
from sonorant.runtime.cuda_graphs import CudaGraphs
from sonorant.runtime.runtimes import LoadOptions
from sonorant.runtime.torch import Function, TorchRuntime, load_functions


def load_compiled(trained: tuple[Path, Path], lengths: Lengths, options: LoadOptions, device: str) -> Bucketed:
    """Compiled for each bucket; on a GPU the compiled kernels are recorded too. Raises SonorantError as `load_functions` and `Compiler`."""
    functions = load_functions(trained, options.variant, torch.device(device))
    compiler = Compiler()
    prepare: Callable[[Function], Function] = compiler
    if device == "cuda":
        graphs = CudaGraphs()

        def prepare(function: Function) -> Function:
            return graphs(compiler(function))

    return _bucketed(functions, prepare, lambda: compiler.prepared, lengths, options, device)


def load_recorded(trained: tuple[Path, Path], lengths: Lengths, options: LoadOptions) -> Bucketed:
    """Recorded as a CUDA graph for each bucket. Raises SonorantError as `load_functions`."""
    functions = load_functions(trained, options.variant, torch.device("cuda"))
    graphs = CudaGraphs()
    return _bucketed(functions, graphs, lambda: graphs.prepared, lengths, options, "cuda")


def _bucketed(
    functions: dict[str, Function],
    prepare: Callable[[Function], Function],
    prepared: Callable[[], int],
    lengths: Lengths,
    options: LoadOptions,
    device: str,
) -> Bucketed:
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    fixed = TorchRuntime({graph: prepare(function) for graph, function in functions.items()}, torch.device(device))
    runtime = Bucketed(fixed, TorchRuntime(functions, torch.device(device)), Buckets.of(lengths, options.batches), prepared)
    if options.warm_up:
        runtime.warm_up()
    return runtime
