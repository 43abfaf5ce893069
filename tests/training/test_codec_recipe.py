from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.codec_training import PITCH_WEIGHT
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.families.parallel.vocoder import Vocoder
from sonorant.features.codes import CodeStore, write_codes
from sonorant.layers.model_folder import save_model
from sonorant.training.recipe import Term
from testbed.tiny_training import settings, tiny_recipe
from tests.training.trainings import batches_of, step_of, trainer_of


def test_losses_and_batches_are_the_vocoders(features: Path) -> None:
    codec, vocoder = tiny_recipe("codec", features), tiny_recipe("vocoder", features)
    assert isinstance(codec.model, Codec) and isinstance(vocoder.model, Vocoder)
    assert codec.phases[0].terms == vocoder.phases[0].terms
    source = tiny_recipe("codec", features, kind="source_filter")
    assert source.phases[0].terms == vocoder.phases[0].terms | {"pitch": Term(PITCH_WEIGHT, "segments")}
    planned = [recipe.plan.micro_batches(3) for recipe in (codec, vocoder)]
    for first, second in zip(*planned, strict=True):
        assert np.array_equal(first.items, second.items) and np.array_equal(first.starts, second.starts)
    assert codec.description()["kind"] == "codec"
    assert codec.description()["config"] == asdict(CodecConfig(**settings("codec")[0]))


@pytest.mark.parametrize("kind", ["vocos", "source_filter"])
def test_all_weights_get_gradients_through_the_codes(kind: str, features: Path, alone: None) -> None:
    step = step_of("codec", features, kind=kind)
    step.gradients(0, *batches_of(step.recipe))
    weights = step.recipe.model.named_parameters()
    assert [name for name, weight in weights if weight.grad is None or not weight.grad.abs().max() > 0] == []


@pytest.mark.parametrize("kind", ["vocos", "source_filter"])
def test_codes_come_to_be_used_and_can_be_stored(kind: str, features: Path, tmp_path: Path, alone: None) -> None:
    recipe = tiny_recipe("codec", features, kind=kind, steps=30, validate_every=15)
    trainer = trainer_of(recipe, tmp_path / "run")
    assert trainer.train() == "finished"
    save_model(tmp_path / "codec", trainer.trained.ema.module.state_dict(), recipe.description())
    codec, _ = load_codec(tmp_path / "codec")
    write_codes(tmp_path / "codes", "codec_lm", recipe.store, codec, "0" * 64)
    codes = CodeStore.open(tmp_path / "codes", recipe.store)
    assert (codes.codebooks, codes.codes_per_stream) == (2, 12)
    assert min(codes.report["use"]) > 0.2
