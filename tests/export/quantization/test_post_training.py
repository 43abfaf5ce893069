import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.audio.pitch import SOURCE_ROWS, SourceRows
from sonorant.export.quantization.calibration import Sensitivity, calibrate, sensitivity_of
from sonorant.export.quantization.quantize import PostTrained, QuantizeConfig, above, choose, decide, post_train, spread
from sonorant.export.quantization.utterance_losses import Judged
from sonorant.families.parallel.vocoder import SourceFilter, Vocoder
from sonorant.features.feature_store import FeatureStore
from sonorant.layers.model_folder import load_model, save_model
from sonorant.layers.quantized import quantizable, quantized
from testbed.tiny_training import RECIPES, settings, tiny_codes, tiny_recipe

CONFIG = QuantizeConfig(
    method="auto", max_loss=1.0, auto_trains=RECIPES, calibration_utterances=4, sensitivity_utterances=2,
    max_layer_loss=5.0, steps=8, learning_rate=1e-4,
)  # fmt: skip


def write_float(kind: str, features: Path, folder: Path, decoder: str = "regression", spoil: str | None = None) -> Path:
    """Write a trained folder of a tiny random model.

    `spoil`: a vocoder block in which one channel is scaled by 3000 and the next weights undo it. The function is
    equal, but one scale no longer fits all channels.
    """
    recipe = tiny_recipe(kind, features, decoder=decoder)
    if spoil is not None:
        assert isinstance(recipe.model, Vocoder)
        block = recipe.model.get_submodule(spoil)
        with torch.no_grad():
            block.scale.fill_(1.0)
            block.norm.weight[0] *= 3000.0
            block.norm.bias[0] *= 3000.0
            block.expand.weight[:, 0] /= 3000.0
    if isinstance(recipe.model, SourceFilter):
        with torch.no_grad():
            recipe.model.out.weight *= 10.0  # initial filters hardly change
    save_model(folder, recipe.model.state_dict(), recipe.description() | {"provenance": {}})
    return folder


def quantise(kind: str, features: Path, folder: Path, config: QuantizeConfig = CONFIG) -> PostTrained:
    codes = tiny_codes(features) if kind == "language_model" else None
    return post_train(kind, folder, features, settings(kind)[1], config, codes)


def frames_of(features: Path, split: str, count: int) -> list[torch.Tensor]:
    store = FeatureStore.open(features)
    audio, known = store.audio, [store.mel_and_pitch(int(item)).T[None] for item in spread(store, split, count)]
    return [torch.from_numpy(SourceRows(audio.sample_rate, audio.hop).append(each)) for each in known]


def test_a_scale_is_the_largest_value_over_127(features: Path, tmp_path: Path) -> None:
    model, _ = load_model(write_float("vocoder", features, tmp_path / "float"), "vocoder")
    frames = frames_of(features, "train", 3)
    scales = calibrate(model, quantizable(model), lambda m: [m(each) for each in frames])
    largest = max(float(each[:, :-SOURCE_ROWS].abs().max()) for each in frames)
    assert scales["enter"]["input_scale"] == pytest.approx(largest / 127)
    assert set(scales["enter"]) == {"input_scale", "output_scale"}
    assert set(scales["out"]) == {"input_scale"}


def test_a_layer_that_does_not_bear_int8_is_named_and_stays_float(features: Path, tmp_path: Path) -> None:
    """Judged by the distance to the float vocoder."""
    frames = frames_of(features, "validation", 3)

    def table(folder: Path) -> dict[str, Sensitivity]:
        model, _ = load_model(folder, "vocoder")

        @torch.no_grad()
        def judge(other: torch.nn.Module) -> Judged:
            errors = [float((other(each) - model(each)).square().sum() / model(each).square().sum()) for each in frames]
            return Judged(1.0 + np.array(errors), 1.0 + np.array(errors), "error")

        scales = calibrate(model, quantizable(model), lambda m: [m(each) for each in frames])
        return {row.layer: row for row in sensitivity_of(model, scales, judge, 0.5, "vocoder")}

    sound = table(write_float("vocoder", features, tmp_path / "sound"))
    spoiled = table(write_float("vocoder", features, tmp_path / "spoiled", spoil="stack.blocks.1"))
    assert not any(row.stays_float for row in sound.values())
    assert [name for name, row in spoiled.items() if row.stays_float] == ["stack.blocks.1.expand"]
    assert spoiled["stack.blocks.1.expand"].loss_percent > 10 * max(row.loss_percent for row in sound.values())


def test_a_sensitive_layer_is_float_in_what_ships(features: Path, tmp_path: Path) -> None:
    folder = write_float("vocoder", features, tmp_path / "float")
    worst = max(quantise("vocoder", features, folder).sensitivity, key=lambda row: row.loss_percent)
    found = quantise("vocoder", features, folder, dataclasses.replace(CONFIG, max_layer_loss=worst.loss_percent - 1e-9))
    assert [row.layer for row in found.sensitivity if row.stays_float] == [worst.layer]
    assert found.description["quantization"]["float_layers"] == [worst.layer]
    shipped, report = decide(found, None, dataclasses.replace(CONFIG, method="ptq"))
    assert (shipped, report["figures"]["qat"]) == ("ptq", "not run: quantize.method is ptq")
    assert {"log_mel_db", "loss_percent"} <= report["sensitivity"][0].keys()
    share = worst.weights / sum(row.weights for row in found.sensitivity)
    assert report["sentence"].endswith(
        f"; {share:.1%} of the weights stay float: {worst.layer} ({4 * worst.weights:,} bytes)"
    )
    assert set(quantized(found.model)) == {row.layer for row in found.sensitivity} - {worst.layer}


@pytest.mark.parametrize(("kind", "decoder"), [*((kind, "regression") for kind in RECIPES), ("acoustic", "flow")])
def test_a_saved_int8_model_is_the_one_that_was_judged(kind: str, decoder: str, features: Path, tmp_path: Path) -> None:
    found = quantise(kind, features, write_float(kind, features, tmp_path / "float", decoder))
    found.save(tmp_path / "int8")
    loaded, description = load_model(tmp_path / "int8", kind)
    assert set(quantized(loaded)) == set(description["quantization"]["layers"])
    again = found.judge(loaded)
    np.testing.assert_array_equal(again.loss, found.as_ptq.loss)
    np.testing.assert_array_equal(again.error, found.as_ptq.error)
    assert not np.array_equal(again.loss, found.as_float.loss), "nothing was quantised"


def test_language_models_are_compared_on_one_alignment_by_their_wrong_codes(features: Path, tmp_path: Path) -> None:
    found = quantise("language_model", features, write_float("language_model", features, tmp_path / "float"))
    assert found.as_float.measure == "wrong_codes_percent"
    assert np.all((found.as_float.error >= 0) & (found.as_float.error <= 100))
    assert not {"prior", "advance"} & set(quantized(found.model))
    deaf, _ = load_model(tmp_path / "float", "language_model")
    with torch.no_grad():
        deaf.get_submodule("prior").weight.zero_()
        deaf.get_submodule("code").weight.zero_()
    judged = found.judge(deaf)
    assert not np.array_equal(judged.loss, found.as_float.loss)


def figures(mean: float, seed: int, spread: float) -> Judged:
    difficulty = np.random.default_rng(0).normal(1.0, 0.2, 31)
    loss = difficulty + mean + np.random.default_rng(seed).normal(0.0, spread, 31)
    return Judged(loss, loss, "error")


def test_trained_weights_ship_only_where_they_are_better_beyond_the_interval() -> None:
    ptq = figures(0.0, 1, 0.01)
    assert choose(above(figures(-0.01, 2, 0.01), ptq))[0] == "qat"
    shipped, why = choose(above(figures(-0.001, 2, 0.02), ptq))
    assert shipped == "ptq" and "no improvement" in why
    assert choose(above(figures(0.01, 2, 0.01), ptq))[0] == "ptq"


def test_auto_trains_only_where_calibration_fails_its_limit() -> None:
    near, far = ({"loss_percent": 0.8, "loss_percent_ci95": [0.7, high]} for high in (0.9, 1.1))
    assert "+0.80 % (paired 95 % interval +0.70 to +0.90), at most 1 %" in str(CONFIG.why_not_trained("vocoder", near))
    assert CONFIG.why_not_trained("vocoder", far) is None
    others = dataclasses.replace(CONFIG, auto_trains=["acoustic"])
    assert "vocoder is not in quantize.auto_trains" in str(others.why_not_trained("vocoder", far))
    assert dataclasses.replace(others, method="qat").why_not_trained("vocoder", near) is None
    assert "a codec is not trained further" in str(CONFIG.why_not_trained("codec", far))
    assert "method is ptq" in str(dataclasses.replace(CONFIG, method="ptq").why_not_trained("vocoder", far))
