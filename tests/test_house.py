"""The rules of the house: the README's map, the direction of imports, where prefect, mlflow and paths may be."""

import ast
import re
import subprocess
import tomllib
from graphlib import TopologicalSorter
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


def room_of(name: str) -> str:
    """The room of a dotted name: a package or module of `sonorant`, each family by itself, or a folder beside it."""
    parts = name.split(".")
    family = parts[1:2] == ["families"] and parts[2:3] and (ROOT / "sonorant/families" / parts[2]).is_dir()
    return ".".join(parts[: 3 if family else 2 if parts[0] == "sonorant" else 1])


def named_rooms(path: Path) -> set[str]:
    """Other rooms that a file names in its imports: inside functions too, and for the type checker alone too, but for
    the protocol of a family, whose answers come from rooms that it is asked by."""
    names = set(imported_names(ROOT / path))
    if path != Path("sonorant/families/family.py"):
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
    own = room_of(".".join(path.with_suffix("").parts))
    return {room_of(name) for name in names if name.split(".")[0] in ("sonorant", "tasks", "flows")} - {own}


def test_rooms_import_one_way() -> None:
    graph: dict[str, set[str]] = {}
    for path in files("sonorant", "tasks", "flows"):
        graph.setdefault(room_of(".".join(path.with_suffix("").parts)), set()).update(named_rooms(path))
    order = list(TopologicalSorter(graph).static_order())  # CycleError names the rooms of a circle
    assert graph.keys() <= set(order)


def test_a_family_is_reached_through_the_registry_alone() -> None:
    rooms = {"sonorant.families.parallel", "sonorant.extras.codec_lm"}
    users = [path for path in files("sonorant", "tasks", "flows") if named_rooms(path) & rooms]
    assert [path for path in users if path.parts[:3] != ("sonorant", "families", "codec_lm")] == []


def test_every_file_beside_the_code_is_installed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]
    beside = [Path(name) for name in TRACKED if name.startswith("sonorant/") and not name.endswith(".py")]
    missing = [path for path in beside if not any(path.match(kind) for kind in data.get(".".join(path.parts[:-1]), []))]
    assert missing == []
