"""Prepare a network for training: activation checkpointing, compilation, DistributedDataParallel, optimizer.

Blocks are compiled in place, so weights keep their names.
"""

import importlib.util
import os
import shutil

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonorant.errors import SonorantError
from sonorant.layers.convnext import ConvNeXtBlock, ConvNeXtStack
from sonorant.layers.transformer import Transformer, TransformerLayer
from sonorant.training.config import TrainConfig


def recompute_blocks(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, ConvNeXtStack | Transformer):
            part.recompute = True


BLOCK_GRAPHS = 64
"""Maximum number of compiled graphs per block class (torch's default is 8): one per kernel, width, dtype and gradient
mode."""


def compile_blocks(module: nn.Module, device: torch.device) -> None:
    """Compile each block for dynamic shapes. Raises SonorantError if a compiler is missing."""
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise SonorantError("compile: requires triton on a GPU; install it or set compile: false")
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise SonorantError(f"compile: needs {compiler}, a C++ compiler; install it, set CXX, or set compile: false")
    for part in module.modules():
        if isinstance(part, ConvNeXtBlock | TransformerLayer):
            part.compile(dynamic=True, recompile_limit=BLOCK_GRAPHS)


def distribute(module: nn.Module) -> DistributedDataParallel:
    # No device_ids: they would copy the batch, through which phases pass tensors. Buffers are constant. The graph
    # is static: every step calls the wrapper once.
    wrapped = DistributedDataParallel(
        module, forward_sync_buffers=False, gradient_as_bucket_view=True, static_graph=True
    )
    # Without this hook, a gradient is divided by the number of ranks or multiplied by its reciprocal, depending on
    # where it lies; with three ranks the results differ.
    wrapped._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    return wrapped


def optimizer_of(module: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in module.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in module.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.betas[0], config.betas[1]), fused=True)
