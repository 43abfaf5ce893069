import csv
import math
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sonorant.corpus.manifest import read_manifest
from sonorant.registry.tracking.mlflow_run import flat
from sonorant.training import checkpoint
from sonorant.training.run_directory import read_metrics
from tasks import params
from tests.support.pipeline import ROOT, TINY, Project, by_section, copy_of_this_project, git
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # minutes each

for needed in ("dvc", "mlflow", "prefect", "pocketsphinx"):
    pytest.importorskip(needed)

GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
STAGES = sorted(GRAPH.keys() - {"external"})
"""`external` always runs."""
RUNS = {"train_predictor": "train_acoustic", "train_waveform": "train_vocoder"}
"""MLflow's run name if it differs from the stage's."""
VARIANTS = ("fp32", "fp16", "int8")
"""Runtimes of a CPU."""
PERSON = ("-c", "user.name=test", "-c", "user.email=test@localhost")
Make = Callable[..., Project]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """make(name, section={"key": value}) -> a new tiny project; all share one DVC cache and store."""
    folder = tmp_path_factory.mktemp("projects")
    original = copy_of_this_project(folder / "original")
    (folder / "store").mkdir()

    def make(name: str, **sections: dict[str, Any]) -> Project:
        shutil.copytree(original, folder / name)
        (folder / name / "runs").mkdir(exist_ok=True)
        (folder / name / "runs/store").symlink_to(folder / "store")
        project = Project(folder / name, folder / "cache")
        project.set(**by_section(TINY))
        project.set(**sections)
        git(project.root, *PERSON, "commit", "-qam", "settings")
        return project

    return make


@pytest.fixture(scope="module")
def finished(make: Make) -> Project:
    """A project after its first `dvc repro`."""
    if shutil.which("flite") is None:
        pytest.skip("flite, which speaks the demo's corpus, is not installed")
    project = make("finished")
    assert sorted(ran(project.run("dvc", "repro"))) == STAGES
    return project


@pytest.fixture(scope="module")
def client(finished: Project) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=finished.store)


def ran(printed: str) -> list[str]:
    """Stages that DVC runs, without `external`."""
    stages = [line.split("'")[1] for line in printed.splitlines() if "Running stage '" in line]
    return [stage for stage in stages if stage != "external"]


def mlflow_runs(client: Any) -> dict[str, Any]:
    """MLflow runs by unique name."""
    found = client.search_runs([client.get_experiment_by_name("sonorant").experiment_id])
    named = {run.data.tags["mlflow.runName"]: run for run in found}
    assert len(named) == len(found), sorted(run.data.tags["mlflow.runName"] for run in found)
    return named


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield value


def assert_written(project: Project, family: str) -> dict[str, Any]:
    """All outputs of dvc.yaml exist; return metrics.json, all finite."""
    for stage in GRAPH.values():
        for out in [*stage["outs"], *stage.get("metrics", [])]:
            name = out if isinstance(out, str) else next(iter(out))
            path = project.root / name.replace("${voice.family}", family)
            assert path.is_file() or any(path.iterdir()), f"{out} is empty"
    metrics = project.json("reports/metrics.json")
    assert all(math.isfinite(number) for number in numbers(metrics))
    return metrics


def passed_variants(metrics: dict[str, Any]) -> list[str]:
    """Variants passed by `verify`: after so short a training int8 may fail."""
    passed = [variant for variant in VARIANTS if metrics["parity"][f"onnxruntime/{variant}"]["passed"]]
    assert {"fp32", "fp16"} <= set(passed)
    return passed


def assert_whole(project: Project, sentences: int) -> None:
    metrics = assert_written(project, "parallel")
    passed = passed_variants(metrics)
    assert set(metrics["intelligibility"]) == {"recordings", "vocoder", *passed}
    for kind in ("recordings", "vocoder", *passed):
        figures = metrics["intelligibility"][kind]
        low, high = figures["wer_ci95"]
        assert 0 <= low <= figures["wer"] <= high
        assert figures["cer"] >= 0 and figures["words"] > sentences and figures["utterances"] == sentences
        assert figures["recognizer"] and figures["revision"] and figures["normalizer"]
    for candidate in ("torch/fp32", *(f"onnxruntime/{variant}" for variant in passed)):
        for length in ("short", "medium", "long"):
            for threads in ("threads_1", "threads_all"):
                figures = metrics["speed"][candidate][length][threads]
                assert 0 < figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"]
                assert figures["rtf"] > 0
    for variant in passed:
        parity = metrics["parity"][f"onnxruntime/{variant}"]
        assert sorted(parity["max_abs_diff"]) == ["decoder", "encoder", "vocoder"]
        assert all(0 <= parity["max_abs_diff"][graph] <= limit for graph, limit in parity["tolerance"].items())
    assert all(metrics["size"][variant]["over_fp32"] < 1 for variant in passed if variant != "fp32")
    assert_shipped(project, metrics)
    assert metrics["evaluator"]["passed"] and metrics["environment"]


def assert_shipped(project: Project, metrics: dict[str, Any]) -> None:
    """The bundle has only passed variants, and the default is no slower or worse than fp32."""
    choice, voice = project.json("reports/choice.json"), project.json("artifacts/voice/voice.json")
    assert voice["choice"] == choice
    rows = {row["candidate"]: row for row in choice["table"]}
    assert metrics["speed"].keys() | metrics["parity"].keys() == rows.keys()
    for graph in voice["graphs"].values():
        assert graph["default_variant"] == choice["variant"]
        assert all(rows[f"onnxruntime/{variant}"]["passed"] for variant in graph["variants"])
    if choice["variant"] != "fp32":
        chosen = rows[f"{choice['runtime']}/{choice['variant']}"]
        assert chosen["speedup_ci95"][0] > 1 and chosen["wer_above_fp32"] <= 2


def test_every_stage_writes_what_it_promises(finished: Project) -> None:
    assert_whole(finished, sentences=TINY["recognizer.sentences"])
    for model in ("predictor", "waveform"):
        with (finished.root / "models" / model / "curves.csv").open() as file:
            rows = list(csv.DictReader(file))
        plotted = [[row[name] for row in rows if row[name]] for name in ("train/loss", "validation/loss")]
        assert [len(points) for points in plotted] == [6, 2]
    assert finished.processes() == []
    assert git(finished.root, "status", "--porcelain") == "?? dvc.lock\n"


def test_nothing_runs_twice_and_an_evaluation_setting_reaches_the_evaluation_alone(finished: Project) -> None:
    lock, settings = finished.lock, (finished.root / "params.yaml").read_bytes()
    printed = finished.run("dvc", "repro")
    assert ran(printed) == []
    assert finished.lock == lock
    finished.set(evaluate={"rare_sentences": 3})
    try:
        # Without --dry the fixture's minute would repeat.
        assert ran(finished.run("dvc", "repro", "--dry")) == ["evaluate"]
    finally:
        (finished.root / "params.yaml").write_bytes(settings)


def test_each_execution_is_a_run_with_a_run_for_each_stage(finished: Project, client: Any) -> None:
    runs = mlflow_runs(client)
    [parent] = [run for run in runs.values() if "mlflow.parentRunId" not in run.data.tags]
    trained = {"quantize_acoustic", "quantize_vocoder"}
    assert set(runs) == {*(RUNS.get(stage, stage) for stage in STAGES), *trained, parent.data.tags["mlflow.runName"]}
    settings = finished.root / "params.yaml"
    commit = git(finished.root, "rev-parse", "HEAD").strip()
    [corpus] = yaml.safe_load(finished.lock)["stages"]["corpus"]["outs"]
    for stage in STAGES:
        run = runs[RUNS.get(stage, stage)]
        assert run.info.status == "FINISHED"
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.tags["git_commit"] == commit and run.data.tags["git_dirty"] == "false"
        if stage != "corpus":
            assert run.data.tags["data"] == corpus["md5"]
        assert run.data.params == flat({name: params.effective(name, settings) for name in GRAPH[stage]["params"]})
        assert any(name.startswith("system/cpu") for name in run.data.metrics)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["git_commit"] == commit and parent.data.tags["data"] == corpus["md5"]
    logged = runs["evaluate"].data.metrics
    for kind, figures in finished.json("reports/metrics.json")["intelligibility"].items():
        assert logged[f"intelligibility.{kind}.wer"] == figures["wer"]


@pytest.mark.parametrize("model", ["acoustic", "vocoder"])
def test_mlflow_has_each_point_once_with_pictures_and_sound(finished: Project, client: Any, model: str) -> None:
    run = mlflow_runs(client)[f"train_{model}"].info.run_id
    [directory] = (finished.root / "runs" / f"train_{model}").iterdir()
    written: dict[str, list[tuple[int, float]]] = {}
    for row in read_metrics(directory / "metrics.jsonl"):
        for name, value in row["metrics"].items():
            written.setdefault(name, []).append((row["step"], value))
    assert [step for step, _ in written["train/loss"]] == [5, 10, 15, 20, 25, 30]
    assert [step for step, _ in written["validation/loss"]] == [15, 30]
    for name, points in written.items():
        assert sorted((point.step, point.value) for point in client.get_metric_history(run, name)) == points
    pictures = {"acoustic": ["alignment.png", "mel.png"], "vocoder": ["mel.png"]}[model]
    for step in (15, 30):
        folder = f"samples/step-{step:06d}"
        assert sorted(Path(file.path).name for file in client.list_artifacts(run, folder)) == [*pictures, "sample.wav"]
    sound = Path(client.download_artifacts(run, "samples/step-000030/sample.wav"))
    assert sound.read_bytes()[:4] == b"RIFF" and sound.stat().st_size > 10_000


def test_make_demo_ends_in_the_same_lock_as_dvc_repro(finished: Project, make: Make) -> None:
    """In another project, through DVC's run cache."""
    from mlflow.tracking import MlflowClient

    demo = make("demo")
    printed = demo.run("flows.demo")
    assert ran(printed) == [], "what was run before came from the cache"
    assert demo.lock == finished.lock
    assert demo.json("reports/metrics.json") == finished.json("reports/metrics.json")
    assert git(demo.root, "status", "--porcelain") == "?? dvc.lock\n"
    shown = printed[printed.index("Word error rates") :]
    promised = ["the recordings", "onnxruntime/", " ships (latency)", "sonorant say"]
    for variant in passed_variants(finished.json("reports/metrics.json")):
        promised += [f"the voice, {variant}", f".{variant}.wav"]
    assert [words for words in promised if words not in shown] == []
    assert "models:/sonorant-demo/1, alias " in shown
    registry = MlflowClient(tracking_uri=demo.store, registry_uri=demo.store)
    assert registry.get_model_version_by_alias("sonorant-demo", "challenger").version == 1
    assert demo.processes() == []


def test_the_same_graph_makes_a_codec_language_model_and_reports_both(finished: Project, make: Make) -> None:
    """Like `make demo FAMILY=codec_lm` next to a finished voice; an untrained voice is silent."""
    project = make("codec_lm", voice={"family": "codec_lm"})
    other = Path("reports/families/parallel")
    shutil.copytree(finished.root / other, project.root / other)  # as the flow does
    stages = ran(project.run("dvc", "repro"))
    assert {"train_waveform", "train_predictor", "evaluate", "report"} <= set(stages)
    metrics = assert_written(project, "codec_lm")
    kinds = [project.json(f"models/{folder}/model.json")["kind"] for folder in ("predictor", "waveform")]
    assert kinds == ["language_model", "codec"] and project.json("artifacts/voice/voice.json")["family"] == "codec_lm"
    assert metrics["parity"]["onnxruntime/fp32"]["passed"] and metrics["codec"]["bits_per_second"] > 0
    assert metrics["decoding"]["fp32"]["sentences"] == TINY["recognizer.sentences"]
    page = (project.root / "reports/index.html").read_text(encoding="utf-8")
    assert 'id="decoding"' in page
    assert "not run: evaluate it" not in page and "evaluated on different sentences" not in page
    printed = project.run("tasks.register")
    assert printed.strip().endswith("registered"), "with both trained models to fine-tune"
    assert "gate runaways " in project.run("tasks.promote")
    assert ran(project.run("dvc", "repro")) == [] and project.processes() == []


def test_a_killed_trainer_resumes_when_the_command_is_given_again(finished: Project, make: Make) -> None:
    steps, every = 400, 20
    settings = {"steps": steps, "checkpoint_every": every, "validate_every": steps, "log_every": 1}
    project = make("killed", train_acoustic=settings)
    command = project.start("dvc", "repro", "train_predictor")
    trainings = project.root / "runs" / "train_acoustic"
    wait_until(lambda: command.poll() is not None or last_step(trainings) > 2 * every)
    [directory] = trainings.iterdir()
    os.kill(int((directory / "lock").read_text()), signal.SIGKILL)
    printed, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode != 0 and "was killed by signal 9" in printed and "the same command resumes" in printed
    assert "Traceback" not in printed
    assert project.processes() == []
    assert not (project.root / "models" / "predictor").exists()
    saved = checkpoint.load(checkpoint.existing(directory / "checkpoints")[0])["step"]
    reached = last_step(trainings)
    assert 2 * every <= saved <= reached < steps, "killed too late to tell"

    printed = project.run("dvc", "repro", "train_predictor")
    assert f"resuming acoustic from its checkpoint at step {saved} of {steps}" in printed
    assert ran(printed) == ["train_predictor"]
    rows = read_metrics(directory / "metrics.jsonl")
    assert [row["step"] for row in rows if "train/loss" in row["metrics"]] == list(range(1, steps + 1))
    assert project.json("models/predictor/model.json")["provenance"]["steps"] == steps
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=project.store)
    [run] = [run for run in client.search_runs(["1"]) if run.data.tags["mlflow.runName"] == "train_acoustic"]
    assert run.info.status == "FINISHED"
    points = [point.step for point in client.get_metric_history(run.info.run_id, "train/loss")]
    assert sorted(points) == list(range(1, steps + 1)), "a point was lost or sent twice"


def last_step(trainings: Path) -> int:
    """Newest logged step below the folder, 0 without one."""
    rows = [row["step"] for path in trainings.glob("*/metrics.jsonl") for row in read_metrics(path)]
    return max(rows, default=0)


def test_real_recordings_go_through_every_stage(ljspeech_mini: Path, make: Make) -> None:
    project = make(
        "ljspeech",
        corpus={"kind": "ljspeech", "path": "data/raw/ljspeech-mini"},
        prepare={"validation": 0.1, "test": 0.2},
        audio={"sample_rate": 22050},
        recognizer={"sentences": 2},
        train_acoustic={"steps": 10, "validate_every": 10, "frames_per_micro_batch": 1100},
        train_vocoder={"steps": 10, "validate_every": 10},
    )
    shutil.copytree(ljspeech_mini, project.root / "data" / "raw" / "ljspeech-mini")
    assert sorted(ran(project.run("dvc", "repro"))) == STAGES
    assert_whole(project, sentences=2)
    assert len(read_manifest(project.root / "data" / "prepared" / "manifest.jsonl")) == 20, "none of them is rejected"
    assert project.json("artifacts/voice/voice.json")["audio"]["sample_rate"] == 22050


@pytest.mark.parametrize(
    ("section", "settings", "says"),
    [
        ("corpus", {"sentencez": 3}, r"unknown key 'corpus.sentencez'; did you mean 'sentences'\?"),
        ("corpus", {"path": "corpora/absent"}, "failed to reproduce 'corpus'.*corpora/absent"),
        (
            "train_acoustic",
            {"precision": "fp8"},
            "key 'train_acoustic.precision'.*'fp32', 'bf16' or 'fp16'.*not 'fp8'",
        ),
    ],
    ids=["key", "path", "value"],
)
def test_bad_settings_are_one_line_and_nothing_half_written(
    finished: Project, make: Make, section: str, settings: dict[str, Any], says: str
) -> None:
    stage = {"corpus": "corpus", "train_acoustic": "train_predictor"}[section]
    project = make(f"bad-{next(iter(settings))}", **{section: settings})
    status, printed = project.attempt("dvc", "repro", stage)
    assert status != 0
    assert re.search(f"^(error: params.yaml|ERROR): {says}", printed, re.MULTILINE), printed
    assert "Traceback" not in printed
    [out] = GRAPH[stage]["outs"]
    assert not (project.root / out).exists()
    assert stage not in (yaml.safe_load(project.lock) or {"stages": {}})["stages"]
    left = [path for path in project.root.rglob("*.tmp") if ".dvc" not in path.parts]
    assert left == []
    assert project.processes() == []
