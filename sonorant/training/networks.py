"""A phase's network made ready for training: its blocks, its DistributedDataParallel wrapper, its optimizer.

Blocks are recomputed or compiled in place, one by one: weights keep their names, and DistributedDataParallel is still
what is called. Compiling a whole network takes minutes where lengths vary; a block is compiled once for all its
repetitions.
"""

import importlib.util
import os
import shutil

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonorant.errors import SonorantError
from sonorant.layers.convnext import ConvNeXtBlock, ConvNeXtStack
from sonorant.layers.transformer import Transformer, TransformerLayer
from sonorant.training.config import TrainConfig


def recompute_blocks(module: nn.Module) -> None:
    """Keep only each block's input for the backward pass and compute the rest again (activation checkpointing)."""
    for part in module.modules():
        if isinstance(part, ConvNeXtStack | Transformer):
            part.recompute = True


BLOCK_GRAPHS = 64
"""Compiled graphs that blocks of one class may have together: one a kernel, width and dtype, with and without
gradients. torch's own limit is 8, which a model of the published size reaches; then it goes on uncompiled."""


def compile_blocks(module: nn.Module, device: torch.device) -> None:
    """Compile each block for batches and lengths that vary. Raises SonorantError naming a missing compiler."""
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise SonorantError("compile: needs triton on a GPU; install it or set compile: false")
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise SonorantError(f"compile: needs {compiler}, a C++ compiler; install it, set CXX, or set compile: false")
    for part in module.modules():
        if isinstance(part, ConvNeXtBlock | TransformerLayer):
            part.compile(dynamic=True, recompile_limit=BLOCK_GRAPHS)


def distribute(module: nn.Module) -> DistributedDataParallel:
    """The wrapper that averages gradients over the ranks."""
    # No device_ids: they would hand the module a copy of the batch, in which phases pass tensors on. Buffers are
    # constants, so there is nothing to broadcast. The graph is static: every step calls the wrapper once, and passes
    # before that go around it.
    return DistributedDataParallel(module, forward_sync_buffers=False, gradient_as_bucket_view=True, static_graph=True)


def optimizer_of(module: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW; only matrices decay."""
    matrices = [parameter for parameter in module.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in module.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.betas[0], config.betas[1]), fused=True)
