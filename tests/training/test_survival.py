"""A training survives its code: other code goes on with it, and a finished one only writes its model again."""

from __future__ import annotations

import contextlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tasks.training
from sonorant.families import model_kind
from sonorant.training import checkpoint
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import RunDirectory
from sonorant.training.worker import Job, work
from tasks.fingerprint import find_run
from tests.support.tiny_training import settings, tiny_features

ALONE = Ranks(0, 1, 0, torch.device("cpu"))
BEFORE = Path(__file__).parent / "before" / "train_codec.tar.gz"
"""A run directory as the code of commit 636d795 wrote it, at step 2 of 4."""
OLD_KEY = "0123456789abcdef"
SMALL = {"steps": 4, "checkpoint_every": 2, "validate_every": 4, "channels": 4, "decoder_blocks": 1}
Train = Callable[..., Job]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_features(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def train(corpus: Path, tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch) -> Train:
    """train(code, fresh=False, **changes) -> the job of a tiny codec that `tasks.training` started and trained here."""
    jobs: list[Job] = []

    def launch(job: Job) -> None:
        jobs.append(job)
        work(job, ALONE)

    monkeypatch.setattr(tasks.training, "launch", launch)
    # One process plays several trainers here: a lock that an earlier one left would keep the next waiting for itself.
    monkeypatch.setattr(RunDirectory, "lock", lambda run: None)
    monkeypatch.setattr(tasks.training, "stage_run", lambda *given: contextlib.nullcontext())

    def train(code: str, fresh: bool = False, **changes: Any) -> Job:
        monkeypatch.setattr(tasks.training, "code_in_use", lambda: code)
        model, train = settings("codec", **SMALL | changes)
        folders = {"features": corpus, "runs": tmp_path / "runs", "out": tmp_path / "model"}
        assert tasks.training.train("codec", model, train, **folders, fresh=fresh)
        return jobs[-1]

    return train


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def provenance(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "model.json").read_text())["provenance"]


def from_before(runs: Path, corpus: Path) -> Path:
    """The old run directory, as if it had been trained on this machine's features."""
    with tarfile.open(BEFORE) as archive:
        archive.extractall(runs / "train_codec", filter="data")
    run = runs / "train_codec" / OLD_KEY
    job = json.loads((run / "job.json").read_text())
    job["provenance"]["data"] = tasks.training.hash_of(corpus)
    (run / "job.json").write_text(json.dumps(job))
    return run


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


def test_a_resume_under_other_code_says_so_in_one_line(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = train("one")
    newest, older = checkpoint.existing(Path(first.run) / "checkpoints")
    newest.unlink()
    capsys.readouterr()
    train("two")
    lines = [line for line in capsys.readouterr().out.splitlines() if "other code" in line]
    assert len(lines) == 1 and ", code one before, " in lines[0] and lines[0].endswith(", code two now")
    assert provenance(tmp_path / "model")["code"] == "two"
    assert (
        checkpoint.load(newest)["provenance"]["code"] == "two" and checkpoint.load(older)["provenance"]["code"] == "one"
    )


def test_settings_data_and_version_name_the_run_directory(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {train("one").run, train("one", learning_rate=1e-3).run, train("one", channels=6).run}
    monkeypatch.setattr(type(model_kind("codec")), "VERSION", 2)
    runs.add(train("one").run)
    monkeypatch.setattr(tasks.training, "hash_of", lambda features: "other data")
    assert len(runs | {train("one").run}) == 5


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


def test_a_run_directory_of_before_is_found_and_continued(
    train: Train, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key is of another algorithm, and its job says `streams` and `stream_dropout`."""
    run = from_before(tmp_path / "runs", corpus)
    assert Path(train("new").run) == run
    said = capsys.readouterr().out
    assert f"training in {run} (begun by an earlier Sonorant" in said
    assert "commit 636d7957276f, code unknown before" in said
    assert "resuming codec from its checkpoint at step 2 of 4" in said
    assert provenance(tmp_path / "model")["fingerprint"] == OLD_KEY, "voice bundles lead to a run by it"


@pytest.mark.parametrize("changes", [{"learning_rate": 1e-3}, {"codebook_dropout": 0.5}])
def test_a_run_directory_of_before_with_other_settings_stays_alone(
    train: Train, corpus: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    run = from_before(tmp_path / "runs", corpus)
    assert Path(train("new", **changes).run) != run
    assert [path.name for path in checkpoint.existing(run / "checkpoints")] == ["step-00000002.ckpt"]


CODEC = {"codebooks": 2, "codes": 12, "stride": 2, "samples_per_frame": 512, "silence": [3, 1], "sha256": "a" * 64}
"""What a token store says of its codec."""


@pytest.mark.parametrize(
    ("learned", "adopted"),
    [
        (CODEC, True),
        ({"streams" if key == "codebooks" else key: value for key, value in CODEC.items()}, True),
        ({key: value for key, value in CODEC.items() if key != "sha256"}, True),
        (CODEC | {"sha256": "b" * 64}, False),
        (CODEC | {"silence": [3, 2]}, False),
        ({key: value for key, value in CODEC.items() if key != "silence"}, False),
    ],
    ids=["same", "said streams", "no hash", "other weights", "other silence", "no silence"],
)
def test_a_language_model_of_before_is_continued_with_its_own_codec_alone(
    tmp_path: Path, learned: dict[str, Any], adopted: bool
) -> None:
    """Its job says nothing of the codes it learned; its checkpoint does."""
    run = tmp_path / OLD_KEY
    job = {"recipe": "language_model", "model": {"layers": 2}, "train": {"steps": 4, "init_from": None}}
    (run / "checkpoints").mkdir(parents=True)
    (run / "job.json").write_text(json.dumps(job | {"provenance": {"data": "d", "init_from": None}}))
    checkpoint.save(checkpoint.path_of(run / "checkpoints", 2), {"description": {"codec": learned}})
    content = {**job, "version": 1, "initial": None, "data": "d", "codes": "c" * 64}
    assert (find_run(tmp_path, content, CODEC) == run) == adopted
