"""Post-training quantisation: scales from activations on training data, and the loss increase from each layer alone in
int8.

The largest absolute value becomes 127 ("min-max"). On validation data, the loss was lower than with least mean squared
error or percentiles, which clip large activations (docs/log/export.md).
"""

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from sonorant.export.quantization.utterance_losses import Judged
from sonorant.layers.quantized import LARGEST, LAYERS, quantize_layers, quantized

Scales = dict[str, dict[str, float]]
"""`input_scale` and, if the quantised layer has one, `output_scale`, by layer."""


def calibrate(model: nn.Module, names: Iterable[str], run: Callable[[nn.Module], Any]) -> Scales:
    """Return the scales of a float model's layers `names`, measured while `run(model)` runs it on data."""
    largest: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    with torch.no_grad(), _watched(model, names, largest):
        run(model)
    return {
        name: {which: value / LARGEST if value else 1.0 for which, value in values.items()}
        for name, values in largest.items()
        if values
    }


def set_scales(model: nn.Module, scales: Scales) -> None:

    for name, layer in quantized(model).items():
        layer.input_scale.fill_(scales[name]["input_scale"])
        if layer.quantizes_output:
            layer.output_scale.fill_(scales[name]["output_scale"])
        layer.store()  # the bias depends on the input scale


@contextmanager
def _watched(model: nn.Module, names: Iterable[str], largest: dict[str, dict[str, float]]) -> Iterator[None]:
    handles = [model.get_submodule(name).register_forward_hook(_observer(largest[name])) for name in names]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _observer(largest: dict[str, float]) -> Callable[..., None]:
    def observe(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        largest["input_scale"] = max(largest["input_scale"], float(inputs[0].abs().max()))
        if LAYERS[type(layer)].quantizes_output:
            largest["output_scale"] = max(largest["output_scale"], float(output.abs().max()))

    return observe


@dataclass(frozen=True)
class Sensitivity:
    """Loss increase from one layer alone in int8, relative to the float model on the same utterances."""

    layer: str
    kind: str
    weights: int
    loss_percent: float
    """Increase of the mean validation loss in percent."""
    error: float
    """Increase of the mean error, in the judge's `measure`."""
    measure: str
    stays_float: bool
    """Whether `loss_percent` exceeds the limit."""

    def row(self) -> dict[str, Any]:
        kept = {name: value for name, value in dataclasses.asdict(self).items() if name not in ("error", "measure")}
        return kept | {self.measure: self.error}


def sensitivity_of(
    model: nn.Module, scales: Scales, judge: Callable[[nn.Module], Judged], max_layer_loss: float, label: str
) -> list[Sensitivity]:
    """Test each layer alone in int8, in the order of the scales."""
    as_float = judge(model)
    rows = []
    for name in tqdm(scales, desc=f"sensitivity ({label})", unit="layer"):
        judged = judge(quantized_copy(model, [name], scales))
        layer = model.get_submodule(name)
        percent = 100.0 * float(judged.loss.mean() / as_float.loss.mean() - 1.0)
        error = float(judged.error.mean() - as_float.error.mean())
        weights = int(torch.as_tensor(layer.weight).numel())
        rows.append(
            Sensitivity(name, type(layer).__name__, weights, percent, error, judged.measure, percent > max_layer_loss)
        )
    return rows


def quantized_copy(model: nn.Module, names: Iterable[str], scales: Scales) -> nn.Module:
    """Copy a float model in evaluation mode with the layers `names` in int8."""
    copied = copy.deepcopy(model)
    quantize_layers(copied, names)
    set_scales(copied, scales)
    return copied.eval()
