"""How much work a piece of training is: arithmetic, memory traffic, operations. Counted while it runs; knows nothing of any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True, kw_only=True)
class Work:
    """Of one call."""

    flops: int
    """Of matrix products and convolutions; the rest is bound by memory."""
    bytes: int
    """Read and written by operations that are not views, nothing kept in caches between them."""
    operations: int
    """Issued one by one."""


def work_of(call: Callable[[], object]) -> Work:
    """Run `call` and count what it does, its backward passes included."""
    traffic, flops = _Traffic(), FlopCounterMode(display=False)
    with flops, traffic:
        call()
    return Work(flops=flops.get_total_flops(), bytes=traffic.bytes, operations=traffic.operations)


class _Traffic(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.operations += 1
            self.bytes += sum(tensor.nbytes for tensor in _tensors((args, kwargs, out)))
        return out


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
