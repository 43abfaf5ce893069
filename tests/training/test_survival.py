"""A training survives its code: other code goes on with it, and a finished one only writes its model again."""

import contextlib
import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tasks.training
from sonorant.features.array_file import content_hash
from sonorant.features.feature_store import FeatureStore
from sonorant.files import sha256_tree, write_json
from sonorant.plugins import model_kind
from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory
from sonorant.training.worker import Job, work
from tasks.fingerprint import find_run
from testbed.tiny_training import settings
from tests.support.stores import rows_of
from tests.training.trainings import ALONE

BEFORE = Path(__file__).parent / "before" / "train_codec.tar.gz"
"""A run directory as the code of commit 636d795 wrote it, at step 2 of 4."""
OLD_KEY = "0123456789abcdef"
SMALL = {"steps": 4, "checkpoint_every": 2, "validate_every": 4, "channels": 4, "decoder_blocks": 1}
Train = Callable[..., Job]


@pytest.fixture
def train(features: Path, tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch) -> Train:
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
        folders = {"features": features, "runs": tmp_path / "runs", "out": tmp_path / "model"}
        assert tasks.training.train("codec", model, train, **folders, fresh=fresh)
        return jobs[-1]

    return train


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def provenance(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "model.json").read_text())["provenance"]


@pytest.fixture
def before(tmp_path: Path, features: Path) -> Path:
    """The old run directory, as if it had been trained on this machine's features."""
    with tarfile.open(BEFORE) as archive:
        archive.extractall(tmp_path / "runs/train_codec", filter="data")
    run = tmp_path / "runs/train_codec" / OLD_KEY
    job = json.loads((run / "job.json").read_text())
    job["provenance"]["data"] = tasks.training.hash_of(features)
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
    train: Train, before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key is of another algorithm, and its job says `streams` and `stream_dropout`."""
    assert Path(train("new").run) == before
    said = capsys.readouterr().out
    assert f"training in {before} (begun by an earlier Sonorant" in said
    assert "commit 636d7957276f, code unknown before" in said
    assert "resuming codec from its checkpoint at step 2 of 4" in said
    assert provenance(tmp_path / "model")["fingerprint"] == OLD_KEY, "voice bundles lead to a run by it"


def header_before(features: Path) -> dict[str, Any]:
    """The header of a store without version and index, when its arrays were one file each for all utterances."""
    store = FeatureStore.open(features)
    read = (store.mel, store.pitch, store.samples, store.tokens)
    whole = [np.concatenate([array(i) for i in range(len(store))]) for array in read]
    content = content_hash([hashlib.sha256(array.tobytes()).hexdigest() for array in whole])
    kept = {key: value for key, value in store.header.items() if key not in ("version", "index")}
    return kept | {"content": content}


def of_version_2(features: Path) -> str:
    """The hash of a store as its files were when its index was JSON."""
    header, rows = header_before(features), rows_of(features)
    splits = header.pop("splits")
    index, frames, tokens = [], 0, 0
    for row in rows:
        index.append({
            "id": row["id"], "split": splits[row["split"]], "speaker": row["speaker"], "language": "en-us",
            "first_frame": frames, "frames": row["frames"], "first_token": tokens, "tokens": row["tokens"],
        })  # fmt: skip
        frames, tokens = frames + row["frames"], tokens + row["tokens"]
    old = features.with_name("version-2")
    write_json(old / "header.json", {"version": 2, **header})
    write_json(old / "index.json", index)
    return sha256_tree([old / "header.json", old / "index.json"])


def of_version_3(features: Path) -> str:
    """The hash of a store as its header was when its index had columns, and places in one file for all."""
    rows = rows_of(features)
    ids = [row["id"].encode() for row in rows]
    frames, tokens, speaker = (np.array([row[name] for row in rows]) for name in ("frames", "tokens", "speaker"))
    lengths = np.array([len(name) for name in ids])
    columns = [frames, np.cumsum(frames) - frames, tokens, np.cumsum(tokens) - tokens, speaker]
    columns += [np.array([row["split"] for row in rows], np.uint8), np.cumsum(lengths)]
    data = [*(column.tobytes() for column in columns), b"".join(ids)]
    index = content_hash([hashlib.sha256(column).hexdigest() for column in data])
    old = features.with_name("version-3")
    write_json(old / "header.json", {"version": 3, **header_before(features), "index": index})
    return sha256_tree([old / "header.json"])


@pytest.mark.parametrize("hash_before", [of_version_2, of_version_3])
def test_a_training_on_features_of_before_is_found_and_continued(
    train: Train, before: Path, features: Path, tmp_path: Path, hash_before: Callable[[Path], str]
) -> None:
    job = json.loads((before / "job.json").read_text())
    job["provenance"]["data"] = hash_before(Path(shutil.copytree(features, tmp_path / "features")))
    (before / "job.json").write_text(json.dumps(job))
    assert Path(train("new").run) == before


@pytest.mark.parametrize("changes", [{"learning_rate": 1e-3}, {"codebook_dropout": 0.5}])
def test_a_run_directory_of_before_with_other_settings_stays_alone(train: Train, before: Path, changes: dict) -> None:
    assert Path(train("new", **changes).run) != before
    assert [path.name for path in checkpoint.existing(before / "checkpoints")] == ["step-00000002.ckpt"]


CODEC = {"codebooks": 2, "codes": 12, "stride": 2, "samples_per_frame": 512, "silence": [3, 1], "sha256": "a" * 64}
"""What a token store says of its codec."""


@pytest.mark.parametrize(
    ("said", "adopted"),
    [
        ({}, True),
        ({"codebooks": None, "streams": 2}, True),  # as it was called before
        ({"sha256": None}, True),
        ({"sha256": "another"}, False),
        ({"silence": [3, 2]}, False),
        ({"silence": None}, False),
    ],
    ids=str,
)
def test_a_language_model_of_before_is_continued_with_its_own_codec(tmp_path: Path, said: dict, adopted: bool) -> None:
    """Its job says nothing of the codes it learned; its checkpoint does, `said` where it is not CODEC."""
    run, learned = tmp_path / OLD_KEY, {name: value for name, value in (CODEC | said).items() if value is not None}
    job = {"recipe": "language_model", "model": {"layers": 2}, "train": {"steps": 4, "init_from": None}}
    (run / "checkpoints").mkdir(parents=True)
    (run / "job.json").write_text(json.dumps(job | {"provenance": {"data": "d", "init_from": None}}))
    checkpoint.save(checkpoint.path_of(run / "checkpoints", 2), {"description": {"codec": learned}})
    content = {**job, "version": 1, "initial": None, "data": "d", "codes": "c" * 64}
    assert (find_run(tmp_path, content, CODEC) == run) == adopted


@pytest.mark.parametrize(
    ("former", "sha256", "adopted"), [("d", "a" * 64, True), ("e", "a" * 64, False), ("d", "another", False)]
)
def test_a_language_model_on_features_of_version_2_is_continued_with_its_own_codec(
    tmp_path: Path, former: str, sha256: str, adopted: bool
) -> None:
    """The codes of the same codec and features have another hash too, which names the features."""
    run = tmp_path / OLD_KEY
    job = {"recipe": "language_model", "model": {"layers": 2}, "train": {"steps": 4, "init_from": None}}
    (run / "checkpoints").mkdir(parents=True)
    (run / "job.json").write_text(json.dumps(job | {"provenance": {"data": "d", "codes": "b" * 64}}))
    learned = {"description": {"codec": CODEC | {"sha256": sha256}}}
    checkpoint.save(checkpoint.path_of(run / "checkpoints", 2), learned)
    content = {**job, "version": 1, "initial": None, "data": "now", "codes": "c" * 64}
    assert (find_run(tmp_path, content, CODEC, lambda: {former}) == run) == adopted
    assert find_run(tmp_path, content, CODEC) != run
