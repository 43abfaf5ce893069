"""The vocoder learns on from what the acoustic model says, in time with the recordings; the stage resumes, is off
unless it is asked for, and names the family that has no such phase."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic import AcousticModel
from sonorant.families.parallel.acoustic_training import VocoderTrainConfig, predicted_mels, say_in_time
from sonorant.features.feature_store import FeatureStore, store_hash
from sonorant.files import read_json, sha256_file
from sonorant.layers.model_folder import load_model, save_model
from sonorant.training.adaptation import AdaptConfig
from sonorant.training.initial import read_initial
from sonorant.training.run_directory import read_metrics
from sonorant.training.trainer import Trainer
from sonorant.training.worker import recipe_of, start_from
from tasks import adapt
from testbed.tiny_training import settings, tiny_job, tiny_recipe
from tests.support.imports import ROOT
from tests.training.trainings import ALONE, assert_resumes, trainer_of


@pytest.fixture(scope="module")
def models(features: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of an acoustic model, a vocoder and a codec of random weights."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("acoustic", "vocoder", "codec"):
        recipe = tiny_recipe(kind, features)
        provenance = {"provenance": {"data": store_hash(features)}}
        save_model(folder / kind, recipe.model.state_dict(), recipe.description() | provenance)
    return {kind: folder / kind for kind in ("acoustic", "vocoder", "codec")}


class Planted(nn.Module):
    """In place of a model's prior: says that each token sounds like its own mel (B, N, M), normalised."""

    def __init__(self, prior_BNM: torch.Tensor) -> None:
        super().__init__()
        self.prior_BNM = prior_BNM

    def forward(self, states_BNC: torch.Tensor) -> torch.Tensor:
        return self.prior_BNM


@torch.no_grad()
def spoken(model: AcousticModel, tokens: int = 9, seed: int = 3) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A recording in which each token sounds like nothing else for a random number of frames: a batch of one, and these
    durations (1, N). The model knows how each token sounds."""
    torch.manual_seed(seed)
    durations_N = torch.randint(1, 12, (tokens,))
    sounds_NM = torch.randn(tokens, model.mels) * 2.0 - 5.0
    frames = int(durations_N.sum())
    mel_1TM = sounds_NM.repeat_interleave(durations_N, dim=0)[None]
    model.prior = Planted(model.normalize(sounds_NM)[None])
    batch = {
        "tokens": torch.randint(0, 2, (1, tokens, 3)),
        "token_lengths": torch.tensor([tokens]),
        "mel": mel_1TM,
        "pitch": torch.stack([torch.rand(1, frames) - 0.5, torch.rand(1, frames)], dim=2),
        "mel_lengths": torch.tensor([frames]),
        "speaker": torch.tensor([0]),
    }
    return batch, durations_N[None]


@pytest.mark.parametrize("decoder", ["regression", "flow"])
@torch.no_grad()
def test_each_token_is_said_while_the_recording_says_it(decoder: str, features: Path) -> None:
    model = cast(AcousticModel, tiny_recipe("acoustic", features, decoder=decoder).model).eval()
    batch, durations_1N = spoken(model)
    said_1TM = say_in_time(model, batch)
    assert said_1TM.shape == batch["mel"].shape
    encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
    told_1N2, _ = model.prosody_of(batch["mel"], batch["pitch"], durations_1N)
    states, time_T = model.states(encoded, batch["speaker"], told_1N2), torch.arange(said_1TM.shape[1])
    wanted_1TM = model.decode(states, durations_1N.cumsum(1), time_T)[:, : model.mels].transpose(1, 2)
    torch.testing.assert_close(said_1TM, wanted_1TM)
    even_1N = torch.full_like(durations_1N, said_1TM.shape[1] // durations_1N.shape[1])
    uneven_1TM = model.decode(states, even_1N.cumsum(1), time_T)[:, : model.mels].transpose(1, 2)
    assert (said_1TM - uneven_1TM).abs().mean() > 0.01, "when a token is said makes no difference here"


@torch.no_grad()
def test_what_the_model_guesses_of_length_and_melody_changes_nothing(features: Path) -> None:
    model = cast(AcousticModel, tiny_recipe("acoustic", features).model).eval()
    batch, _ = spoken(model)
    before = say_in_time(model, batch)
    model.prosody.out.weight.normal_()
    model.prosody.out.bias.normal_()
    assert torch.equal(say_in_time(model, batch), before)
    higher = batch | {"pitch": batch["pitch"] + torch.tensor([1.0, 0.0])}
    assert (say_in_time(model, higher) - before).abs().mean() > 1e-4, "the recording's pitch is not told"


def test_every_recording_is_said_in_its_length(features: Path, models: dict[str, Path]) -> None:
    store = FeatureStore.open(features)
    said = list(predicted_mels(models["acoustic"], store))
    assert [mel.shape for mel in said] == [store.mel(i).shape for i in range(len(store))]
    assert all(np.isfinite(mel).all() for mel in said)


def test_a_model_of_other_symbols_is_refused(features: Path, models: dict[str, Path], tmp_path: Path) -> None:
    for file in features.iterdir():
        (tmp_path / file.name).symlink_to(file)
    header = read_json(features / "header.json")
    (tmp_path / "header.json").unlink()
    (tmp_path / "header.json").write_text(json.dumps(header | {"symbols": header["symbols"][::-1]}))
    with pytest.raises(SonorantError, match=r"acoustic: trained with other symbols than .*; run: dvc repro"):
        next(predicted_mels(models["acoustic"], FeatureStore.open(tmp_path)))


def test_an_adaptation_that_was_killed_ends_as_one_that_was_not(
    features: Path, models: dict[str, Path], tmp_path: Path, alone: None
) -> None:
    spoken = adapt.predicted_features("vocoder", features, models["acoustic"], tmp_path)
    train = AdaptConfig(steps=6, learning_rate=1e-3).continued(VocoderTrainConfig(**settings("vocoder")[1]), "there")
    changes: dict[str, Any] = {"steps": train.steps, "adversarial": True, "adversarial_share": train.adversarial_share}
    changes |= {"warmup_steps": train.warmup_steps, "learning_rate": train.learning_rate, "adversarial_frames": 20}
    job = tiny_job("vocoder", spoken, tmp_path, **changes)
    read_initial(models["vocoder"], "vocoder").write(tmp_path / "initial.ckpt")

    def trainer(run: Path) -> Trainer:
        recipe = recipe_of(job)
        start_from(recipe, tmp_path / "initial.ckpt", ALONE)
        return trainer_of(recipe, run)

    assert_resumes(trainer, tmp_path, 4)


def test_discriminators_judge_from_the_first_step() -> None:
    trained = VocoderTrainConfig(**settings("vocoder", adversarial=True, adversarial_share=0.3, steps=100)[1])
    changed = AdaptConfig(steps=40, learning_rate=3e-4).continued(trained, "there")
    assert (changed.steps, changed.warmup_steps, changed.adversarial_from, changed.learning_rate) == (40, 4, 0, 3e-4)


@pytest.mark.parametrize("changes", [{"steps": -1}, {"learning_rate": 0.0}])
def test_settings_that_contradict_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        AdaptConfig(**{"steps": 1, "learning_rate": 1e-3} | changes)


def test_what_a_model_learned_from_last_is_found_again(features: Path, models: dict[str, Path], tmp_path: Path) -> None:
    """`quantize` calibrates and trains on with it: with the recordings' mels it would unlearn the adaptation."""
    where = (features, models["acoustic"], tmp_path)
    assert adapt.learned_from(models["vocoder"], *where) == features
    spoken = adapt.predicted_features("vocoder", features, models["acoustic"], tmp_path)
    adapted = tmp_path / "adapted"
    model, description = load_model(models["vocoder"], "vocoder")
    save_model(adapted, model.state_dict(), description | {"provenance": {"data": store_hash(spoken)}})
    assert adapt.learned_from(adapted, *where) == spoken


def project_in(folder: Path, changes: dict[str, dict[str, Any]]) -> Path:
    """The project in `folder`, with changes to its settings by section."""
    for name in ("sonorant", "tasks", "dvc.yaml"):
        (folder / name).symlink_to(ROOT / name)
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for section, values in changes.items():
        params[section] |= values
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return folder


def arguments(features: Path, models: dict[str, Path], kind: str) -> list[str]:
    given = {"features": features, "predictor": models["acoustic"], "waveform": models[kind], "runs": "runs"}
    return [*(f"--{name}={path}" for name, path in given.items()), "--out=adapted"]


def files_of(folder: Path) -> dict[str, str]:
    return {path.name: sha256_file(path) for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("kind", "steps", "why"),
    [
        ("vocoder", 0, "vocoder: stays as it was trained: adapt.steps is 0"),
        ("codec", 20, "codec: stays as it was trained: a language model has learned the codec's codes"),
    ],
)
def test_a_model_that_is_not_adapted_stays_as_it_was_to_the_bit(
    kind: str, steps: int, why: str, features: Path, models: dict[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(project_in(tmp_path, {"adapt": {"steps": steps}}))
    monkeypatch.setattr(sys, "argv", ["adapt", *arguments(features, models, kind)])
    adapt.main()
    assert why in capsys.readouterr().out
    assert files_of(tmp_path / "adapted") == files_of(models[kind])
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_the_stage_adapts_and_finds_what_it_did(features: Path, models: dict[str, Path], tmp_path: Path) -> None:
    small = {"segments_per_micro_batch": 2, "segment_frames": 32, "adversarial_frames": 20, "precision": "fp32"}
    project = project_in(tmp_path, {"adapt": {"steps": 3}, "train_vocoder": small})
    run(project, arguments(features, models, "vocoder"))
    first = files_of(project / "adapted")
    [made] = [path for path in (project / "runs/predicted").iterdir() if path.is_dir()]
    provenance = read_json(project / "adapted/model.json")["provenance"]
    assert first["weights.pt"] != sha256_file(models["vocoder"] / "weights.pt")
    assert (provenance["data"], provenance["steps"]) == (store_hash(made), 3)
    assert provenance["init_from"]["source"] == str(models["vocoder"])
    [trained] = (project / "runs/adapt_vocoder").iterdir()
    assert trained.name == provenance["fingerprint"]
    figures = [row["metrics"] for row in read_metrics(trained / "metrics.jsonl")]
    assert "validation/loss" in figures[0], "what it has to beat"
    assert any("train/gradient_norm_discriminator" in row for row in figures), "nobody judged it"
    run(project, arguments(features, models, "vocoder"))
    assert files_of(project / "adapted") == first
    assert list((project / "runs/adapt_vocoder").iterdir()) == [trained]


def run(project: Path, given: list[str]) -> None:
    one = {"PET_NPROC_PER_NODE": "1", "OMP_NUM_THREADS": "1"}
    env = {**os.environ, **one, "MLFLOW_TRACKING_URI": f"sqlite:///{project}/mlflow.db"}
    done = subprocess.run(
        [sys.executable, "-m", "tasks.adapt", *given], cwd=project, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
