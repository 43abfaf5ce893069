"""From a trained float model to the int8 one that ships, and the figures that led to it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sonorant.export.quantization.calibration import Scales, Sensitivity, calibrate, quantized_copy, sensitivity_of
from sonorant.export.quantization.kept_model import above, choose, in_words, summary
from sonorant.export.quantization.utterance_losses import Judge, Judged
from sonorant.features.feature_store import FeatureStore
from sonorant.layers.model_folder import load_model, save_model
from sonorant.layers.quantized import quantizable
from sonorant.plugins import all_kinds, model_kind
from sonorant.training.recipe import utterances_of


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig:
    """What may be lost, and how long to train against it."""

    method: Literal["auto", "ptq", "qat"]
    """`ptq`: calibrate only; `qat`: continue training in int8; `auto`: train only if calibration exceeds `max_loss`,
    then ship the better of the two, the calibrated one in doubt."""
    max_loss: float = 1.0
    """Rise of the validation loss in percent (far end of the paired 95 % interval) beyond which `auto` trains. The
    default is for settings of before."""
    auto_trains: list[str]
    """Kinds of model that `auto` may train in int8; the others ship after calibration alone."""
    calibration_utterances: int
    """Utterances of the training split whose largest activations become the scales."""
    sensitivity_utterances: int
    """Utterances of the validation split that each layer is tried on alone."""
    max_layer_loss: float
    """A layer stays in float if it alone, in int8, raises the validation loss by more than so many percent."""
    steps: int
    """Optimizer steps of the training in int8; all other settings but those below are those of the float training."""
    learning_rate: float
    """Its peak, reached after a tenth of the steps."""

    def __post_init__(self) -> None:
        for name in ("calibration_utterances", "sensitivity_utterances", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for kind in self.auto_trains:
            if kind not in all_kinds():
                raise ValueError(f"auto_trains: unknown kind of model '{kind}'; there are: {', '.join(all_kinds())}")
        if self.learning_rate <= 0:
            raise ValueError("learning_rate must be above 0")

    def why_not_trained(self, kind: str, above_float: dict[str, Any]) -> str | None:
        """Why a model of this kind is not trained on in int8, for a person; None where it is. `above_float`: the cost
        of calibration, see `comparison.above`."""
        if self.method == "ptq":
            return "quantize.method is ptq"
        if (why := model_kind(kind).why_no_qat) or self.method == "qat":
            return why or None
        cost = f"calibration changed {in_words(above_float)}"
        if above_float["loss_percent_ci95"][1] <= self.max_loss:
            return f"{cost}, at most {self.max_loss:g} %: no training in int8 is needed"
        if kind not in self.auto_trains:
            return f"{cost}, more than {self.max_loss:g} %, but {kind} is not among quantize.auto_trains"
        return None


@dataclass(frozen=True)
class PostTrained:
    """A model after post-training quantisation, with what is needed to judge its rivals."""

    kind: str
    description: dict[str, Any]
    """Content of its `model.json`."""
    model: nn.Module
    judge: Judge
    as_float: Judged
    as_ptq: Judged
    scales: Scales
    sensitivity: list[Sensitivity]

    @property
    def above_float(self) -> dict[str, Any]:
        """What calibration costs, see `comparison.above`."""
        return above(self.as_ptq, self.as_float)

    def save(self, folder: Path) -> None:
        save_model(folder, self.model.state_dict(), self.description)


def post_train(
    kind: str, folder: Path, features: Path, train: dict[str, Any], config: QuantizeConfig, codes: Path | None = None
) -> PostTrained:
    """Calibrate the float model in `folder`, try each layer by itself, and quantise those that bear it. `train`: fields
    of the model's training config; `codes`: token store, for kinds that learn codes. Raises SonorantError if `folder`,
    `features` or `codes` hold something else."""
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
    """`ptq` or `qat`, whichever ships, and the report. `qat`: folder of the model trained in int8; None where
    `config.why_not_trained` says why."""
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
    """Layers that stay float, the bytes of their weights and their share: why int8 is not a quarter of the size."""
    if not sensitivity:
        return "all of it stays float, as others trained it"
    kept = [row for row in sensitivity if row.stays_float]
    share = sum(row.weights for row in kept) / max(1, sum(row.weights for row in sensitivity))
    names = ", ".join(f"{row.layer} ({4 * row.weights:,} bytes)" for row in kept)
    return f"{share:.1%} of the weights stay float: {names}" if kept else "no layer stays float"


def spread(store: FeatureStore, split: str, count: int) -> NDArray[np.int64]:
    """Indices of up to `count` utterances, evenly spaced in a split. Raises SonorantError if there are none."""
    items = utterances_of(store, split)
    return items[np.unique(np.linspace(0, len(items) - 1, count).round().astype(int))]
