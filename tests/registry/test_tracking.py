import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow.tracking import MlflowClient

from sonorant.cli.main import main
from sonorant.errors import SonorantError, Stopped
from sonorant.registry.tracking import open_store, stage_run, sync, tracked_runs
from sonorant.registry.tracking.follower import Delivery, Follower
from sonorant.registry.tracking.mlflow_run import RunSpec
from sonorant.registry.tracking.mlflow_store import models_page, shown
from sonorant.registry.tracking.points import Tail
from sonorant.registry.tracking.stage_tracking import describe_execution
from tests.support.imports import ROOT
from tests.support.mlflow_server import mlflow_server
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, wait_until

pytest.importorskip("mlflow")


@pytest.fixture(autouse=True)
def project(tracked_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(tracked_project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("SONORANT_EXECUTION", "test-execution")
    # Creating tables is slow on a busy machine.
    monkeypatch.setattr("sonorant.registry.tracking.stage_tracking.PATIENCE", PATIENCE)
    return tmp_path


def write_points(directory: Path, steps: range) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    rows = [{"step": step, "time": time.time(), "metrics": {"train/loss": 1 / (step + 1)}} for step in steps]
    with (directory / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def steps_of(run_id: str) -> list[int]:
    return [metric.step for metric in open_store().client.get_metric_history(run_id, "train/loss")]


def status_of(run_id: str) -> str:
    return str(open_store().client.get_run(run_id).info.status)


SPEC = RunSpec(key="k", stage="train_acoustic", execution="test-execution", params={"train_acoustic.steps": "3"})


def delivered(directory: Path, points: int) -> Delivery:
    """Send the first points."""
    write_points(directory, range(points))
    delivery = Delivery(directory, SPEC)
    delivery.send()
    return delivery


def tracking(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "tracking.json").read_text())


def test_stage_is_a_child_of_its_execution(project: Path) -> None:
    for stage in ("features", "export"):
        with stage_run(stage, {stage: {"a": 1, "b": {"c": "x"}}}, tags={"data": "abc"}) as run:
            run.log_metrics({"size": {"mb": 2.5}, "name": "not a number"})
    store = open_store()
    runs = {run.data.tags["mlflow.runName"]: run for run in store.client.search_runs([store.experiment])}
    parent = runs["pipeline test-execution"]
    assert set(runs) == {"features", "export", "pipeline test-execution"}
    assert parent.info.status == "FINISHED"
    for stage in ("features", "export"):
        assert runs[stage].data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert runs[stage].data.params == {f"{stage}.a": "1", f"{stage}.b.c": "x"}
        assert runs[stage].data.tags["data"] == "abc"
        assert runs[stage].data.metrics["size.mb"] == 2.5
        assert "system/system_memory_usage_percentage" in runs[stage].data.metrics
    assert (project / "runs" / "mlflow.db").exists()


def test_a_stopped_stage_is_killed_until_it_goes_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SonorantError), stage_run("export"):
        raise SonorantError("no")
    store = open_store()
    assert {run.info.status for run in store.client.search_runs([store.experiment])} == {"FAILED"}
    directory = project / "runs" / "train" / "f"
    with pytest.raises(Stopped), stage_run("train", run_directory=directory):
        raise Stopped("saved at step 3")
    run_id = tracking(directory)["sent"]["run_id"]
    assert status_of(run_id) == "KILLED"
    assert status_of(sync(directory)) == "KILLED", "sending the rest ends nothing otherwise than the stage did"
    monkeypatch.setenv("SONORANT_EXECUTION", "another-execution")
    with stage_run("train", run_directory=directory):
        wait_until(lambda: status_of(run_id) == "RUNNING")
        assert status_of(sync(directory)) == "RUNNING", "what somebody is at work on has not ended"
    assert status_of(run_id) == "FINISHED"
    tags = open_store().client.get_run(run_id).data.tags
    assert tags["sonorant.executions"] == "test-execution another-execution"


def test_an_execution_gets_its_final_origin(project: Path) -> None:
    describe_execution("test-execution", {"dvc_lock": "nobody's"})
    with stage_run("export", tags={"dvc_lock": "before"}):
        pass
    describe_execution("test-execution", {"dvc_lock": "after", "stage": "no matter of an execution's"})
    store = open_store()
    of_the_execution = "tags.`sonorant.execution` = 'test-execution'"
    [parent] = store.client.search_runs([store.experiment], filter_string=of_the_execution)
    assert (parent.data.tags["dvc_lock"], "stage" in parent.data.tags) == ("after", False)


def test_resumed_directory_continues_its_run_without_repeating_a_point(project: Path) -> None:
    directory = project / "runs" / "train" / "f"
    write_points(directory, range(40))
    with stage_run("train", {"steps": 60}, run_directory=directory):
        pass
    first = tracking(directory)["sent"]["run_id"]
    # Killed at step 40, resumed from the checkpoint at 30, so later lines are rewritten.
    lines = (directory / "metrics.jsonl").read_text().splitlines(keepends=True)
    (directory / "metrics.jsonl").write_text("".join(lines[:30]))
    with stage_run("train", {"steps": 60}, run_directory=directory):
        write_points(directory, range(30, 60))
    assert tracking(directory)["sent"]["run_id"] == first
    assert steps_of(first) == list(range(60))


def test_a_batch_whose_answer_was_lost_is_kept_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, send = project / "run", MlflowClient.log_batch

    def lose_the_answer(client: MlflowClient, *given: Any, **more: Any) -> None:
        send(client, *given, **more)
        if more.get("metrics"):
            raise ConnectionError("the answer is lost")

    monkeypatch.setattr(MlflowClient, "log_batch", lose_the_answer)
    with pytest.raises(ConnectionError):
        delivered(directory, 3)
    monkeypatch.setattr(MlflowClient, "log_batch", send)
    assert steps_of(sync(directory)) == [0, 1, 2]


def test_a_project_that_was_moved_takes_its_artifacts_along(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "page.html").write_text("here")
    (project / "old").mkdir()
    monkeypatch.chdir(project / "old")
    with stage_run("export") as run:
        run.log_file(project / "page.html")
    (project / "old").rename(project / "new")
    monkeypatch.chdir(project / "new")
    store = open_store()
    [found] = store.client.search_runs([store.experiment], filter_string="tags.stage = 'export'")
    assert Path(store.client.download_artifacts(found.info.run_id, "page.html", str(project))).read_text() == "here"
    with stage_run("verify") as run:
        run.log_file(project / "page.html")
    assert not (project / "old").exists(), "new artifacts went to where the project once was"


def test_two_senders_of_one_directory_repeat_nothing(project: Path) -> None:
    """A running stage and `sonorant sync-tracking`."""
    directory = project / "run"
    stage = delivered(directory, 3)
    write_points(directory, range(3, 6))
    sync(directory)
    stage.send()
    assert steps_of(str(stage.sent.run_id)) == list(range(6))


def test_creation_without_an_answer_makes_no_second_run(project: Path) -> None:
    directory = project / "run"
    first = delivered(directory, 3).sent.run_id
    (directory / "tracking.json").write_text(json.dumps(tracking(directory) | {"sent": {}}))
    assert sync(directory) == first
    assert steps_of(str(first)) == [0, 1, 2]


def test_samples_become_pictures_and_sound(project: Path) -> None:
    sample = project / "run" / "samples" / "step-000250"
    sample.mkdir(parents=True)
    np.savez(sample / "mel.npz", target=np.zeros((80, 50), np.float16), predicted=np.ones((1, 80, 50), np.float32))
    np.savez(sample / "alignment.npz", alignment=np.eye(50, 12, dtype=np.float32))
    (sample / "sample.wav").write_bytes(b"RIFF")
    run_id = str(delivered(project / "run", 0).sent.run_id)
    files = open_store().client.list_artifacts(run_id, "samples/step-000250")
    assert sorted(Path(file.path).name for file in files) == ["alignment.png", "mel.png", "sample.wav"]
    assert all(file.file_size for file in files)


def test_server_away_and_back(project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    directory, port = project / "run", free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # a busy machine answers late
    follower = Follower(directory, SPEC, interval=0.3)
    follower.start()
    write_points(directory, range(10))
    wait_until(lambda: follower.behind)
    with mlflow_server(project, port):
        wait_until(lambda: follower.delivery.sent.steps.get("train/loss") == 9)
    write_points(directory, range(10, 20))
    wait_until(lambda: follower.behind)
    with mlflow_server(project, port) as server:
        wait_until(lambda: follower.delivery.sent.steps.get("train/loss") == 19)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
        os.killpg(server.pid, signal.SIGSTOP)  # requests hang
        write_points(directory, range(20, 30))
        wait_until(lambda: follower.behind)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
        os.killpg(server.pid, signal.SIGCONT)
        assert follower.finish("FINISHED", PATIENCE)
        assert steps_of(str(follower.delivery.sent.run_id)) == list(range(30))
        assert status_of(str(follower.delivery.sent.run_id)) == "FINISHED"
    said = [record.message for record in caplog.records]
    assert 1 <= sum("cannot send" in line for line in said) <= 3, "a state is said once, not at every attempt"


def test_stage_goes_on_without_a_server_and_sync_sends_the_rest(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://someone:secret@127.0.0.1:{free_port()}")
    directory = project / "runs" / "train" / "f"
    write_points(directory, range(4))
    with stage_run("train", run_directory=directory):
        pass
    assert f"sonorant sync-tracking {directory}" in caplog.text
    assert "secret" not in caplog.text
    with pytest.raises(SonorantError, match="does not answer"):
        sync(directory)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    for _ in range(2):
        main(["sync-tracking"])
        said = capsys.readouterr().out.split()
        assert said[0] == "runs/train/f:"
        assert steps_of(said[3]) == [0, 1, 2, 3]
        assert status_of(said[3]) == "FINISHED"
    with pytest.raises(SonorantError, match="contains no run"):
        tracked_runs([project / "nowhere"])


def test_first_use_by_several_processes_at_once(project: Path) -> None:
    (project / "runs" / "mlflow.db").unlink()
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert len({*pool.map(experiment_id, range(3))}) == 1


def experiment_id(_: int) -> str:
    return open_store().experiment


def test_a_process_that_ends_while_it_makes_the_store_leaves_none(project: Path) -> None:
    """A short stage exits without waiting for MLflow."""
    (project / "runs" / "mlflow.db").unlink()
    maker = subprocess.Popen([sys.executable, "-c", "from sonorant.registry.tracking import open_store; open_store()"])
    wait_until(lambda: any(file.stat().st_size for file in (project / "runs").glob(".mlflow.db.*.tmp")))
    maker.kill()
    maker.wait()
    assert not (project / "runs" / "mlflow.db").exists()
    assert open_store().experiment


def test_works_without_mlflow(project: Path) -> None:
    code = (
        "import sys; sys.modules['mlflow'] = sys.modules['mlflow.tracking'] = None\n"
        "from sonorant.registry.tracking import stage_run\n"
        "with stage_run('export') as run: run.log_metrics({'a': 1})\n"
        "print('done')"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout == "done\n", done.stderr
    assert done.stderr.count("not installed") == 1


def test_tail_reads_whole_lines_once_and_skips_damaged_ones(tmp_path: Path) -> None:
    path, tail = tmp_path / "metrics.jsonl", Tail(tmp_path / "metrics.jsonl")
    first = '{"step": 1, "time": 1, "metrics": {"a": 1}}\n'
    assert tail.read() == []
    path.write_text(first + '{"step": 2, "time"')
    assert [point.step for point in tail.read()] == [1]
    with path.open("a") as file:
        file.write(': 2, "metrics": {"a": NaN}}\n{"step": 3\n{"step": 4, "time": 4, "metrics": {"a": 4}}\n')
    assert [point.step for point in tail.read()] == [2, 4]
    assert tail.read() == []
    path.write_text(first + '{"step": 2, "time": 9, "metrics": {"a": 2}}\n' * 4)
    assert [point.step for point in tail.read()] == [1, 2, 2, 2, 2]


def test_links_open_a_page_of_models() -> None:
    page = models_page("http://me:pass@host:5000/", "demo", 2)
    assert page == "http://host:5000/#/models/demo/versions/2?workflowType=machine_learning"
    assert models_page("sqlite:///runs/mlflow.db") == ""


def test_addresses_are_shown_without_passwords() -> None:
    assert shown("failed:\n http://me:pass@host:5000/api") == "failed: http://host:5000/api"
    assert shown("http://me:p@ss@host/x") == "http://host/x"
    assert shown("http://host/models/x@champion") == "http://host/models/x@champion"
    for password in ("Zx3/9k+Q=", "Zx3@9k", "a:b@/c"):
        assert shown(f"postgresql+psycopg://ada:{password}@db:5432/tuning") == "postgresql+psycopg://db:5432/tuning"
