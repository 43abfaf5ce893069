"""Short names of the array types that the rooms hand to each other."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Integers = NDArray[np.integer]
"""Of any width."""
