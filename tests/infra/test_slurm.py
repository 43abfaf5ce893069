import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonorant.features.codes import write_no_codes
from sonorant.files import read_json
from sonorant.training.distributed.launch import SHUTDOWN_SECONDS
from sonorant.training.run_directory import read_metrics
from testbed.tiny_training import settings, tiny_features
from tests.flows.conftest import dvc
from tests.flows.test_cluster import STAGE, STAGES
from tests.infra.slurm_stand_ins import Slurm
from tests.support.imports import ROOT
from tests.support.pipeline import Project, copy_of_this_project
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.long

SCRIPT, PREPARE = "infra/slurm/train.sbatch", "infra/slurm/prepare.sbatch"
HOLD = """

def _held(self, *arguments, really=Trainer.take_step):
    import os, time
    while self.step == 40 and not self._stop and os.path.exists("runs/hold"):
        time.sleep(0.01)
    return really(self, *arguments)

Trainer.take_step = _held
"""
"""Makes the project's trainer wait mid-training for its time limit."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Copy of this project with features, and settings for a training of seconds."""
    folder = tmp_path_factory.mktemp("slurm")
    project = Project(copy_of_this_project(folder / "project"), folder / "cache")
    with (project.root / "sonorant/training/trainer.py").open("a") as trainer:
        trainer.write(HOLD)
    tiny_features(folder)
    (project.root / "data").mkdir()
    shutil.move(folder / "features", project.root / "data/features")
    write_no_codes(project.root / "data/codes", "parallel")
    model, train = settings("acoustic", steps=80, checkpoint_every=100, validate_every=100)
    project.set(acoustic=model, train_acoustic=train)
    return project


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A stand-in cluster, stopped afterwards."""
    cluster = Slurm(tmp_path)
    yield cluster
    cluster.end()


def status_of(project: Project) -> dict:
    files = list((project.root / "runs/train_acoustic").glob("*/status.json"))
    return read_json(files[0]) if files else {"step": 0}


def train(slurm: Slurm, root: Path) -> tuple[int, str]:
    """Exit status and output of a two-node job that trains to the end."""
    job = slurm.submit(root, SCRIPT, "train_predictor", nodes=2, processes=1)
    said, _ = job.communicate(timeout=PATIENCE)
    return job.returncode, said


def test_two_nodes_train_over_a_time_limit(project: Project, slurm: Slurm) -> None:
    hold, trainings = project.root / "runs/hold", project.root / "runs/train_acoustic"
    hold.parent.mkdir(exist_ok=True)
    hold.touch()
    job = slurm.submit(project.root, SCRIPT, "train_predictor", nodes=2, processes=1)
    wait_until(lambda: any(read_metrics(file) for file in trainings.glob("*/metrics.jsonl")) or job.poll() is not None)
    job.send_signal(signal.SIGUSR1)
    said, _ = job.communicate(timeout=PATIENCE)
    hold.unlink()
    assert (job.returncode, slurm.requeued) == (0, 1), said
    assert "training as node 1 of 2" in said
    stopped = status_of(project)
    assert stopped["state"] == "stopped", said
    assert 0 < stopped["step"] < 80

    status, said = train(slurm, project.root)
    assert (status, slurm.requeued) == (0, 1), said
    assert status_of(project)["state"] == "finished"
    steps = [row["step"] for row in read_metrics(next(trainings.glob("*/metrics.jsonl")))]
    assert sorted(set(steps)) == list(range(1, 81))
    assert len(list(trainings.iterdir())) == 1
    assert read_json(project.root / "models/predictor/model.json")["provenance"]["steps"] == 80
    assert "models/predictor" in project.lock.decode()


def test_a_failed_training_is_not_queued_again(project: Project, slurm: Slurm) -> None:
    header = project.root / "data/features/header.json"
    header.rename(slurm.folder / "header.json")
    header.write_text("{")
    try:
        status, said = train(slurm, project.root)
    finally:
        (slurm.folder / "header.json").replace(header)
    assert (status, slurm.requeued) == (1, 0), said
    assert "header.json" in said


def test_without_the_codes_it_depends_on_no_node_starts(project: Project, slurm: Slurm) -> None:
    codes = (project.root / "data/codes").rename(slurm.folder / "codes")
    try:
        status, said = train(slurm, project.root)
    finally:
        codes.rename(project.root / "data/codes")
    assert (status, said.count("\n")) == (2, 1) and "data/codes is missing" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [((SCRIPT, "export"), "train_predictor or train_waveform"), ((PREPARE,), "name a stage of dvc.yaml")],
)
def test_another_stage_or_none_is_refused(slurm: Slurm, words: tuple[str, ...], says: str) -> None:
    job = slurm.submit(ROOT, *words, nodes=1, processes=1)
    said, _ = job.communicate(timeout=PATIENCE)
    assert (job.returncode, said.count("\n")) == (2, 1) and says in said


@pytest.mark.timeout(3600)
def test_a_job_of_two_nodes_spreads_a_stage_and_leaves_nothing_running(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
    root = tmp_path / "project"
    (root / "runs").mkdir(parents=True)
    (root / "dvc.yaml").write_text(STAGES)
    (root / "stage.py").write_text(STAGE)
    (root / ".dvcignore").write_text("runs\n")
    dvc(root, "init", "-q", "--no-scm")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    job = slurm.submit(root, str(ROOT / PREPARE), "prepare", nodes=2, processes=1)
    said, _ = job.communicate(timeout=PATIENCE * 4)  # returns when all processes that hold its output have exited
    assert job.returncode == 0, said
    assert (root / "runs/where").read_text() == "workers"


def test_the_signal_leaves_time_to_save() -> None:
    given = next(line for line in (ROOT / SCRIPT).read_text().splitlines() if line.startswith("#SBATCH --signal="))
    assert int(given.rpartition("@")[2]) >= 2 * SHUTDOWN_SECONDS


@pytest.mark.parametrize(
    "script", sorted([*ROOT.glob("infra/**/*.sh"), *ROOT.glob("infra/**/*.sbatch")]), ids=lambda path: path.name
)
def test_shellcheck_finds_nothing(script: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
