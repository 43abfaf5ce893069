import errno
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sonorant.processes import STOPPED
from sonorant.registry.tracking import open_store
from tasks.stage import names_of, run, stage_of_graph
from tests.support.imports import ROOT

pytest.importorskip("mlflow")
STOP = """
import runpy, sys
class Stop:
    def find_spec(self, name, *_):
        if name.startswith("sonorant."):
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
sys.orig_argv[1:] = ["-m", "tasks.choose"]
runpy.run_module("tasks.choose", run_name="__main__")
"""


@pytest.mark.parametrize("metrics", ["reports/metrics.json", {"reports/metrics.json": {"cache": False}}], ids=type)
def test_figures_of_a_stage_reach_mlflow(
    metrics: object, tracked_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tracked_project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("SONORANT_EXECUTION", "test-execution")
    graph = {"stages": {"evaluate": {"params": ["evaluate"], "metrics": [metrics], "outs": ["reports/page"]}}}
    Path("dvc.yaml").write_text(yaml.dump(graph))
    Path("params.yaml").write_text("evaluate: {rare_sentences: 3}")

    def main() -> None:
        Path("reports/page").mkdir(parents=True)
        Path("reports/page/index.html").write_text("<!doctype html>")
        Path("reports/metrics.json").write_text(json.dumps({"intelligibility": {"fp32": {"wer": 12.5}}}))

    run(main, stage="evaluate")
    client = open_store().client
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    key = "intelligibility.fp32.wer"
    assert [each.data.metrics[key] for each in runs if key in each.data.metrics] == [12.5]


def test_every_output_of_the_pipeline_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    stages = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]
    for stage in stages:
        outputs = stage_of_graph(stage)
        names = [*names_of(outputs["outs"]), *names_of(outputs.get("metrics", []))]
        assert all(name.split("/")[0] in ("data", "models", "artifacts", "reports") for name in names), stage


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "data/features"),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
def test_a_full_disk_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        run(main)
    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "space" in line


def test_every_task_is_stopped_in_one_line_also_while_it_is_imported() -> None:
    programs = [text for file in ROOT.glob("tasks/*.py") if "\nif __name__" in (text := file.read_text())]
    assert programs and all(re.search(r"\n    run\(main(, stage=.*)?\)\n$", text) for text in programs)
    done = subprocess.run([sys.executable, "-c", STOP], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr == f"{STOPPED}\n"


def test_an_error_that_names_no_file_keeps_its_traceback() -> None:
    def main() -> None:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    with pytest.raises(ConnectionResetError):
        run(main)
