"""torch as a namespace of the Python array API standard, for `sonorant.decoding.advance`, also in a compiled step.

It is array-api-compat's but for two functions: torch's own `take_along_dim` fixes the sizes of its input when it is
compiled, and the package's `cumulative_sum` looks at its input's type, of which torch's compiler warns."""

from __future__ import annotations

from array_api_compat.torch import *  # noqa: F403 - all that is not redefined below
from torch import Tensor


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements of `x` by indices along an axis; `indices` int64 has the dimensions of `x`, and broadcasts along all
    others."""
    sizes = [*x.shape]
    sizes[axis] = indices.shape[axis]
    return x.gather(axis, indices.expand(sizes))


def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    """Sums of the elements up to each along an axis."""
    return x.cumsum(axis)
