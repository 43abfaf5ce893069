"""`sonorant prepare`, `train`, `export` and `evaluate` run dvc.yaml up to their own stage."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sonorant.cli.pipeline import PROGRAMS, STAGES
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT

GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]


def test_together_they_run_every_stage_and_each_program_is_there() -> None:
    """Each stage is a target or writes something that a later stage reads."""
    targets = {target for names, _ in STAGES.values() for target in names}
    assert targets <= set(GRAPH)
    read = {dep for stage in GRAPH.values() for dep in stage.get("deps", [])}
    for name in GRAPH.keys() - targets:
        outs = [out if isinstance(out, str) else next(iter(out)) for out in GRAPH[name]["outs"]]
        assert read & set(outs) or any(dep.startswith(out) for dep in read for out in outs), name
    assert all((ROOT / f"tasks/{name}.py").is_file() for name in PROGRAMS)


def test_a_command_runs_its_stages_and_those_before_them(tmp_path: Path) -> None:
    pytest.importorskip("dvc")
    names = ["train_waveform", "train_predictor", "verify"]
    stages = {name: {"cmd": f"touch {name}.out", "outs": [f"{name}.out"]} for name in names}
    stages["train_predictor"]["deps"] = ["train_waveform.out"]
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "sonorant.cli.main", "train"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in tmp_path.glob("*.out")} == {"train_waveform", "train_predictor"}


def test_elsewhere_it_is_one_line(tmp_path: Path) -> None:
    line = error_line(run_command("sonorant.cli.main", "evaluate", cwd=tmp_path)).strip()
    assert line == "dvc.yaml: no such file; run this command in the project folder"
