"""Locks and checks of a run directory."""

import threading
from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.training import checkpoint, run_directory
from sonorant.training.distributed.launch import launch
from sonorant.training.run_directory import RunDirectory
from tasks.training import hash_of
from testbed.tiny_training import tiny_job
from tests.training.trainings import with_splits


def test_a_second_trainer_is_refused_and_told_who_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "PATIENCE", 0.0)
    first = RunDirectory(tmp_path / "run")
    first.lock()
    with pytest.raises(SonorantError, match=r"another trainer \(process \d+\) is running here"):
        RunDirectory(tmp_path / "run").lock()


def test_who_waits_goes_on_when_the_trainer_has_ended(tmp_path: Path) -> None:
    first, said, free = RunDirectory(tmp_path / "run"), threading.Event(), threading.Event()

    def wait() -> None:
        RunDirectory(tmp_path / "run").wait_until_free(lambda message: said.set())
        free.set()

    first.lock()
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert said.wait(60)
    assert not free.wait(0.2)
    assert first._lock is not None
    first._lock.close()
    assert free.wait(60)
    RunDirectory(tmp_path / "run").wait_until_free(lambda message: pytest.fail(message))
    RunDirectory(tmp_path / "run").lock()


def test_a_training_that_did_not_start_is_not_taken_for_the_finished_one_before_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    run.write_status("finished", 8)
    with pytest.raises(SonorantError, match=r"training failed after step 8: .*absent.*no such file"):
        launch(tiny_job("acoustic", tmp_path / "absent", tmp_path))


def test_the_newest_two_and_the_best_stay_and_what_a_killed_writer_left_goes(tmp_path: Path) -> None:
    for step in range(5):
        checkpoint.save(checkpoint.path_of(tmp_path, step), {"step": step})
    checkpoint.save(tmp_path / checkpoint.BEST, {"step": 0})
    (tmp_path / ".step-00000009.ckpt.123.tmp").write_bytes(b"half")
    checkpoint.prune(tmp_path, checkpoint.path_of(tmp_path, 4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.ckpt", "step-00000003.ckpt", "step-00000004.ckpt"]


def test_a_later_step_that_was_passed_over_as_damaged_crowds_no_whole_one_out(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        checkpoint.save(checkpoint.path_of(tmp_path, step), {"step": step})
    checkpoint.path_of(tmp_path, 8).write_bytes(b"damaged")
    checkpoint.prune(tmp_path, checkpoint.path_of(tmp_path, 6))
    assert [path.name for path in checkpoint.existing(tmp_path)] == ["step-00000006.ckpt", "step-00000004.ckpt"]


def test_an_utterance_in_another_split_is_other_data(features: Path, tmp_path: Path) -> None:
    """Otherwise a training would resume on held-out data."""
    same = with_splits(features, tmp_path / "same", lambda _, split: split)
    assert hash_of(same) == hash_of(features)
    other = with_splits(features, tmp_path / "other", lambda number, split: split if number else "test")
    assert hash_of(other) != hash_of(features)


def test_of_two_that_launch_the_second_waits_until_the_first_has_ended(tmp_path: Path) -> None:
    """A trainer locks only minutes later."""
    said, launched = threading.Event(), threading.Event()

    def launch() -> None:
        with RunDirectory(tmp_path / "run").launching(lambda message: said.set()):
            launched.set()

    with RunDirectory(tmp_path / "run").launching(lambda message: pytest.fail(message)):
        second = threading.Thread(target=launch, daemon=True)
        second.start()
        assert said.wait(60)
        assert not launched.wait(0.2)
    assert launched.wait(60)
