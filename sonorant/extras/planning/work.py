"""Count a training step's FLOPs, memory traffic, operations and memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from sonorant.features.batches import Batch
from sonorant.training.recipe import Recipe
from sonorant.training.step import TrainStep


@dataclass(frozen=True, kw_only=True)
class Work:
    flops: int
    """FLOPs of matrix products and convolutions."""
    bytes: int
    """Bytes that operations other than views read and write, ignoring caches."""
    operations: int


def work_of(call: Callable[[], object]) -> Work:
    """Run `call` and count its work, including backward passes."""
    counter = _Counter()
    with counter:
        call()
    return Work(flops=counter.flops, bytes=counter.bytes, operations=counter.operations)


class _Counter(TorchDispatchMode):
    """Counts dispatched operations. Uses only the formulas of torch's `FlopCounterMode`, because its module hooks fail
    in `autograd.grad` if a parameter is passed to a module."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.bytes = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.operations += 1
            self.bytes += sum(tensor.nbytes for tensor in _tensors((args, kwargs, out)))
        if formula := flop_registry.get(func._overloadpacket):
            self.flops += formula(*args, **(kwargs or {}), out_val=out)
        return out


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def parameter_counts(recipe: Recipe) -> dict[str, int]:
    counts = {name: _count(part) for name, part in recipe.model.named_children()}
    counts |= {name: parameter.numel() for name, parameter in recipe.model.named_parameters(recurse=False)}
    counts |= {phase.name: _count(phase.module) for phase in recipe.phases[1:]}
    return {name: count for name, count in counts.items() if count}


def bytes_by_component(trained: TrainStep) -> dict[str, int]:
    """Return the bytes of weights (with buffers), gradients, AdamW's averages, EMA, and the largest activations."""
    modules = [phase.module for phase in trained.recipe.phases]
    gradients = sum(parameter.nbytes for module in modules for parameter in module.parameters())
    return {
        "weights": gradients + sum(buffer.nbytes for module in modules for buffer in module.buffers()),
        "gradients": gradients,
        "optimizer": 2 * gradients,
        "average": sum(tensor.nbytes for tensor in trained.ema.module.state_dict().values()),
        "activations": activations_of_heaviest(trained),
    }


def activations_of_heaviest(trained: TrainStep) -> int:
    """Return the bytes that the heaviest micro-batch keeps from forward to backward."""
    batches = trained.recipe.dataset(trained.recipe.heaviest())
    device = trained.ranks.device
    moved = ({name: value.to(device) for name, value in batches[index].items()} for index in range(len(batches)))  # type: ignore[arg-type]
    return max(_kept(trained, batch) for batch in moved)


def _kept(trained: TrainStep, batch: Batch) -> int:
    """Return the largest activation memory of any phase in bytes; phases run one after another."""
    kept: dict[int, int] = {}
    own = {parameter.data_ptr() for phase in trained.recipe.phases for parameter in phase.module.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    most = 0
    for phase in trained.recipe.phases:
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), trained.autocast():
            losses = phase.module(batch, 0)
        most = max(most, sum(kept.values()))
        del losses
    return most


def _count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
