"""Fine-tuning from a trained model; mismatches are named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.training import checkpoint
from sonorant.training.initial import Initial, read_initial
from sonorant.training.run_directory import read_metrics
from sonorant.training.trainer import Trainer
from sonorant.training.worker import start_from
from tasks.initial import find_initial
from testbed.tiny_training import tiny_recipe
from tests.support.stores import edit_index
from tests.training.trainings import ALONE, trainer_of

pytestmark = pytest.mark.usefixtures("alone")


def trained(kind: str, features: Path, run: Path, /, **changes: Any) -> Trainer:
    trainer = trainer_of(tiny_recipe(kind, features, **changes), run)
    assert trainer.train() == "finished"
    return trainer


def with_speakers(features: Path, to: Path, speakers: list[str], symbols: list[str] | None = None) -> Path:
    """A copy of the store with these speakers in rotation and different mel statistics."""
    shutil.copytree(features, to)
    header = json.loads((to / "header.json").read_text())
    edit_index(
        to,
        lambda rows: [{**row, "speaker": number % len(speakers)} for number, row in enumerate(rows)],
        speakers=speakers,
        symbols=symbols or header["symbols"],
        mel_mean=header["mel_mean"] + 1.0,
    )
    return to


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("acoustic", {"decoder": "flow"}),
        ("vocoder", {}),
        ("codec", {"kind": "source_filter"}),
        ("language_model", {}),
    ],
)
def test_fine_tuning_starts_at_the_validation_loss_of_what_it_starts_from(
    kind: str, changes: dict[str, Any], features: Path, tmp_path: Path
) -> None:
    first = trained(kind, features, tmp_path / "run", **changes)
    newest = checkpoint.existing(first.run.checkpoints)[0]
    read_initial(newest, kind).write(tmp_path / "initial.ckpt")
    recipe = tiny_recipe(kind, features, init_from=str(newest), **changes)
    start_from(recipe, tmp_path / "initial.ckpt", ALONE)
    tuned = trainer_of(recipe, tmp_path / "tuned", "g")
    tuned.train()
    before = [row["metrics"] for row in read_metrics(first.run.metrics) if "validation/loss" in row["metrics"]][-1]
    [after] = [row["metrics"] for row in read_metrics(tuned.run.metrics) if row["step"] == 0]
    assert {name: before[name] for name in after} == pytest.approx(after, rel=1e-5)


def test_average_checkpoints_and_folders_hold_the_same(features: Path, tmp_path: Path) -> None:
    run = trained("vocoder", features, tmp_path / "run", steps=4).run
    newest, older = checkpoint.existing(run.checkpoints)
    paths = (run.path, newest, run.checkpoints / checkpoint.BEST, older)
    folder, *same, other = (read_initial(path, "vocoder").content() for path in paths)
    assert same == [folder, folder]
    assert other != folder, "other weights are another training"


def test_a_new_speaker_starts_from_the_mean_and_the_others_keep_their_voice(features: Path, tmp_path: Path) -> None:
    old = trained("acoustic", features, tmp_path / "run").trained.ema.module.state_dict()
    symbols = json.loads((features / "header.json").read_text())["symbols"]
    turned = ["new-symbol", *reversed(symbols)]
    recipe = tiny_recipe("acoustic", with_speakers(features, tmp_path / "more", ["low", "carla", "high"], turned))
    taken = recipe.start_from(read_initial(tmp_path / "run", "acoustic"))
    new = recipe.model.state_dict()
    rows = old["speaker.weight"]
    torch.testing.assert_close(new["speaker.weight"], torch.stack([rows[1], rows.mean(0), rows[0]]))
    torch.testing.assert_close(new["symbol.weight"][:3], old["symbol.weight"][:3])
    torch.testing.assert_close(new["symbol.weight"][4:], old["symbol.weight"][3:].flip(0))
    assert new["mel_mean"] == old["mel_mean"], "the weights speak in the old statistics' units"
    assert recipe.description()["mel_mean"] == pytest.approx(float(old["mel_mean"]))
    assert taken.new_rows == {"speakers": ("carla",), "symbols": ("new-symbol",)}
    assert "new speakers, initialised with the mean of the others: carla" in "\n".join(taken.lines)


def test_the_old_statistics_of_the_mel_stay_with_a_codecs_weights(features: Path, tmp_path: Path) -> None:
    old = trained("codec", features, tmp_path / "run", steps=1).trained.ema.module.state_dict()
    speakers = json.loads((features / "header.json").read_text())["speakers"]
    recipe = tiny_recipe("codec", with_speakers(features, tmp_path / "other", speakers))
    recipe.start_from(read_initial(tmp_path / "run", "codec"))
    assert recipe.model.state_dict()["mel_mean"] == old["mel_mean"]
    assert recipe.description()["mel_mean"] == pytest.approx(float(old["mel_mean"]))


def test_mismatching_layers_are_listed_by_name_with_both_shapes(features: Path, tmp_path: Path) -> None:
    trained("acoustic", features, tmp_path / "run", steps=1)
    recipe = tiny_recipe("acoustic", features, decoder_kernel=5, decoder_blocks=3)
    untouched = {name: value.clone() for name, value in recipe.model.state_dict().items()}
    taken = recipe.start_from(read_initial(tmp_path / "run", "acoustic"))
    said = taken.lines
    assert said[0].endswith(f"{len(taken.fitting)} of {len(untouched)} layers copied")
    assert any("(16, 1, 3) there, (16, 1, 5) here; starts from random weights" in line for line in said)
    assert taken.anew and all(name.startswith("decoder.") for name in taken.anew)
    for name in taken.anew:
        assert torch.equal(recipe.model.state_dict()[name], untouched[name])


def test_what_can_align_is_not_pulled_to_the_diagonal(features: Path, tmp_path: Path) -> None:
    trained("acoustic", features, tmp_path / "run", steps=1)
    initial = read_initial(tmp_path / "run", "acoustic")
    for changes, pulled in (({"decoder_blocks": 1}, 0), ({"encoder_kernel": 5}, 4)):
        recipe = tiny_recipe("acoustic", features, **changes)
        recipe.start_from(initial)
        assert {phase.module.diagonal_steps for phase in recipe.phases} == {pulled}


def test_nonsense_is_refused_in_one_line(features: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "train_vocoder" / "f"
    trained("vocoder", features, run, steps=1)
    (tmp_path / "noise.ckpt").write_bytes(b"noise" * 100)
    (tmp_path / "empty" / "checkpoints").mkdir(parents=True)
    (tmp_path / "voice").mkdir()
    (tmp_path / "voice" / "voice.json").write_text(json.dumps({"provenance": {"acoustic": {"fingerprint": "gone"}}}))
    cases = {
        "absent": "does not exist",
        "": "is not a checkpoint",
        "noise.ckpt": "noise.ckpt is damaged",
        "empty": "has no checkpoint yet",
        str(run): "kind 'vocoder', not 'acoustic'",
        "voice": "is not on this machine",
        "out/model": "is the output of this stage",
    }
    for named, message in cases.items():
        with pytest.raises(SonorantError, match=message) as refused:
            find_initial(str(tmp_path / named), "acoustic", tmp_path / "runs", tmp_path / "out" / "model")
        assert "\n" not in str(refused.value)
    with pytest.raises(SonorantError, match=r"no weights of .* match this model"):
        tiny_recipe("vocoder", features, channels=24).start_from(read_initial(run, "vocoder"))


def test_a_bundle_leads_to_the_run_it_came_from(features: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "train_vocoder" / "0123"
    trained("vocoder", features, run, steps=1)
    (tmp_path / "voice").mkdir()
    (tmp_path / "voice" / "voice.json").write_text(json.dumps({"provenance": {"vocoder": {"fingerprint": "0123"}}}))
    found = find_initial(str(tmp_path / "voice"), "vocoder", tmp_path / "runs", tmp_path / "out")
    assert isinstance(found, Initial)
    assert found.content() == read_initial(run, "vocoder").content()


def test_weights_that_are_not_finite_are_refused(features: Path, tmp_path: Path) -> None:
    newest = checkpoint.existing(trained("acoustic", features, tmp_path / "run").run.checkpoints)[0]
    state = checkpoint.load(newest)
    state["ema"]["module.symbol.weight"][3, 1] = float("inf")
    checkpoint.save(newest, state)
    with pytest.raises(SonorantError, match=rf"init_from: {newest}: weight symbol\.weight is NaN or infinite; name"):
        find_initial(str(newest), "acoustic", tmp_path, tmp_path / "out")
