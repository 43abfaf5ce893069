"""Inputs of a voice's graphs made longer without a change to what they mean. Knows nothing of engines.

Relies on what the graphs promise: a padded row is as the row would be alone, `ends` stay as they are over padded tokens, and `time` are
frames in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.runtime.bundle import Tensor

Arrays = dict[str, NDArray[Any]]


def sizes_of(inputs: Mapping[str, NDArray[Any]], tensors: Sequence[Tensor]) -> dict[str, int]:
    """The sizes of the dimensions that have a name."""
    return {
        dimension: size
        for tensor in tensors
        for dimension, size in zip(tensor.shape, inputs[tensor.name].shape, strict=True)
        if isinstance(dimension, str)
    }


def pad(inputs: Mapping[str, NDArray[Any]], tensors: Sequence[Tensor], sizes: Mapping[str, int]) -> Arrays:
    """Fill every input to the sizes of the dimensions named, at its ends."""
    padded = {}
    for tensor in tensors:
        array = inputs[tensor.name]
        more = [
            (0, sizes[name] - size if isinstance(name, str) else 0) for name, size in zip(tensor.shape, array.shape, strict=True)
        ]
        if tensor.name == "time":
            padded["time"] = np.concatenate([array, array[-1] + 1 + np.arange(more[0][1], dtype=array.dtype)])
        else:
            padded[tensor.name] = np.pad(array, more, mode="edge" if tensor.name == "ends" else "constant")
    return padded


def placeholders(tensors: Sequence[Tensor], sizes: Mapping[str, int]) -> Arrays:
    """Inputs of the sizes named that every graph can compute: real tokens and frames throughout, all of them silent."""
    arrays = {}
    for tensor in tensors:
        shape = tuple(sizes[name] if isinstance(name, str) else name for name in tensor.shape)
        arrays[tensor.name] = np.zeros(shape, tensor.dtype)
    if "speed" in arrays:
        arrays["speed"] += 1
        arrays["lengths"] += sizes["tokens"]
    elif "lengths" in arrays:
        arrays["lengths"] += sizes["frames"]
    if "ends" in arrays:
        arrays["ends"] += np.arange(1, sizes["tokens"] + 1)
        arrays["time"] += np.arange(sizes["frames"])
    return arrays
