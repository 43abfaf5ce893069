"""Added speakers: only their embeddings train at first, and other weights stay bit-identical."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic_training import AcousticTrainConfig
from sonorant.features.codes import CodeStore
from sonorant.features.feature_store import FeatureStore
from sonorant.training.initial import Initial
from sonorant.training.recipe import Recipe
from testbed.tiny_training import settings, tiny_codes, tiny_recipe
from tests.training.test_initial import with_speakers
from tests.training.trainings import assert_resumes, batches_of, trainer_of

PREDICTORS = ["acoustic", "language_model"]
STEPS = 4


@pytest.fixture(scope="module")
def three(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The features of two speakers with a third speaker."""
    return with_speakers(features, tmp_path_factory.mktemp("three") / "features", ["new", "high", "low"])


def base(kind: str, features: Path) -> Initial:
    """A trained model of two speakers with random weights."""
    recipe = tiny_recipe(kind, features, seed=2)
    return Initial(source="the base", weights=recipe.model.state_dict(), description=recipe.description())


def tuned(kind: str, features: Path, store: Path, **changes: Any) -> Recipe:
    """Fine-tune `base` on different features."""
    initial = base(kind, features)
    if kind == "language_model":
        codec = {"codec": CodeStore.open(tiny_codes(store), FeatureStore.open(store)).codec}
        initial = replace(initial, description=initial.description | codec)
    recipe = tiny_recipe(kind, store, **{"init_from": "the base", "steps": STEPS} | changes)
    recipe.start_from(initial)
    return recipe


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize("kind", PREDICTORS)
def test_frozen_to_the_end_the_table_grows_and_everything_else_stays_to_the_bit(
    kind: str, features: Path, three: Path, tmp_path: Path, alone: None
) -> None:
    trainer = trainer_of(tuned(kind, features, three, freeze_steps=STEPS), tmp_path / "run")
    before, known = weights_of(trainer.recipe.model), base(kind, features).weights["speaker.weight"]
    assert torch.equal(before["speaker.weight"][1:], known), "rows go by name"
    assert trainer.train() == "finished"
    for after in (trainer.recipe.model.state_dict(), trainer.trained.ema.module.state_dict()):
        assert changed(before, after) == {"speaker.weight"}
        assert torch.equal(after["speaker.weight"][1:], known)
        assert not torch.equal(after["speaker.weight"][0], before["speaker.weight"][0]), "the new speaker learned"


def test_the_frozen_steps_teach_an_embedding_how_high_and_how_fast_its_speaker_speaks(
    features: Path, three: Path, alone: None
) -> None:
    """The predictor of pitch and speed trains neither embedding nor encoder afterwards."""
    recipe = tuned("acoustic", features, three, freeze_steps=2)
    _, batches = batches_of(recipe)
    batch = next(batches)
    for step, learns in ((1, True), (2, False)):
        losses = recipe.phases[0].module(batch, step)
        for name in ("duration", "prosody"):
            recipe.model.zero_grad()
            losses[name].backward(retain_graph=True)
            gradient = recipe.model.get_parameter("speaker.weight").grad
            assert (gradient is not None and bool(gradient.any())) is learns, f"{name}, step {step}"


def test_after_the_frozen_steps_all_learn(features: Path, three: Path, tmp_path: Path, alone: None) -> None:
    trainer = trainer_of(tuned("acoustic", features, three, freeze_steps=STEPS - 1), tmp_path / "run")
    before = weights_of(trainer.recipe.model)
    trainer.train()
    after = trainer.recipe.model.state_dict()
    assert {"symbol.weight", "speaker.weight", "prior.weight"} <= changed(before, after)
    assert not torch.equal(before["speaker.weight"][1:], after["speaker.weight"][1:])
    moments = trainer.trained.optimizers["acoustic"].state_dict()["state"].values()
    assert {int(state["step"]) for state in moments} == {1, STEPS}, "the others begin as at a first step"


@pytest.mark.parametrize("frozen", [2, 7])
def test_it_resumes_to_the_bit_before_and_after_all_learn(
    frozen: int, features: Path, three: Path, tmp_path: Path, alone: None
) -> None:
    changes = {"steps": 8, "freeze_steps": frozen}
    assert_resumes(lambda run: trainer_of(tuned("acoustic", features, three, **changes), run), tmp_path, 6)


def test_sets_that_do_not_fit_are_refused_in_one_line(features: Path, three: Path, tmp_path: Path) -> None:
    symbols = ["ʘ", *FeatureStore.open(three).header["symbols"][1:]]
    other = with_speakers(three, tmp_path / "features", ["new", "high", "low"], symbols)
    cases: list[tuple[str, Path, dict[str, Any]]] = [
        (r"freeze_steps 2: the base already has all speakers \(high, low\); set it to 0", features, {}),
        (r"freeze_steps 2: encoder\S+ cannot be copied from the base", three, {"encoder_kernel": 5}),
        (r"freeze_steps 4: the base lacks the phonemes ʘ", other, {"freeze_steps": STEPS}),
    ]
    for message, store, changes in cases:
        with pytest.raises(SonorantError, match=message) as refused:
            tuned("acoustic", features, store, **{"freeze_steps": 2} | changes)
        assert "\n" not in str(refused.value) and str(refused.value).startswith("train_acoustic.")
    with pytest.raises(ValueError, match="freeze_steps is for fine-tuning"):
        tiny_recipe("acoustic", features, freeze_steps=2)
    with pytest.raises(ValueError, match=r"freeze_steps must be at most steps \(4\), not 5"):
        tuned("acoustic", features, three, freeze_steps=5)


def test_a_training_from_scratch_has_no_frozen_steps() -> None:
    """As in int8 training and in `sonorant plan`."""
    tuned = AcousticTrainConfig(**settings("acoustic")[1] | {"init_from": "the base", "freeze_steps": 8})
    assert (tuned.from_scratch().init_from, tuned.from_scratch().freeze_steps) == (None, 0)
