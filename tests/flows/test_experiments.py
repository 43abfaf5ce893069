import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.flows.conftest import dvc
from tests.support.imports import ROOT

pytestmark = pytest.mark.long


def test_the_plots_of_this_graph_are_drawn_on_a_page(make_project: Callable[..., Path]) -> None:
    plots = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["plots"]
    root = make_project("project", yaml.safe_dump({"plots": plots}))
    models = {file: columns for each in plots for file, columns in each["loss"]["y"].items()}
    assert sorted(models) == ["models/predictor/curves.csv", "models/waveform/curves.csv"]
    for number, (file, columns) in enumerate(models.items()):
        (root / file).parent.mkdir(parents=True)
        (root / file).write_text(f"step,{','.join(columns)}\n1,{number}.125,{number}.25\n2,{number}.375,{number}.5\n")
    said = dvc(root, "plots", "show", "-o", "runs/plots")
    assert said.strip().endswith("runs/plots/index.html")
    page = (root / "runs" / "plots" / "index.html").read_text(encoding="utf-8")
    [drawn] = re.findall(r"var spec = (\{.*\});", page)
    assert json.loads(drawn)["title"]["text"] == plots[0]["loss"]["title"]
    points = json.loads(drawn)["data"]["values"]
    for number, (file, columns) in enumerate(models.items()):
        for column, values in zip(columns, ((0.125, 0.375), (0.25, 0.5)), strict=True):
            curve = f"{file.removeprefix('models/')}::{column}"
            found = [float(each["dvc_inferred_y_value"]) for each in points if each["filename::field"] == curve]
            assert found == [number + value for value in values]
