"""The rules of the house: the README's map, the direction of imports, where prefect, mlflow and paths may be."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.imports import ROOT, closure, imported_names

TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
PYTHON = [Path(name) for name in TRACKED if name.endswith(".py") and (ROOT / name).exists()]


def mapped() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("## The map", 1)[1].split("```", 2)[1]
    return re.findall(r"^(\S+)", block, flags=re.MULTILINE)


def test_the_map_names_only_what_exists() -> None:
    assert [name for name in mapped() if not (ROOT / name).exists()] == []


def test_the_map_names_every_top_level_file_and_folder_and_every_room_of_the_library() -> None:
    top = {name.split("/")[0] + ("/" if "/" in name else "") for name in TRACKED if not name.startswith(".")}
    rooms = {"/".join(path.parts[:2]) + "/" for path in PYTHON if path.parts[0] == "sonorant" and len(path.parts) > 2}
    assert (top - {"README.md", "corpora/"} | {"corpora/demo/"} | rooms) - set(mapped()) == set()


def test_the_readme_fits_on_three_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("path", [path for path in PYTHON if path.parts[0] == "sonorant"], ids=str)
def test_the_library_imports_neither_tasks_nor_flows(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported_names(ROOT / path)} & {
        "tasks",
        "flows",
        "prefect",
        "yaml",
        "dvc",
    }


@pytest.mark.parametrize("path", [path for path in PYTHON if path.parts[0] == "tasks"], ids=str)
def test_tasks_import_no_flow_and_no_prefect(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported_names(ROOT / path)} & {"flows", "prefect"}


@pytest.mark.parametrize(
    "path", [path for path in PYTHON if path.parts[:2] in (("sonorant", "runtime"), ("sonorant", "text"))], ids=str
)
def test_speaking_needs_no_training_code(path: Path) -> None:
    reached = {str(file.relative_to(ROOT)) for file in closure(ROOT / path)}
    assert not {
        file for file in reached if file.startswith(("sonorant/training", "sonorant/data", "sonorant/evaluation"))
    }


def test_mlflow_is_imported_in_its_rooms_only() -> None:
    rooms = ("sonorant/tracking/", "sonorant/registry", "sonorant/runtime/pyfunc.py")
    users = [
        str(path)
        for path in PYTHON
        if path.parts[0] != "tests" and any(n.split(".")[0] == "mlflow" for n in imported_names(ROOT / path))
    ]
    assert [user for user in users if not user.startswith(rooms)] == []


def test_no_path_literal_in_the_library() -> None:
    literal = re.compile(
        r"""["'](data/(corpus|prepared|features|raw)|models/|artifacts/|reports/)"""
    )  # `data/padding` is a metric
    assert [
        str(path)
        for path in PYTHON
        if path.parts[0] == "sonorant" and literal.search((ROOT / path).read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize("path", [path for path in PYTHON if path.parts[0] in ("sonorant", "tasks", "flows")], ids=str)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not text.strip() or text.startswith(('"""', 'r"""')), f"{path} has no docstring"
