"""The `parallel` family under torch: eager, compiled, or as CUDA graphs."""

from pathlib import Path
from typing import Literal

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
    """One function of tensors per graph. Thread-safe."""

    def __init__(self, functions: dict[str, Function], device: torch.device) -> None:
        """`functions`: function of tensors on `device` for each graph."""
        self._functions, self._device = functions, device

    @torch.inference_mode()
    def run(self, graph: str, inputs: Arrays) -> Arrays:
        tensors = [torch.from_numpy(np.ascontiguousarray(value)).to(self._device) for value in inputs.values()]
        results = self._functions[graph](*tensors)
        return {name: result.cpu().numpy() for name, result in zip(OUTPUTS[graph], results, strict=True)}


def load_models(
    trained: tuple[Path, Path],
    description: VoiceDescription,
    options: LoadOptions,
    *,
    way: Literal["eager", "compiled", "recorded"] = "eager",
    device: str = "cpu",
) -> TorchRuntime | Bucketed:
    """Load the trained models: eager, compiled for each bucket (on a GPU also recorded), or recorded as a CUDA graph
    for each bucket. `options.threads` applies to the whole process. Raises SonorantError as `load_functions` and
    `Compiler` do."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    functions = load_functions(trained, options.variant, torch.device(device))
    free = TorchRuntime(functions, torch.device(device))
    if way == "eager":
        return free
    stages: list[Compiler | CudaGraphs] = []
    if way == "compiled":
        stages.append(Compiler())
    if device == "cuda":
        stages.append(CudaGraphs())
    for stage in stages:
        functions = {graph: stage(function) for graph, function in functions.items()}
    fixed, buckets = TorchRuntime(functions, torch.device(device)), Buckets.of(description.lengths, options.batches)
    runtime = Bucketed(fixed, free, buckets, lambda: stages[0].prepared, vocoder_rows(description))
    if options.warm_up:
        runtime.warm_up()
    return runtime


def load_functions(trained: tuple[Path, Path], variant: str | None, device: torch.device) -> dict[str, Function]:
    """Return functions for the three graphs, with weights from the trained folders (acoustic model, vocoder), on a
    device.

    `variant`: fp32 and int8 require folders of that kind, None accepts either; fp16 and bf16 store the decoder and
    vocoder of float models in 16 bits. The encoder stays in float, because it determines all durations and takes little
    time. Raises SonorantError if the device is missing, the folders contain a different kind of model, or the variant
    is unsupported.
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
