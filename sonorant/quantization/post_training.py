"""Post-training quantisation: which layers bear int8, by trying each alone, and the model with those quantised.

Knows nothing of training or of files.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn
from tqdm import tqdm

from sonorant.models.quantized import quantizable, quantize_layers
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
    log_mel_db: float
    """Rise of the mean distance to the recordings' log-mel, dB."""
    stays_float: bool
    """Whether that was more than is allowed."""


def sensitivity_of(
    model: nn.Module, scales: Scales, judge: Callable[[nn.Module], Judged], max_layer_loss: float, label: str
) -> list[Sensitivity]:
    """Try each layer of a float model alone in int8; a row a layer, in the model's order. `label` names the progress bar."""
    as_float = judge(model)
    rows = []
    for name in tqdm(quantizable(model), desc=f"sensitivity ({label})", unit="layer"):
        judged = judge(quantized_copy(model, [name], scales))
        layer = model.get_submodule(name)
        percent = 100.0 * float(judged.loss.mean() / as_float.loss.mean() - 1.0)
        decibels = float(judged.log_mel_db.mean() - as_float.log_mel_db.mean())
        weights = int(torch.as_tensor(layer.weight).numel())
        rows.append(Sensitivity(name, type(layer).__name__, weights, percent, decibels, percent > max_layer_loss))
    return rows


def quantized_copy(model: nn.Module, names: Iterable[str], scales: Scales) -> nn.Module:
    """A copy of a float model in evaluation mode in which the layers `names` compute in int8."""
    copied = copy.deepcopy(model)
    quantize_layers(copied, names)
    set_scales(copied, scales)
    return copied.eval()
