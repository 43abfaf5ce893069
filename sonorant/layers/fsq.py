"""Finite scalar quantisation (Mentzer et al. 2023, "Finite Scalar Quantization: VQ-VAE Made Simple", section 3).

Each number of a vector is squashed and rounded to one of a few levels; the levels are the digits of the code.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

EDGE = 1e-3
"""Fraction by which the squashed range exceeds the outermost levels."""
MOST_LEVELS = 1000
"""Maximum number of levels; with more, `EDGE` would be half a level, and rounding would exceed the range."""


class FiniteScalarQuantizer(nn.Module):
    """Converts vectors of `width` numbers to codes 0 to `codes` - 1 and back, without parameters."""

    reach_D: Tensor
    offset_D: Tensor
    shift_D: Tensor
    lowest_D: Tensor
    basis_D: Tensor
    table_KD: Tensor

    def __init__(self, levels: Sequence[int]) -> None:
        """`levels`: number of levels of each number of a vector, 2 to `MOST_LEVELS`; their product is the number of
        codes."""
        super().__init__()
        self.width = len(levels)
        self.codes = math.prod(levels)
        levels_D = torch.tensor(levels, dtype=torch.float64)
        reach_D = (levels_D - 1) * (1 + EDGE) / 2
        offset_D = 0.5 * (levels_D % 2 == 0)  # even numbers of levels are not centred on zero
        lowest_D = -(levels_D // 2).float()
        basis_D = torch.tensor([math.prod(levels[:place]) for place in range(len(levels))])
        digits_KD = (torch.arange(self.codes)[:, None] // basis_D) % levels_D.long()
        buffers = {
            "reach_D": reach_D.float(),
            "offset_D": offset_D.float(),
            "shift_D": (offset_D / reach_D).atanh().float(),
            "lowest_D": lowest_D,
            "basis_D": basis_D,
            "table_KD": (digits_KD + lowest_D) / -lowest_D,
        }
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Round vectors (..., D) float to those of the nearest codes, float32 from -1 to 1, with straight-through
        gradients (Bengio et al. 2013, section 3)."""
        squashed = (x.float() + self.shift_D).tanh() * self.reach_D - self.offset_D
        rounded = squashed + (squashed.round() - squashed).detach()
        return rounded / -self.lowest_D

    def to_codes(self, values: Tensor) -> Tensor:
        """Convert the output (..., D) of `forward` to codes (...,) int64."""
        digits = (values * -self.lowest_D - self.lowest_D).round().long()
        return (digits * self.basis_D).sum(-1)

    def to_values(self, codes: Tensor) -> Tensor:
        """Convert codes (...,) int64 to vectors (..., D) float32."""
        return nn.functional.embedding(codes, self.table_KD)
