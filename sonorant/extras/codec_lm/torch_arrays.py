"""torch as a Python array API namespace for `advance`, also when compiled. Replaces two functions of array-api-compat:
`take_along_dim` fixes the input's sizes when compiled, and `cumulative_sum` causes a compiler warning."""

from array_api_compat.torch import *  # noqa: F403 - everything not redefined below
from torch import Tensor


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Take values at `indices` int64, which broadcast along the other axes."""
    sizes = [*x.shape]
    sizes[axis] = indices.shape[axis]
    return x.gather(axis, indices.expand(sizes))


def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    return x.cumsum(axis)
