"""Added speakers: only their embeddings train at first, and other weights stay bit-identical."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic_training import AcousticTrainConfig
from sonorant.features.feature_store import FeatureStore
from sonorant.training.initial import Initial
from sonorant.training.newcomers import Newcomers
from sonorant.training.recipe import Recipe
from tasks.fingerprint import in_use
from testbed.tiny_training import settings, tiny_codes, tiny_recipe
from tests.support.stores import edit_index
from tests.training.test_initial import with_speakers
from tests.training.trainings import assert_resumes, batches_of, trainer_of

PREDICTORS = ["acoustic", "language_model"]
STEPS = 4


@pytest.fixture(scope="module")
def three(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The features of s0 and s1 with a third speaker."""
    return with_speakers(features, tmp_path_factory.mktemp("three") / "features", ["new", "s0", "s1"])


def base(kind: str, features: Path) -> Initial:
    """A model of s0 and s1 with random weights."""
    recipe = tiny_recipe(kind, features, seed=2)
    return Initial(source="the base", weights=recipe.model.state_dict(), description=recipe.description())


def tuned(kind: str, features: Path, store: Path, **changes: Any) -> Recipe:
    """Fine-tune `base` on other features."""
    initial = base(kind, features)
    if kind == "language_model":
        codec = {"codec": initial.description["codec"] | {"sha256": sha256_of_codec(store)}}
        initial = Initial(source=initial.source, weights=initial.weights, description=initial.description | codec)
    recipe = tiny_recipe(kind, store, **{"init_from": "the base", "steps": STEPS} | changes)
    recipe.start_from(initial)
    return recipe


def sha256_of_codec(store: Path) -> str:
    from sonorant.features.codes import CodeStore

    return str(CodeStore.open(tiny_codes(store), FeatureStore.open(store)).codec["sha256"])


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


@pytest.mark.parametrize("kind", PREDICTORS)
def test_after_the_frozen_steps_all_learn(kind: str, features: Path, three: Path, tmp_path: Path, alone: None) -> None:
    trainer = trainer_of(tuned(kind, features, three, freeze_steps=STEPS - 1), tmp_path / "run")
    before = weights_of(trainer.recipe.model)
    trainer.train()
    after = trainer.recipe.model.state_dict()
    assert {"symbol.weight", "speaker.weight", "prior.weight"} <= changed(before, after)
    assert not torch.equal(before["speaker.weight"][1:], after["speaker.weight"][1:])
    moments = trainer.trained.optimizers[kind].state_dict()["state"].values()
    assert {int(state["step"]) for state in moments} == {1, STEPS}, "the others begin as at a first step"


@pytest.mark.parametrize("frozen", [2, 7, 8])
@pytest.mark.parametrize("kind", PREDICTORS)
def test_it_resumes_to_the_bit_before_and_after_all_learn(
    kind: str, frozen: int, features: Path, three: Path, tmp_path: Path, alone: None
) -> None:
    assert_resumes(lambda run: trainer_of(tuned(kind, features, three, steps=8, freeze_steps=frozen), run), tmp_path, 6)


def test_weights_decay_of_newcomers_alone() -> None:
    embedding = torch.nn.Embedding(3, 2)
    optimizer = torch.optim.AdamW(embedding.parameters(), weight_decay=0.5)
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([0, 1])).sum().backward()
    with Newcomers(steps=1, embedding=embedding, rows=(0,)).alone(embedding, step=0):
        optimizer.step()
    assert torch.equal(embedding.weight[1:], before[1:]) and not torch.equal(embedding.weight[0], before[0])


@pytest.mark.parametrize("kind", PREDICTORS)
def test_sets_that_do_not_fit_are_refused_in_one_line(kind: str, features: Path, three: Path, tmp_path: Path) -> None:
    symbols = ["ʘ", *FeatureStore.open(three).header["symbols"][1:]]
    other = with_speakers(three, tmp_path / "features", ["new", "s0", "s1"], symbols)
    cases: list[tuple[str, Path, dict[str, Any]]] = [
        (r"freeze_steps 2: the base knows every speaker here \(s0, s1\); set it to 0", features, {}),
        (r"freeze_steps 2: encoder\S+ cannot be taken from the base", three, {"encoder_kernel": 5}),
        (r"freeze_steps 4: the base does not know the phonemes ʘ", other, {"freeze_steps": STEPS}),
    ]
    for message, store, changes in cases:
        with pytest.raises(SonorantError, match=message) as refused:
            tuned(kind, features, store, **{"freeze_steps": 2} | changes)
        assert "\n" not in str(refused.value) and str(refused.value).startswith(f"train_{kind}.")
    with pytest.raises(ValueError, match="freeze_steps is for fine-tuning"):
        tiny_recipe(kind, features, freeze_steps=2)
    with pytest.raises(ValueError, match=r"freeze_steps must be from 0 to steps \(4\), not 5"):
        tuned(kind, features, three, freeze_steps=5)


def test_speakers_who_are_left_out_are_named(features: Path, tmp_path: Path) -> None:
    store = with_speakers(features, tmp_path / "features", ["new", "s1"])
    said = tiny_recipe("acoustic", store).start_from(base("acoustic", features)).says()
    assert "  speakers left out, of whom no recording is here: s0" in said
    assert "  new speakers, from the mean of the others: new" in said


def test_no_frozen_steps_are_the_training_of_before() -> None:
    train = settings("acoustic")[1]
    assert in_use(train | {"freeze_steps": 0}) == in_use(train)
    assert in_use(train | {"freeze_steps": 1}) != in_use(train)


def test_a_training_from_scratch_has_no_frozen_steps() -> None:
    """As in int8 training and in `sonorant plan`."""
    tuned = AcousticTrainConfig(**settings("acoustic")[1] | {"init_from": "the base", "freeze_steps": 8})
    assert (tuned.from_scratch().init_from, tuned.from_scratch().freeze_steps) == (None, 0)


@pytest.mark.parametrize("kind", ["acoustic", "vocoder"])
def test_speakers_that_are_heard_more_often_resume_to_the_bit(
    kind: str, features: Path, tmp_path: Path, alone: None
) -> None:
    store = FeatureStore.open(features)
    uneven = with_speakers(features, tmp_path / "features", ["much", "little"])
    speakers = [int(number >= len(store) - 8) for number in range(len(store))]
    edit_index(uneven, lambda rows: [row | {"speaker": own} for row, own in zip(rows, speakers, strict=True)])
    recipe = tiny_recipe(kind, uneven, speaker_balance=1.0)
    heard = np.concatenate([batch.items for batch in recipe.plan.micro_batches(0)])
    assert len(np.unique(heard)) < len(heard), "some are heard twice"
    assert_resumes(lambda run: trainer_of(tiny_recipe(kind, uneven, speaker_balance=1.0), run), tmp_path / "runs", 6)
