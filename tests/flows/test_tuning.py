import json
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes import processes_of
from tests.support.tuned import LOSS, TunedProject

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
TUNE = "flows.tune"
DNSMOS, SPEED = "naturalness.fp32.dnsmos.ovrl", "speed.onnxruntime/fp32.medium.rtf"


@pytest.fixture
def project(tmp_path: Path, tracked_project: Path, prefect_server: str) -> TunedProject:
    return TunedProject(tmp_path / "project", tracked_project, prefect_server)


def trials(project: TunedProject, study: str = "tiny") -> list[Any]:
    import optuna
    from optuna.storages import RDBStorage

    storage = RDBStorage(f"sqlite:///{project.root}/runs/tuning.db")
    with closing(storage.engine.raw_connection()):
        return optuna.load_study(study_name=study, storage=storage).trials


def settings(project: TunedProject) -> dict[str, Any]:
    return dict(yaml.safe_load((project.root / "params.yaml").read_text()))


def test_a_search_runs_shared_stages_once_and_its_best_is_applied(project: TunedProject) -> None:
    before = (project.root / "params.yaml").read_text()
    printed = project.run(TUNE, "run", project.search(also=["train_acoustic/core_seconds"]), "--workers", "2")
    assert "study 'tiny': 3 complete, 0 left" in printed
    assert sorted(project.stages()) == ["features", "prepare", *["train_predictor"] * 3], project.stages()
    assert (project.root / "params.yaml").read_text() == before and not (project.root / "data").exists()
    done = trials(project)
    assert done[0].user_attrs["settings"] == {
        "train_acoustic.learning_rate": 4e-3, "acoustic.channels": 192, "train_acoustic.steps": 6,
    }  # fmt: skip
    assert {trial.user_attrs["also"]["train_acoustic/core_seconds"] for trial in done} == {3.0}, "6 steps of 0.5"
    assert not list((project.root / "runs" / "workspaces").iterdir())

    assert project.run(TUNE, "status", "tiny") in printed
    best = min(done, key=lambda trial: trial.values[0])
    project.run("dvc", "repro", "train_predictor")  # the defaults at full length
    printed = project.run(TUNE, "apply", "tiny")
    assert f"trial {best.number} of study 'tiny'" in printed
    after = (project.root / "params.yaml").read_text()
    changed = [line for line in after.splitlines() if line not in before.splitlines()]
    found = settings(project)
    for key in ("train_acoustic.learning_rate", "acoustic.channels"):
        section, name = key.split(".")
        assert found[section][name] == best.user_attrs["settings"][key]
    assert found["train_acoustic"]["steps"] == yaml.safe_load(before)["train_acoustic"]["steps"], "not what is fixed"
    assert len(changed) <= 2 and len(after.splitlines()) == len(before.splitlines()), changed
    status = json.loads(project.run("dvc", "status", "--json"))
    assert set(status) - {"evaluate"} == {"train_predictor"}, status
    ran = project.stages()
    (project.root / "params.yaml").write_text(after.replace("  steps: 1500", "  steps: 6"))
    project.run("dvc", "repro", "train_predictor")
    assert project.stages() == ran, "with the trial's own steps its model comes from the cache"


def test_several_figures_make_a_front_with_intervals_and_mlflow_has_a_run_for_each_trial(project: TunedProject) -> None:
    from sonorant.registry.tracking import open_store

    search = project.search(objectives={DNSMOS: "maximize", SPEED: "minimize"}, sampler="nsga2", trials=2)
    printed = project.run(TUNE, "run", search)
    assert "Pareto front" in printed and "2 complete" in printed
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{project.root}/runs/mlflow.db")
        store = open_store()
        runs = {run.data.tags["mlflow.runName"]: run for run in store.client.search_runs([store.experiment])}
    assert set(runs) == {"study tiny", "tiny 0", "tiny 1"}
    for trial in trials(project):
        [dnsmos, none] = trial.user_attrs["intervals"]
        assert dnsmos == pytest.approx([trial.values[0] - 0.1, trial.values[0] + 0.1]) and none is None
        assert f"({dnsmos[0]:.4g} to {dnsmos[1]:.4g})" in printed
        run = runs[f"tiny {trial.number}"]
        assert run.data.tags["mlflow.parentRunId"] == runs["study tiny"].info.run_id
        assert run.data.params["acoustic.channels"] == str(trial.user_attrs["settings"]["acoustic.channels"])
        assert run.data.metrics[DNSMOS] == trial.values[0] and run.info.status == "FINISHED"
    project.run(TUNE, "apply", "tiny", "--trial", "1")
    assert settings(project)["acoustic"]["channels"] == trials(project)[1].user_attrs["settings"]["acoustic.channels"]


def test_stopped_and_gone_on_with_it_loses_no_trial_and_no_step(project: TunedProject) -> None:
    search = project.search()
    (project.root / "runs" / "hold").touch()
    running = project.start(TUNE, "run", search)
    project.wait(running, (project.root / "runs" / "held").exists)
    running.send_signal(signal.SIGTERM)
    printed, _ = running.communicate()
    assert running.returncode != 0
    assert processes_of(project.root) == [], printed
    assert len(project.steps()) == 2
    [stopped, again] = trials(project)
    assert stopped.state.name == "FAIL" and again.state.name == "WAITING" and again.params == stopped.params
    (project.root / "runs" / "hold").unlink()
    assert "study 'tiny': 3 complete, 0 left" in project.run(TUNE, "run", search)
    assert len(project.steps()) == 18, "six for each trial: the stopped one went on from its third"


def test_a_worse_trial_is_ended_at_a_point_of_its_training(project: TunedProject) -> None:
    space = {"acoustic.channels": {"choices": [192, 288]}}
    prune = {"by": LOSS, "first_step": 2, "first_trials": 1}
    search = project.search(space=space, sampler="grid", prune=prune, objectives={DNSMOS: "maximize"})
    (project.root / "runs" / "hold").write_text("288")  # it takes two steps, then waits forever
    printed = project.run(TUNE, "run", search)
    assert "1 complete, 1 pruned, 0 left" in printed
    [kept, pruned] = trials(project)
    assert set(kept.intermediate_values) == {1, 2, 3, 4, 5, 6} and set(pruned.intermediate_values) == {1, 2}
    assert kept.intermediate_values[2] > pruned.intermediate_values[2], "turned round: a loss, where more is better"
    assert len(project.steps()) == 8 and project.stages().count("evaluate") == 1
    assert processes_of(project.root) == []


def test_settings_that_are_refused_end_their_trial_alone(project: TunedProject) -> None:
    space = {"acoustic.channels": {"choices": [192, 13]}, "acoustic.encoder_kernel": {"choices": [5, 4]}}
    printed = project.run(TUNE, "run", project.search(space=space, sampler="grid", trials=5))
    assert "1 complete, 3 failed, 0 left" in printed, "each point of the grid once"
    assert "failed: stage 'train_predictor': training has diverged" in printed
    assert "must be odd" in printed, "params.yaml's own check, before any stage"
    assert project.stages().count("train_predictor") == 2


def test_what_cannot_work_is_one_line_and_leaves_nothing(project: TunedProject) -> None:
    status, printed = project.attempt(TUNE, "run", project.search(space={"acoustic.chanels": {"choices": [1]}}))
    lines = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert status == 1 and "did you mean 'acoustic.channels'?" in lines[0] and "Traceback" not in printed
    assert not (project.root / "runs" / "tuning.db").exists()
    status, printed = project.attempt(TUNE, "run", project.search(objectives={"naturalness.fp32.mos": "maximize"}))
    assert status == 1 and "Traceback" not in printed
    assert "reports/metrics.json has no such figure; did you mean" in printed, "found by the first trial, not the last"
    assert project.stages().count("evaluate") == 1


def test_the_best_is_compared_with_the_defaults_under_fresh_seeds(project: TunedProject) -> None:
    search = project.search(trials=2, fixed={"train_acoustic.steps": 3})
    project.run(TUNE, "run", search)
    (project.root / "params.yaml").write_text(
        (project.root / "params.yaml").read_text().replace("  steps: 1500", "  steps: 6")
    )
    printed = project.run(TUNE, "compare", "tiny", "--seeds", "2", "--workers", "2")
    assert printed.count("defaults 100") == printed.count("trial 100") == 2
    best = min(trials(project), key=lambda trial: trial.values[0])
    row = next(line for line in printed.splitlines() if line.strip().startswith(LOSS))
    assert "better" in row or best.number == 0, row
    seeds = {
        trial.user_attrs["settings"]["train_acoustic.seed"] for trial in trials(project, f"tiny-trial-{best.number}")
    }
    assert seeds == {1001, 1002}
