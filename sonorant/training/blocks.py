"""How the blocks that every network repeats are computed: recomputed in the backward pass, compiled. Knows nothing of losses or steps.

Both are done to modules in place, block by block: names of weights stay as they are, and DistributedDataParallel is still what is called.
Compiling the whole network instead takes minutes where lengths vary; a block is compiled once and serves all its repetitions.
"""

from __future__ import annotations

import importlib.util
import os
import shutil

import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.models.convnext import ConvNeXtBlock, ConvNeXtStack
from sonorant.models.transformer import Transformer, TransformerLayer


def recompute_blocks(module: nn.Module) -> None:
    """Keep only the input of each block or layer for the backward pass and compute the rest of it again (activation checkpointing)."""
    for part in module.modules():
        if isinstance(part, ConvNeXtStack | Transformer):
            part.recompute = True


def compile_blocks(module: nn.Module, device: torch.device) -> None:
    """Compile each block or layer for batches and lengths that vary. Raises SonorantError naming the compiler that is absent."""
    _require_compiler(device)
    for part in module.modules():
        if isinstance(part, ConvNeXtBlock | TransformerLayer):
            part.compile(dynamic=True)


def _require_compiler(device: torch.device) -> None:
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise SonorantError("compile: needs triton on a GPU; install it or set compile: false")
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise SonorantError(f"compile: needs {compiler}, a C++ compiler; install it, name another in CXX, or set compile: false")
