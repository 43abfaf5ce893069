"""The family parallel under torch: eager, compiled, or as CUDA graphs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sonorant.families.parallel.saved import load_acoustic, load_vocoder
from sonorant.families.parallel.synthesis import OUTPUTS, Arrays, GraphRuntime, vocoder_rows
from sonorant.speech.buckets import Bucketed, Buckets
from sonorant.speech.bundle import VoiceDescription
from sonorant.speech.runtimes import LoadOptions
from sonorant.speech.torch_graphs import HALVES, Compiler, CudaGraphs, Function, check_device, check_variant, halve


class TorchRuntime(GraphRuntime):
    """One function of tensors a graph. Thread-safe."""

    prosody = True  # ignored by models without it

    def __init__(self, functions: dict[str, Function], device: torch.device) -> None:
        """`functions`: by graph, from and to tensors of `device`."""
        self._functions, self._device = functions, device

    @torch.inference_mode()
    def run(self, graph: str, inputs: Arrays) -> Arrays:
        tensors = [torch.from_numpy(np.ascontiguousarray(value)).to(self._device) for value in inputs.values()]
        results = self._functions[graph](*tensors)
        return {name: result.cpu().numpy() for name, result in zip(OUTPUTS[graph], results, strict=True)}


def load_torch(trained: tuple[Path, Path], variant: str | None, device: str, threads: int | None) -> TorchRuntime:
    """Eager models, as `load_functions`. `threads` applies to the whole process."""
    if threads is not None:
        torch.set_num_threads(threads)
    return TorchRuntime(load_functions(trained, variant, torch.device(device)), torch.device(device))


def load_functions(trained: tuple[Path, Path], variant: str | None, device: torch.device) -> dict[str, Function]:
    """The three graphs of the trained folders (acoustic model, vocoder) on a device.

    `variant`: fp32 or int8 require folders of that kind, None takes either; fp16 and bf16 halve decoder and vocoder of
    float models. The encoder stays in float: it decides all durations and takes little time. Raises SonorantError if
    the device is missing, the folders hold another kind of model, or the variant is impossible here.
    """
    check_device(device)
    (acoustic, described), (vocoder, vocoder_described) = load_acoustic(trained[0]), load_vocoder(trained[1])
    check_variant(
        variant, bool(described.get("quantization") or vocoder_described.get("quantization")), trained, device
    )
    acoustic, vocoder = acoustic.to(device), vocoder.to(device)
    if variant in HALVES:
        for module in (acoustic.decoder, vocoder):
            halve(module, HALVES[variant])
    dtype = HALVES.get(variant or "")

    def encoder(*inputs: Tensor) -> tuple[Tensor, ...]:
        return acoustic.encode_speech(*inputs)

    def decoder(*inputs: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False):
            return (acoustic.decode(*inputs).float().contiguous(),)

    def voice(*inputs: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False):
            return (vocoder(*inputs).float(),)

    return {"encoder": encoder, "decoder": decoder, "vocoder": voice}


def load_compiled(
    trained: tuple[Path, Path], description: VoiceDescription, options: LoadOptions, device: str
) -> Bucketed:
    """Compiled for each bucket, and on a GPU recorded. Raises SonorantError as `load_functions` and `Compiler`."""
    functions = load_functions(trained, options.variant, torch.device(device))
    compiler = Compiler()
    prepare: Callable[[Function], Function] = compiler
    if device == "cuda":
        graphs = CudaGraphs()

        def prepare(function: Function) -> Function:
            return graphs(compiler(function))

    return _bucketed(functions, prepare, lambda: compiler.prepared, description, options, device)


def load_recorded(trained: tuple[Path, Path], description: VoiceDescription, options: LoadOptions) -> Bucketed:
    """A CUDA graph for each bucket. Raises SonorantError as `load_functions`."""
    functions = load_functions(trained, options.variant, torch.device("cuda"))
    graphs = CudaGraphs()
    return _bucketed(functions, graphs, lambda: graphs.prepared, description, options, "cuda")


def _bucketed(
    functions: dict[str, Function],
    prepare: Callable[[Function], Function],
    prepared: Callable[[], int],
    description: VoiceDescription,
    options: LoadOptions,
    device: str,
) -> Bucketed:
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    fixed = TorchRuntime({graph: prepare(function) for graph, function in functions.items()}, torch.device(device))
    free, buckets = TorchRuntime(functions, torch.device(device)), Buckets.of(description.lengths, options.batches)
    runtime = Bucketed(fixed, free, buckets, prepared, vocoder_rows(description))
    if options.warm_up:
        runtime.warm_up()
    return runtime
