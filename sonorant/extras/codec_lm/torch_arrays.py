"""torch as a namespace of the Python array API standard, for `sonorant.extras.codec_lm.decoding.advance`, also when
compiled.

Two functions differ from array-api-compat: torch's `take_along_dim` fixes the sizes of its input when compiled, and the
package's `cumulative_sum` looks at its input's type, of which torch's compiler warns."""

from array_api_compat.torch import *  # noqa: F403 - all that is not redefined below
from torch import Tensor


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements of `x` by int64 indices along an axis; `indices` broadcasts along the other axes."""
    sizes = [*x.shape]
    sizes[axis] = indices.shape[axis]
    return x.gather(axis, indices.expand(sizes))


def cumulative_sum(x: Tensor, /, *, axis: int) -> Tensor:
    """Sums of the elements up to each along an axis."""
    return x.cumsum(axis)
