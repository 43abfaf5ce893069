"""Short names for array types."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Integers = NDArray[np.integer]
"""Integers of any width."""
