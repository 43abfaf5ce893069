import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonorant.training.run_directory import MetricsLog, read_metrics
from tests.support.trainings import Training
from tests.training.trainings import newest_state

LESS_THAN_A_CHECKPOINT = 100_000


@pytest.fixture(scope="module")
def half(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run directory after 4 steps."""
    training = Training("acoustic", features, tmp_path_factory.mktemp("half"), steps=4)
    training.finish()
    return training.run.path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted 1 MB file system."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a small disk can be mounted only by root on Linux")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


class Continued(Training):
    """The half-trained training with four more steps."""

    def __init__(self, features: Path, half: Path, folder: Path) -> None:
        shutil.copytree(half, folder / "run")
        super().__init__("acoustic", features, folder, steps=8)
        self.before = self.contents()

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.run.checkpoints.iterdir()}

    def assert_nothing_is_lost(self, cause: str | None = None) -> None:
        """Old checkpoints remain, no partial new one, and the status has the cause."""
        assert self.contents() == self.before
        status = self.run.status()
        assert cause is None or (status["state"] == "failed" and cause in status["message"]), status

    def finish_the_rest(self) -> None:
        self.finish()
        assert newest_state(self.run.path)["step"] == 8


def test_a_file_that_may_not_grow_leaves_the_last_checkpoint(features: Path, half: Path, tmp_path: Path) -> None:
    """A quota."""
    training = Continued(features, half, tmp_path / "t")
    assert len(training.before["step-00000004.ckpt"]) > LESS_THAN_A_CHECKPOINT
    limits = (LESS_THAN_A_CHECKPOINT, LESS_THAN_A_CHECKPOINT)
    error = training.failed(training.start(before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)))
    assert re.search(r"step-00000006.ckpt: checkpoint not written \(File too large\).*free disk space.*resume", error)
    training.assert_nothing_is_lost("File too large")
    training.finish_the_rest()


@pytest.mark.long
def test_a_full_disk_leaves_the_last_checkpoint(features: Path, half: Path, small_disk: Path) -> None:
    """There is no room for a line of metrics."""
    training = Continued(features, half, small_disk)
    training.output, training.job_file = small_disk.parent / "output.txt", small_disk.parent / "job.json"
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"x" * 4096)
    error = training.failed(training.start())
    assert "No space left on device" in error and "run the same command to resume" in error, error
    training.assert_nothing_is_lost()
    filler.unlink()
    training.finish_the_rest()


@pytest.mark.long
def test_a_second_trainer_ends_on_all_ranks_and_leaves_the_first(features: Path, half: Path, tmp_path: Path) -> None:
    training = Continued(features, half, tmp_path / "t")
    training.run.lock()
    status = training.run.status()
    error = training.failed(training.start(2, DISTURBED="impatient"))
    assert f"another trainer (process {os.getpid()}) is running here; wait for it or stop it" in error
    assert training.run.status() == status
    training.assert_nothing_is_lost()


@pytest.mark.parametrize("row", [b"\xff\xfe{", b'{"step": 3}'])
def test_a_damaged_row_of_metrics_is_named_and_left_out(row: bytes, tmp_path: Path) -> None:
    path, said = tmp_path / "metrics.jsonl", list[str]()
    whole = b'{"step": %d, "time": 0, "metrics": {"train/loss": 1.0}}\n'
    path.write_bytes(whole % 1 + row + b"\n" + whole % 2 + b'{"step": 3, "ti')
    log = MetricsLog(path, said.append)
    assert said == [f"{path}:2: not a row of metrics; skipped"]
    log.write(2, {"train/loss": 9.0})
    log.write(3, {"train/loss": 2.0})
    assert [(row["step"], row["metrics"]["train/loss"]) for row in read_metrics(path)] == [(1, 1.0), (2, 1.0), (3, 2.0)]
