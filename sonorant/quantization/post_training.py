"""Post-training quantisation: which layers bear int8, by trying each alone, and the model with those quantised.

Knows nothing of training or of files.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from sonorant.models.quantized import quantize_layers
from sonorant.quantization.calibration import Scales, set_scales
from sonorant.quantization.judge import Judged


@dataclass(frozen=True)
class Sensitivity:
    """What one layer costs when it alone computes in int8, against the float model on the same utterances."""

    layer: str
    kind: str
    """Class of the float layer."""
    weights: int
    """Values in its weight."""
    loss_percent: float
    """Rise of the mean validation loss, percent."""
    error: float
    """Rise of the mean of what else the judge measures."""
    measure: str
    """The name of that, see `Judged`."""
    stays_float: bool
    """Whether the loss rose by more than is allowed."""

    def row(self) -> dict[str, Any]:
        """Of the report."""
        kept = {name: value for name, value in dataclasses.asdict(self).items() if name not in ("error", "measure")}
        return kept | {self.measure: self.error}


def sensitivity_of(
    model: nn.Module, scales: Scales, judge: Callable[[nn.Module], Judged], max_layer_loss: float, label: str
) -> list[Sensitivity]:
    """Try each layer that has scales alone in int8; a row a layer, in the order of the scales. `label` names the progress bar."""
    as_float = judge(model)
    rows = []
    for name in tqdm(scales, desc=f"sensitivity ({label})", unit="layer"):
        judged = judge(quantized_copy(model, [name], scales))
        layer = model.get_submodule(name)
        percent = 100.0 * float(judged.loss.mean() / as_float.loss.mean() - 1.0)
        error = float(judged.error.mean() - as_float.error.mean())
        weights = int(torch.as_tensor(layer.weight).numel())
        rows.append(Sensitivity(name, type(layer).__name__, weights, percent, error, judged.measure, percent > max_layer_loss))
    return rows


def quantized_copy(model: nn.Module, names: Iterable[str], scales: Scales) -> nn.Module:
    """A copy of a float model in evaluation mode in which the layers `names` compute in int8."""
    copied = copy.deepcopy(model)
    quantize_layers(copied, names)
    set_scales(copied, scales)
    return copied.eval()
