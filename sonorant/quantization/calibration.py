"""Scales of activations, from what flows through the float model on training data. Knows nothing of audio or of files.

The largest absolute value seen becomes 127 ("min-max"). It lost least when compared on validation data with the least mean squared error
and with percentiles, which clip the few large activations that carry much (docs/LOG.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from sonorant.models.quantized import LARGEST, LAYERS, quantized

Scales = dict[str, dict[str, float]]
"""By layer: `input_scale`, and `output_scale` where the quantised layer has one."""


def calibrate(model: nn.Module, names: Iterable[str], run: Callable[[nn.Module], Any]) -> Scales:
    """Scales of those of the layers `names` of a float model that `run(model)` sends something through; the same data, the same scales."""
    largest: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    with torch.no_grad(), _watched(model, names, largest):
        run(model)
    return {
        name: {which: value / LARGEST if value else 1.0 for which, value in values.items()}
        for name, values in largest.items()
        if values
    }


def set_scales(model: nn.Module, scales: Scales) -> None:
    """Give the quantised layers of `model` their scales, in place. Raises KeyError for a layer that was not calibrated."""
    for name, layer in quantized(model).items():
        layer.input_scale.fill_(scales[name]["input_scale"])
        if layer.quantizes_output:
            layer.output_scale.fill_(scales[name]["output_scale"])


@contextmanager
def _watched(model: nn.Module, names: Iterable[str], largest: dict[str, dict[str, float]]) -> Iterator[None]:
    handles = [model.get_submodule(name).register_forward_hook(_observer(largest[name])) for name in names]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _observer(largest: dict[str, float]) -> Callable[..., None]:
    def observe(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        largest["input_scale"] = max(largest["input_scale"], float(inputs[0].abs().max()))
        if LAYERS[type(layer)].quantizes_output:
            largest["output_scale"] = max(largest["output_scale"], float(output.abs().max()))

    return observe
