"""The code that each stage of dvc.yaml runs: direct and indirect imports of its module in tasks/.

The stage `external` writes a note for each stage with a hash of every file, without comments, docstrings and
formatting. A stage depends on its note, so it runs again only when its code changes.

python -m tasks.code_deps train_waveform   print these files
python -m tasks.code_deps --write          update the families' sections of params.yaml in dvc.yaml
"""

import argparse
import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import yaml

from sonorant.corpus.cache import hash_of_code
from sonorant.errors import SonorantError
from sonorant.families.family import Family
from sonorant.files import did_you_mean, write_json
from sonorant.plugins import added, all_families
from tasks import params
from tasks.stage import run

ROOT = Path(__file__).parent.parent
PACKAGES = ("sonorant", "tasks", "flows")
PLUMBING = (
    *(f"sonorant/{name}.py" for name in ("__init__", "errors", "files", "plugins")),
    "sonorant/extras/cluster/",
    "sonorant/families/family.py",
    "sonorant/registry/__init__.py",
    "sonorant/registry/tracking/",
    "sonorant/training/telemetry/nvml.py",
    *(f"tasks/{name}.py" for name in ("__init__", "fingerprint", "initial", "origin", "params", "stage", "training")),
)
"""Code that does not affect results; no stage runs again when it changes."""
PLUGINS = ROOT / "sonorant/plugins.py"
ASKING = {"load_family", "family_of", "model_kind", "all_families", "all_kinds"}
FAMILIES = "sonorant/*/*/family.py"
"""Pattern of the family modules. Only imports in methods that a stage calls count as the stage's code."""
OF_FAMILIES: dict[str, Callable[[Family], tuple[str, ...]]] = {
    "train_waveform": lambda family: (family.waveform.name, f"train_{family.waveform.name}"),
    "train_predictor": lambda family: (family.predictor.name, f"train_{family.predictor.name}"),
    "quantize": lambda family: (f"train_{family.waveform.name}", f"train_{family.predictor.name}"),
}
"""Sections of params.yaml that a stage reads for each family."""


@cache
def syntax_of(file: Path) -> ast.Module:
    """Parse a file and drop its imports under TYPE_CHECKING."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    tree.body = [node for node in tree.body if node not in typing_only]
    return tree


@cache
def imported_names(file: Path) -> set[str]:
    """Return dotted names of a file's imports, including those in functions."""
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
    """Return the project files with these dotted names; `__init__.py` only for packages in `names`."""
    files: set[Path] = set()
    for name in names:
        stem = ROOT.joinpath(*name.split("."))
        if name.split(".")[0] in PACKAGES:
            files.update(path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file())
    return files


@cache
def closure(file: Path) -> frozenset[Path]:
    """Return `file` and all project files that it imports, directly or not, or loads through plug-ins and families."""
    families = set(ROOT.glob(FAMILIES))
    seen, waiting = set[Path](), {file}
    while waiting:
        current = waiting.pop()
        seen.add(current)
        imported = project_files(imported_names(current))
        if PLUGINS in imported and not _plumbing(current):
            imported |= _plugins_loaded(current)
            if imported_names(current) & {f"sonorant.plugins.{name}" for name in ASKING}:
                imported |= _methods_called(current)
        waiting |= imported - seen - families
        seen |= imported & families
    return frozenset(seen)


def _methods_called(file: Path) -> set[Path]:
    """Return project files imported by the family methods that `file` calls, for every family."""
    families = [ROOT / "sonorant/families/family.py", *ROOT.glob(FAMILIES)]
    methods = [node for path in families for node in ast.walk(syntax_of(path)) if isinstance(node, ast.FunctionDef)]
    functions = {node.name for path in families for node in syntax_of(path).body if isinstance(node, ast.FunctionDef)}
    reached, called, waiting = set(families), set[str](), _attributes(syntax_of(file))
    while waiting:
        name = waiting.pop()
        called.add(name)
        for method in (method for method in methods if method.name == name):
            reached |= project_files(_names_in(method))
            used = {node.id for node in ast.walk(method) if isinstance(node, ast.Name)} & functions
            waiting |= (_attributes(method) | used) - called
    return reached


def _attributes(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _plugins_loaded(file: Path) -> set[Path]:
    """Return project files of the plug-ins that `file` loads with `added("<kind>")`."""
    kinds = re.findall(r'\badded\("(\w+)"\)', file.read_text(encoding="utf-8"))
    return project_files({place.partition(":")[0] for kind in kinds for place in added(kind).values()})


def _plumbing(path: Path) -> bool:
    return str(path.relative_to(ROOT)).startswith(PLUMBING)


def code_of(stage: str) -> list[Path]:
    """Return the files that a stage runs, and the data files next to them (pages, tables)."""
    reached = closure(ROOT / f"tasks/{stage}.py")
    beside = {path for folder in {file.parent for file in reached} for path in folder.glob("*.*")}
    reached |= {path for path in beside if path.suffix not in (".py", ".pyc") and path.is_file()}
    return sorted(path for path in reached if not _plumbing(path))


def stages(graph: str) -> list[str]:
    """Return the stages of dvc.yaml except `external`, which always runs."""
    return [name for name in yaml.safe_load(graph)["stages"] if name != "external"]


def write_notes(out: Path) -> None:
    """Write `<stage>.json` for each stage: file -> hash of its code."""
    for stage in stages((ROOT / "dvc.yaml").read_text(encoding="utf-8")):
        code = {str(file.relative_to(ROOT)): hash_of_code(file)[:16] for file in code_of(stage)}
        write_json(out / f"{stage}.json", code)


def generated(graph: str) -> str:
    """Return dvc.yaml's text with updated family sections of params.yaml."""
    for stage, sections in OF_FAMILIES.items():
        of_families = [section for family in all_families() for section in sections(family)]

        def renewed(line: re.Match[str], own: list[str] = of_families) -> str:
            kept = [section for section in line[2].split(", ") if section in params.OWNERS]
            return line[1] + ", ".join([*kept, *own])

        graph = re.sub(rf"(\n  {stage}:\n(?:    .*\n)*?    params: \[)([^\]]*)", renewed, graph)
    return graph


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.code_deps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", nargs="?", help="stage whose files to print")
    parser.add_argument("--write", action="store_true", help="update dvc.yaml")
    arguments, path = parser.parse_args(), ROOT / "dvc.yaml"
    graph = path.read_text(encoding="utf-8")
    if arguments.stage:
        if arguments.stage not in stages(graph):
            raise SonorantError(f"unknown stage '{arguments.stage}'{did_you_mean(arguments.stage, stages(graph))}")
        print(*(file.relative_to(ROOT) for file in code_of(arguments.stage)), sep="\n")
    elif arguments.write:
        path.write_text(generated(graph), encoding="utf-8")
    elif generated(graph) != graph:
        raise SonorantError(f"{path}: outdated; run: python -m tasks.code_deps --write")


if __name__ == "__main__":
    run(main)
