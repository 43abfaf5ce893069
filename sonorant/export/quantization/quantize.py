"""Quantise a trained model to int8, decide whether to train it in int8, and report the results."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sonorant.checked import Amount, Count, Level, Share
from sonorant.export.quantization.calibration import Scales, Sensitivity, calibrate, quantized_copy, sensitivity_of
from sonorant.export.quantization.utterance_losses import Judge, Judged
from sonorant.features.feature_store import FeatureStore
from sonorant.layers.model_folder import load_model, save_model
from sonorant.layers.quantized import quantizable
from sonorant.plugins import all_kinds, model_kind
from sonorant.training.intervals import bootstrap
from sonorant.training.recipe import utterances_of

RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig:
    """Section `quantize` of params.yaml."""

    method: Literal["auto", "ptq", "qat"] = "auto"
    """`ptq` calibrates; `qat` continues training in int8; `auto` trains only if calibration raises the loss by more
    than `max_loss`, and then ships the better model (if uncertain, the calibrated one)."""
    max_loss: Level = 1.0
    """Percent increase of the validation loss (upper end of the paired 95 % interval) above which `auto` trains."""
    auto_trains: list[str] = field(default_factory=lambda: ["acoustic", "vocoder"])
    """Kinds of model that `auto` may train in int8."""
    calibration_utterances: Count = 24
    """Number of training utterances for measuring scales."""
    sensitivity_utterances: Count = 8
    """Number of validation utterances for testing single layers."""
    max_layer_loss: Amount = 1.0
    """Maximum increase of validation loss in percent from one layer in int8; layers above it stay in float."""
    steps: Count = 150
    """Number of training steps in int8; other settings are those of the float training."""
    learning_rate: Share = 0.0004
    """Peak learning rate, reached after a tenth of the steps."""

    def __post_init__(self) -> None:
        for kind in self.auto_trains:
            if kind not in all_kinds():
                raise ValueError(f"auto_trains: unknown kind of model '{kind}'; use one of: {', '.join(all_kinds())}")

    def why_not_trained(self, kind: str, above_float: dict[str, Any]) -> str | None:
        if self.method == "ptq":
            return "quantize.method is ptq"
        if (why := model_kind(kind).why_no_qat) or self.method == "qat":
            return why or None
        cost = f"calibration changed {in_words(above_float)}"
        if above_float["loss_percent_ci95"][1] <= self.max_loss:
            return f"{cost}, at most {self.max_loss:g} %: training in int8 is not required"
        if kind not in self.auto_trains:
            return f"{cost}, more than {self.max_loss:g} %, but {kind} is not in quantize.auto_trains"
        return None


@dataclass(frozen=True)
class PostTrained:
    """A model after post-training quantisation, with data for comparisons."""

    kind: str
    description: dict[str, Any]
    model: nn.Module
    judge: Judge
    as_float: Judged
    as_ptq: Judged
    scales: Scales
    sensitivity: list[Sensitivity]

    @property
    def above_float(self) -> dict[str, Any]:
        return above(self.as_ptq, self.as_float)

    def save(self, folder: Path) -> None:
        save_model(folder, self.model.state_dict(), self.description)


def post_train(
    kind: str, folder: Path, features: Path, train: dict[str, Any], config: QuantizeConfig, codes: Path | None = None
) -> PostTrained:
    """Calibrate the float model in `folder`, test each layer alone, and quantise those within `max_layer_loss`.
    `train` and `codes` are as in `ModelKind.recipe`."""
    model, description = load_model(folder, kind)
    of_kind = model_kind(kind)
    recipe = of_kind.recipe(description["config"], train, features, codes)
    calibration = of_kind.judge(recipe, model, spread(recipe.store, "train", config.calibration_utterances))
    scales = calibrate(model, quantizable(model), calibration.run)
    few = of_kind.judge(recipe, model, spread(recipe.store, "validation", config.sensitivity_utterances))
    sensitivity = sensitivity_of(model, scales, few, config.max_layer_loss, kind)
    layers = [row.layer for row in sensitivity if not row.stays_float]
    quantised = quantized_copy(model, layers, scales)
    judge = of_kind.judge(recipe, model, utterances_of(recipe.store, "validation"))
    spec = {"method": "ptq", "layers": layers, "float_layers": [row.layer for row in sensitivity if row.stays_float]}
    as_float = judge(model)
    as_ptq = judge(quantised) if layers else as_float
    return PostTrained(
        kind, description | {"quantization": spec}, quantised, judge, as_float, as_ptq, scales, sensitivity
    )


def decide(ptq: PostTrained, qat: Path | None, config: QuantizeConfig) -> tuple[str, dict[str, Any]]:
    """Return the method that ships, `ptq` or `qat`, and the report. `qat` is the folder trained in int8, if any."""
    figures: dict[str, Any] = {
        "float": summary(ptq.as_float),
        "ptq": summary(ptq.as_ptq) | {"above_float": ptq.above_float},
    }
    if qat is None:
        shipped, why = "ptq", config.why_not_trained(ptq.kind, ptq.above_float) or "it was not trained in int8"
        figures["qat"] = f"not run: {why}"
    else:
        as_qat = ptq.judge(load_model(qat, ptq.kind)[0])
        qat_above_ptq = above(as_qat, ptq.as_ptq)
        figures["qat"] = summary(as_qat) | {"above_float": above(as_qat, ptq.as_float), "above_ptq": qat_above_ptq}
        shipped, why = choose(qat_above_ptq) if config.method == "auto" else ("qat", "quantize.method is qat")
    return shipped, {
        "shipped": shipped,
        "sentence": f"{ptq.kind}: {why}; {in_float(ptq.sensitivity)}",
        "figures": figures,
        "float_layers": ptq.description["quantization"]["float_layers"],
        "max_layer_loss": config.max_layer_loss,
        "measure": ptq.as_float.measure,
        "sensitivity": [row.row() for row in ptq.sensitivity],
        "calibration": {"utterances": config.calibration_utterances, "observer": "min-max", "scales": ptq.scales},
    }


def in_float(sensitivity: list[Sensitivity]) -> str:
    """List the layers that stay in float, with their bytes and fraction of weights."""
    if not sensitivity:
        return "a pretrained model, which stays float"
    kept = [row for row in sensitivity if row.stays_float]
    share = sum(row.weights for row in kept) / max(1, sum(row.weights for row in sensitivity))
    names = ", ".join(f"{row.layer} ({4 * row.weights:,} bytes)" for row in kept)
    return f"{share:.1%} of the weights stay float: {names}" if kept else "no layer stays float"


def spread(store: FeatureStore, split: str, count: int) -> NDArray[np.int64]:
    """Return indices of up to `count` evenly spaced utterances in `split`."""
    items = utterances_of(store, split)
    return items[np.unique(np.linspace(0, len(items) - 1, count).round().astype(int))]


def summary(judged: Judged) -> dict[str, Any]:
    return {
        "loss": _rounded(judged.loss.mean()),
        "loss_ci95": interval(judged.loss),
        judged.measure: _rounded(judged.error.mean()),
        f"{judged.measure}_ci95": interval(judged.error),
        "utterances": len(judged.loss),
    }


def above(judged: Judged, baseline: Judged) -> dict[str, Any]:
    """Return the difference from a baseline with paired 95 % intervals; negative is better."""
    loss = judged.loss - baseline.loss
    percent = 100.0 / float(baseline.loss.mean())
    error = judged.error - baseline.error
    return {
        "loss_percent": _rounded(percent * loss.mean()),
        "loss_percent_ci95": interval(percent * loss),
        judged.measure: _rounded(error.mean()),
        f"{judged.measure}_ci95": interval(error),
    }


def interval(values: NDArray[np.float64]) -> list[float]:
    return [_rounded(end) for end in bootstrap(np.mean, values, resamples=RESAMPLES)]


def in_words(difference: dict[str, Any]) -> str:
    """Format the result of `above` as "the validation loss by +0.44 % (...)"."""
    low, high = difference["loss_percent_ci95"]
    interval = f"paired 95 % interval {low:+.2f} to {high:+.2f}"
    return f"the validation loss by {difference['loss_percent']:+.2f} % ({interval})"


def choose(qat_above_ptq: dict[str, Any]) -> tuple[str, str]:
    """Return `ptq` or `qat`, and why. `qat` ships only if its whole interval of loss differences is below zero."""
    measured = f"training in int8 changed {in_words(qat_above_ptq)}"
    if qat_above_ptq["loss_percent_ci95"][1] < 0.0:
        return "qat", f"{measured}: the trained model ships"
    return "ptq", f"{measured}: no improvement over post-training quantisation, which ships"


def _rounded(value: float) -> float:
    return round(float(value), 5)
