"""torch as a Python array API namespace for `sonorant.extras.codec_lm.decoding.advance`, also when compiled.

Two functions replace those of array-api-compat: `take_along_dim` fixes the input's sizes when compiled, and
`cumulative_sum` checks its input's type, which torch's compiler warns about."""

from array_api_compat.torch import *  # noqa: F403 - everything not redefined below
from torch import Tensor


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements of `x` by int64 indices along an axis; `indices` broadcasts along the other axes."""
    sizes = [*x.shape]
    sizes[axis] = indices.shape[axis]
    return x.gather(axis, indices.expand(sizes))


def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    """Running sum along an axis."""
    return x.cumsum(axis)
