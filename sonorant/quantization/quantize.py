"""From a trained float model to the int8 one that ships, and the figures that led to it. Knows nothing of how a training is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sonorant.data.features import FeatureStore
from sonorant.errors import SonorantError
from sonorant.models.quantized import quantizable
from sonorant.models.saved import load_model, save_model
from sonorant.quantization.calibration import Scales, calibrate
from sonorant.quantization.comparison import above, choose, summary
from sonorant.quantization.config import QuantizeConfig
from sonorant.quantization.judge import Judge, Judged, judge_of
from sonorant.quantization.post_training import Sensitivity, quantized_copy, sensitivity_of
from sonorant.training.acoustic import AcousticRecipe
from sonorant.training.codec import CodecRecipe
from sonorant.training.language_model import LanguageModelRecipe
from sonorant.training.recipe import utterances_of
from sonorant.training.vocoder import VocoderRecipe

RECIPES: dict[str, type[AcousticRecipe] | type[VocoderRecipe]] = {
    "acoustic": AcousticRecipe,
    "vocoder": VocoderRecipe,
    "codec": CodecRecipe,
}
"""By kind of model; a language model's needs codes too."""


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

    def save(self, folder: Path) -> None:
        """Write a trained folder, as `save_model`."""
        save_model(folder, self.model.state_dict(), self.description)


def post_train(
    kind: str, folder: Path, features: Path, train: dict[str, Any], config: QuantizeConfig, codes: Path | None = None
) -> PostTrained:
    """Calibrate the float model in `folder`, try each layer alone, and quantise those that bear it.

    `train`: fields of the model's training config, for its losses; `codes`: token store of a codec, for the kinds that learn from one.
    Raises SonorantError if `folder`, `features` or `codes` hold something else.
    """
    model, description = load_model(folder, kind)
    recipe = recipe_of(kind, description["config"], train, features, codes)
    calibration = judge_of(recipe, model, spread(recipe.store, "train", config.calibration_utterances))
    scales = calibrate(model, quantizable(model), calibration.run)
    few = judge_of(recipe, model, spread(recipe.store, "validation", config.sensitivity_utterances))
    sensitivity = sensitivity_of(model, scales, few, config.max_layer_loss, kind)
    layers = [row.layer for row in sensitivity if not row.stays_float]
    quantised = quantized_copy(model, layers, scales)
    judge = judge_of(recipe, model, utterances_of(recipe.store, "validation"))
    spec = {"method": "ptq", "layers": layers, "float_layers": [row.layer for row in sensitivity if row.stays_float]}
    as_float = judge(model)
    as_ptq = judge(quantised) if layers else as_float
    return PostTrained(kind, description | {"quantization": spec}, quantised, judge, as_float, as_ptq, scales, sensitivity)


def decide(ptq: PostTrained, qat: Path | None, config: QuantizeConfig) -> tuple[str, dict[str, Any]]:
    """`ptq` or `qat`, whichever ships, and the report. `qat`: trained folder of the model that was trained in int8, if there is one."""
    figures: dict[str, Any] = {
        "float": summary(ptq.as_float),
        "ptq": summary(ptq.as_ptq) | {"above_float": above(ptq.as_ptq, ptq.as_float)},
    }
    shipped, why = "ptq", config.why_not(ptq.kind)
    if qat is None:
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


def recipe_of(kind: str, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Any:
    """The recipe that a model of `kind` was trained by, for its data and its losses."""
    if kind != LanguageModelRecipe.name:
        return RECIPES[kind](model, train, features)
    if codes is None:
        raise SonorantError("a language model is quantised with the codes it learned from; give --codes, what train_vocoder wrote")
    return LanguageModelRecipe(model, train, features, codes)


def in_float(sensitivity: list[Sensitivity]) -> str:
    """The layers that stay float with the bytes of their weights, and their share of all; what keeps int8 from a quarter of the size."""
    if not sensitivity:
        return "all of it stays float, as others trained it"
    kept = [row for row in sensitivity if row.stays_float]
    share = sum(row.weights for row in kept) / max(1, sum(row.weights for row in sensitivity))
    names = ", ".join(f"{row.layer} ({4 * row.weights:,} bytes)" for row in kept)
    return f"{share:.1%} of the weights stay float: {names}" if kept else "no layer stays float"


def spread(store: FeatureStore, split: str, count: int) -> NDArray[np.int64]:
    """Indices of `count` utterances of a split, evenly spaced in it; all where there are fewer. Raises SonorantError if there are none."""
    items = utterances_of(store, split)
    return items[np.unique(np.linspace(0, len(items) - 1, count).round().astype(int))]
