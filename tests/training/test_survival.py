"""A training continues under changed code; a finished one only rewrites its model."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tasks.training
from sonorant.plugins import model_kind
from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory
from sonorant.training.worker import Job, work
from testbed.tiny_training import settings
from tests.training.trainings import ALONE

SMALL = {"steps": 4, "checkpoint_every": 2, "validate_every": 4, "channels": 4, "decoder_blocks": 1}
Train = Callable[..., Job]


@pytest.fixture
def train(features: Path, tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch) -> Train:
    """train(code, fresh=False, **changes) -> job of a tiny codec trained here."""
    jobs: list[Job] = []

    def launch(job: Job) -> None:
        jobs.append(job)
        work(job, ALONE)

    monkeypatch.setattr(tasks.training, "launch", launch)
    # Releases the lock, because one process plays several trainers.
    monkeypatch.setattr(RunDirectory, "lock", lambda run: None)
    monkeypatch.setattr(tasks.training, "stage_run", lambda *given: contextlib.nullcontext())

    def train(code: str, fresh: bool = False, **changes: Any) -> Job:
        monkeypatch.setattr(tasks.training, "code_in_use", lambda: code)
        model, train = settings("codec", **SMALL | changes)
        folders = {"features": features, "runs": tmp_path / "runs", "out": tmp_path / "model"}
        assert tasks.training.train("codec", model, train, **folders, fresh=fresh)
        return jobs[-1]

    return train


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def provenance(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "model.json").read_text())["provenance"]


def test_a_finished_training_writes_the_same_model_again_under_other_code(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = train("one")
    before = files(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    monkeypatch.setattr("sonorant.training.step.TrainStep.take", lambda *_: pytest.fail("a step was taken"))
    assert train("two").run == first.run
    assert files(tmp_path / "model") == before
    assert provenance(tmp_path / "model")["code"] == "one"


def test_a_resume_under_other_code_says_so_once(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    newest, older = checkpoint.existing(Path(train("one").run) / "checkpoints")
    newest.unlink()
    capsys.readouterr()
    train("two")
    lines = [line for line in capsys.readouterr().out.splitlines() if "other code" in line]
    assert len(lines) == 1 and ", code one before, " in lines[0] and lines[0].endswith(", code two now")
    assert provenance(tmp_path / "model")["code"] == "two"
    assert [checkpoint.load(path)["provenance"]["code"] for path in (newest, older)] == ["two", "one"]


def test_settings_data_and_version_name_the_run_directory(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {train("one").run, train("one", learning_rate=1e-3).run, train("one", channels=6).run}
    monkeypatch.setattr(type(model_kind("codec")), "VERSION", 2)
    runs.add(train("one").run)
    monkeypatch.setattr(tasks.training, "hash_of", lambda features: "other data")
    assert len(runs | {train("one").run}) == 5


def test_more_steps_are_a_new_training_and_say_how_to_go_on(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    first = train("one").run
    for changes, begun in (({"steps": 6}, 1), ({"steps": 6}, 0), ({"steps": 6, "init_from": first}, 0)):
        capsys.readouterr()
        train("one", **changes)
        lines = [line for line in capsys.readouterr().out.splitlines() if "a new training" in line]
        assert len(lines) == begun
        if lines:
            assert lines[0].startswith("train_codec: steps is 6, was 4: a new training from step 0;")
            assert lines[0].endswith(f"set train_codec.init_from to {first}")


def test_fresh_moves_the_old_run_aside_and_trains_anew(train: Train, tmp_path: Path) -> None:
    run = Path(train("one").run)
    kept = files(run / "checkpoints")
    assert Path(train("two", fresh=True).run) == run
    assert files(run.with_name(f"{run.name}.before-1") / "checkpoints") == kept
    assert provenance(tmp_path / "model")["code"] == "two"
    train("three", fresh=True)
    assert run.with_name(f"{run.name}.before-2").exists()
    shutil.rmtree(run)
    assert provenance(tmp_path / "model")["code"] == "three"
    train("four")
    assert provenance(tmp_path / "model")["code"] == "four", "what was moved aside is not found any more"
