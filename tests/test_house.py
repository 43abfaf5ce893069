"""House rules: README's map, direction of imports, places of prefect, mlflow and paths."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

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


TOP = ("errors", "files", "checked", "processes", "plugins")


def test_design_lists_every_file_of_the_library_tasks_flows_and_infra() -> None:
    listed = (
        (ROOT / "docs/DESIGN.md").read_text(encoding="utf-8").split("### Files by room", 1)[1].split("**Extras.**")[0]
    )
    braces = re.findall(r"`([^`{]+)\{([^}]+)\}\.py`|`([^`{]+)\.py`", listed)
    named = {
        f"{folder}{name}.py" if folder else f"{alone}.py"
        for folder, names, alone in braces
        for name in names.split(",")
    }
    there = {str(path) for path in files("sonorant", "tasks", "flows", "infra") if path.name != "__init__.py"}
    there -= {f"sonorant/{name}.py" for name in TOP}
    assert named == there


def test_the_readme_fits_on_three_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    assert [line for line in lines if len(line) > 120] == []


def files(*folders: str) -> list[Path]:
    return [path for path in PYTHON if str(path).startswith(tuple(f"{folder}/" for folder in folders))]


def importers(of: set[str], *folders: str) -> list[str]:
    """Files in these folders that import one of these packages."""
    return [str(path) for path in files(*folders) if of & {name.split(".")[0] for name in imported_names(ROOT / path)}]


def test_imports_go_one_way() -> None:
    assert importers({"tasks", "flows", "prefect", "yaml", "dvc"}, "sonorant") == []
    assert importers({"flows", "prefect"}, "tasks") == []


def test_speaking_needs_no_training_code() -> None:
    training = tuple(str(ROOT / "sonorant" / room) for room in ("training", "features", "corpus", "evaluation"))
    for path in files("sonorant/speech", "sonorant/text"):
        assert [file for file in closure(ROOT / path) if str(file).startswith(training)] == [], path


def test_mlflow_is_imported_in_its_rooms_only() -> None:
    rooms = ("sonorant/registry/tracking/", "sonorant/registry", "sonorant/registry/pyfunc.py")
    users = importers({"mlflow"}, "sonorant", "tasks", "flows", "benchmarks", "infra")
    assert [user for user in users if not user.startswith(rooms)] == []


def test_no_path_literal_in_the_library() -> None:
    # `data/padding` is a metric
    literal = re.compile(r"""["'](data/(corpus|prepared|features|raw)|models/|artifacts/|reports/)""")
    found = [path for path in files("sonorant") if literal.search((ROOT / path).read_text(encoding="utf-8"))]
    assert found == []


def test_every_module_says_what_it_is_for() -> None:
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in files("sonorant", "tasks", "flows")}
    assert [path for path, text in texts.items() if text.strip() and not text.startswith(('"""', 'r"""'))] == []


ROOMS = (
    "text", "audio", "pages", "layers", "corpus", "features", "training", "speech", "export", "families", "evaluation",
    "registry", "serving", "cli", "extras",
)  # fmt: skip
"""Rooms in pipeline order; the core is all but `extras`."""


def room_of(name: str) -> str:
    """The room of a dotted name; a top file is its own."""
    return name.split(".")[1] if "." in name else ""


def named_rooms(path: Path) -> set[str]:
    """Rooms imported by a file, anywhere."""
    names = set(imported_names(ROOT / path))
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {room_of(name) for name in names if name.startswith("sonorant.")}


def test_the_top_of_the_library_and_its_rooms_are_these() -> None:
    top = {path.stem for path in files("sonorant") if len(path.parts) == 2}
    assert top - {"__init__"} <= set(TOP)
    assert {path.parts[1] for path in files("sonorant") if len(path.parts) > 2} == set(ROOMS)


def test_rooms_import_one_way() -> None:
    """Top files import from no room."""
    wrong = []
    for path in files("sonorant"):
        room = room_of(".".join(path.with_suffix("").parts))
        before = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ()
        wrong += [f"{path} imports {name}" for name in named_rooms(path) if name in ROOMS and name not in before]
    assert wrong == []


def test_a_family_is_reached_through_the_plugins_alone() -> None:
    users = [
        str(path)
        for path in files("sonorant", "tasks", "flows")
        if any("families.parallel" in name for name in imported_names(ROOT / path))
    ]
    allowed = ("sonorant/families/parallel/", "sonorant/extras/tensorrt/", "sonorant/extras/codec_lm/")
    assert [user for user in users if not user.startswith(allowed)] == []


def test_every_file_beside_the_code_is_installed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]
    beside = [Path(name) for name in TRACKED if name.startswith("sonorant/") and not name.endswith(".py")]
    missing = [path for path in beside if not any(path.match(kind) for kind in data.get(".".join(path.parts[:-1]), []))]
    assert missing == []
