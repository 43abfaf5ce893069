"""The trained models themselves as a runtime, on the CPU or a GPU. Knows nothing of bundles, nor of how to be fast.

Compiling and capturing are wrapped around the three functions from outside: see `sonorant.runtime.compiled` and `cuda_graphs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sonorant.errors import SonorantError
from sonorant.families import FAMILIES
from sonorant.models.saved import load_acoustic, load_vocoder

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Precisions of half the width, for the graphs that work on frames."""

Function = Callable[..., tuple[torch.Tensor, ...]]
"""One of the three graphs on tensors, all of one device."""


class TorchRuntime:
    """Three functions behind the numpy interface of `sonorant.runtime.runtimes.Runtime`. Any number of threads may use it."""

    def __init__(self, functions: dict[str, Function], device: torch.device) -> None:
        """`functions`: one for each graph of the parallel family, taking and giving tensors of `device`."""
        self._functions = functions
        self._device = device

    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Phonemes to states and ends, as `Runtime.encode`."""
        states, ends = self._run("encoder", tokens, lengths, speaker, speed)
        return states, ends

    def decode(self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.float32]:
        """States to mel, as `Runtime.decode`."""
        return self._run("decoder", states, ends, time)[0]

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mel to samples, as `Runtime.vocode`."""
        return self._run("vocoder", mel, lengths)[0]

    @torch.inference_mode()
    def _run(self, graph: str, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
        tensors = [torch.from_numpy(np.ascontiguousarray(value)).to(self._device) for value in inputs]
        return [result.cpu().numpy() for result in self._functions[graph](*tensors)]


def load_torch(trained: tuple[Path, Path], variant: str | None, device: str, threads: int | None) -> TorchRuntime:
    """The models run operator by operator. `threads`, where given, is set for the whole process; the rest as `load_functions`."""
    if threads is not None:
        torch.set_num_threads(threads)
    return TorchRuntime(load_functions(trained, variant, torch.device(device)), torch.device(device))


def load_functions(trained: tuple[Path, Path], variant: str | None, device: torch.device) -> dict[str, Function]:
    """The three graphs of the trained folders (acoustic model, vocoder) on a device.

    `variant`: fp32 or int8 where the folders must hold that, None where they may hold either; fp16 and bf16 halve what works on frames
    of float models. The encoder stays as it is: it decides how long everything lasts, and takes little of the time.

    Raises SonorantError if the device is absent, the folders hold something else, or the variant makes no sense here.
    """
    check_device(device)
    (acoustic, described), (vocoder, vocoder_described) = load_acoustic(trained[0]), load_vocoder(trained[1])
    check_variant(variant, bool(described.get("quantization") or vocoder_described.get("quantization")), trained, device)
    acoustic, vocoder = acoustic.to(device), vocoder.to(device)
    if variant in HALVES:
        for module in (acoustic.decoder, vocoder):
            halve(module, HALVES[variant])
    dtype = HALVES.get(variant or "")

    def encoder(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return acoustic.encode_speech(*inputs)

    def decoder(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False):
            return (acoustic.decode(*inputs).float().contiguous(),)

    def voice(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False):
            return (vocoder(*inputs).float(),)

    return dict(zip(FAMILIES["parallel"].graphs, (encoder, decoder, voice), strict=True))


def halve(module: nn.Module, dtype: torch.dtype) -> None:
    """Keep the large weights as autocast would cast them at each call; what it computes in float32 stays float32."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv1d):
            part.to(dtype)


def check_device(device: torch.device) -> None:
    """Raise SonorantError if the device is absent; have fp32 be fp32 there."""
    if device.type != "cuda":
        return
    with warnings.catch_warnings():  # torch warns of what the error below says
        warnings.simplefilter("ignore")
        available = torch.cuda.is_available()
    if not available:
        raise SonorantError("torch sees no GPU here; use the runtime torch or onnxruntime")
    # fp32 means fp32: with TF32, convolutions would keep ten bits of the mantissa without a word.
    torch.backends.cudnn.allow_tf32 = False


def check_variant(variant: str | None, quantized: bool, trained: tuple[Path, Path], device: torch.device) -> None:
    """Raise SonorantError if trained folders, of which one is `quantized` or none, cannot be computed so on a device."""
    folders = f"{trained[0]} and {trained[1]}"
    if variant not in (None, "fp32", "int8", *HALVES):
        raise SonorantError(f"torch has no variant '{variant}'; there are: fp32, int8, {', '.join(HALVES)}")
    if variant == "int8" and not quantized:
        raise SonorantError(f"{folders} hold float models; int8 needs what the stage quantize wrote")
    if quantized and variant not in (None, "int8"):
        raise SonorantError(f"{folders} hold quantised models; {variant} needs what the train stages wrote")
    if variant == "fp16" and device.type == "cpu":
        raise SonorantError("torch computes fp16 on a CPU by emulation, slower than fp32; use a GPU, or bf16")
