"""The code dependencies in dvc.yaml, generated from the imports: `python -m tasks.code_deps --write`.

DVC runs a stage again when a file it depends on changed, so each stage lists all the code it runs. This command writes
those lines, and the names of the settings' sections that families bring; a test says when it must be run again.
"""

import argparse
import ast
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.families.family import Family
from sonorant.plugins import all_families
from tasks import params
from tasks.stage import run

ROOT = Path(__file__).parent.parent
PACKAGES = ("sonorant", "tasks", "flows")
REGISTERING = (
    "__init__", "aliases", "champion_gates", "content", "download", "verdict_evidence", "promotion", "registration",
    "side_by_side", "speaker_gates", "webhooks",
)  # fmt: skip
"""Of the registry, all but the gates that `choose` asks."""
PLUMBING = (
    *(
        f"sonorant/{name}"
        for name in (
            "__init__.py",
            "plugins.py",
            "errors.py",
            "files.py",
            "extras/cluster/",
            "training/telemetry/nvml.py",
            *(f"registry/{file}.py" for file in REGISTERING),
            "registry/tracking/",
        )
    ),
    "sonorant/families/family.py",
    *(f"tasks/{name}.py" for name in ("__init__", "fingerprint", "initial", "origin", "params", "stage", "training")),
)
"""Carries settings, results and messages but cannot change them: no stage runs again because of it."""
REGISTRY = ROOT / "sonorant/plugins.py"
FAMILIES = "sonorant/*/*/family.py"
"""Each answers for its family, and imports in every method what that method needs."""
OF_FAMILIES: dict[str, Callable[[Family], tuple[str, ...]]] = {
    "tasks.train_waveform": lambda family: (family.waveform.name, f"train_{family.waveform.name}"),
    "tasks.train_predictor": lambda family: (family.predictor.name, f"train_{family.predictor.name}"),
    "tasks.quantize": lambda family: (f"train_{family.waveform.name}", f"train_{family.predictor.name}"),
}
"""The sections of params.yaml that a task reads for each family."""


@cache
def syntax_of(file: Path) -> ast.Module:
    """The syntax tree of a file, without the imports that are for the type checker alone."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    tree.body = [node for node in tree.body if node not in typing_only]
    return tree


@cache
def imported_names(file: Path) -> set[str]:
    """Dotted names in all import statements of a file, those inside functions too."""
    return _names_in(syntax_of(file))


def _names_in(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= members
            if not project_files(members):
                names.add(node.module)
    return names


def project_files(names: set[str]) -> set[Path]:
    """The project files with these names; a package's `__init__.py` only where the package itself is named."""
    files: set[Path] = set()
    for name in names:
        stem = ROOT.joinpath(*name.split("."))
        if name.split(".")[0] in PACKAGES:
            files.update(path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file())
    return files


def closure(file: Path) -> set[Path]:
    """`file` and all project files that it imports, directly or not, or runs through the registry of families."""
    seen, waiting = set[Path](), {file}
    while waiting:
        current = waiting.pop()
        seen.add(current)
        imported = project_files(imported_names(current))
        if REGISTRY in imported and not _plumbing(current):
            imported |= asked_of_families(current)
        waiting |= imported - seen - set(ROOT.glob(FAMILIES))
        seen |= imported & set(ROOT.glob(FAMILIES))
    return seen


def asked_of_families(file: Path) -> set[Path]:
    """The project files behind the methods that a user of the registry calls, in every built-in family."""
    answers = [ROOT / "sonorant/families/family.py", *ROOT.glob(FAMILIES)]
    methods = [node for path in answers for node in ast.walk(syntax_of(path)) if isinstance(node, ast.FunctionDef)]
    reached, asked, waiting = set(answers), set(), _attributes(syntax_of(file))
    while waiting:
        name = waiting.pop()
        asked.add(name)
        for method in (method for method in methods if method.name == name):
            reached |= project_files(_names_in(method))
            waiting |= _attributes(method) - asked
    return reached


def _attributes(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def code_of(module: str) -> list[str]:
    """What `python -m <module>` runs, as dependencies: files, or the whole folder where that is most of it."""
    reached = _files(closure(ROOT.joinpath(*module.split(".")).with_suffix(".py")))
    reached |= {path for folder in {file.parent for file in reached} for path in _files(folder.glob("*.*"), but=".py")}
    files: set[Path] = {path for path in reached if not _plumbing(path)}
    folders = {parent for file in files for parent in file.parents if ROOT / "sonorant" in parent.parents}
    rooms = {folder for folder in folders if _mostly(folder, files)}
    kept = {path for path in files | rooms if not rooms & set(path.parents)}
    return sorted(str(path.relative_to(ROOT)) for path in kept)


def _plumbing(path: Path) -> bool:
    return str(path.relative_to(ROOT)).startswith(PLUMBING)


def _mostly(folder: Path, files: set[Path]) -> bool:
    there = _files(folder.rglob("*.*"))
    return len(there) > 1 and 2 * len(there & files) > len(there)


def _files(paths: Iterable[Path], but: str = "") -> set[Path]:
    """Those of `paths` that hold something, without Python's caches."""
    return {
        path
        for path in paths
        if path.suffix != but and "__pycache__" not in path.parts and path.is_file() and path.stat().st_size
    }


def generated(graph: str) -> str:
    """The text of dvc.yaml with each stage's code dependencies renewed; all other lines stay as they are."""
    stages = re.split(r"^(?=  \w+:\n)", graph, flags=re.MULTILINE)
    return "".join(_renewed(stage) for stage in stages)


def _with_families(sections: str, module: str) -> str:
    kept = [section for section in sections.split(", ") if section in params.SECTIONS]
    return ", ".join([*kept, *(section for family in all_families() for section in OF_FAMILIES[module](family))])


def _renewed(stage: str) -> str:
    module = re.search(r"python -m (tasks\.\w+)", stage)
    if module is None or "always_changed: true" in stage:
        return stage
    if module[1] in OF_FAMILIES:
        stage = re.sub(r"(?<=    params: \[).*(?=\])", lambda line: _with_families(line[0], module[1]), stage)
    without = re.sub(r"^      - (sonorant|tasks)/.*\n", "", stage, flags=re.MULTILINE)
    lines = "".join(f"      - {dep}\n" for dep in code_of(module[1]))
    return re.sub(r"^    deps:\n(      - .*\n)*", lambda deps: deps[0] + lines, without, count=1, flags=re.MULTILINE)


def main() -> None:
    """Write dvc.yaml, or fail where it is not what the imports say."""
    parser = argparse.ArgumentParser(prog="python -m tasks.code_deps", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew dvc.yaml; without it, say whether it is up to date")
    arguments, path = parser.parse_args(), ROOT / "dvc.yaml"
    graph = path.read_text(encoding="utf-8")
    if arguments.write:
        path.write_text(generated(graph), encoding="utf-8")
    elif generated(graph) != graph:
        raise SonorantError(f"{path}: its code dependencies are old; run: python -m tasks.code_deps --write")


if __name__ == "__main__":
    run(main)
