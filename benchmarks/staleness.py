"""Which results are older than the code they were measured with: `python -m benchmarks.staleness`, which `make check`
runs.

A result records a hash of every source file that its benchmark imports or starts, without docstrings and comments. This
command names the files that have changed since. It only warns: a person decides whether a change matters.
"""

import ast
import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
MODULE = re.compile(r"\b(?:sonorant|tasks|flows|infra|benchmarks|tests)(?:\.\w+)+")


def code_of(name: str) -> dict[str, str]:
    """A hash of each source file behind the result `name`, by its path in the project."""
    return {str(path.relative_to(ROOT)): _hash(path) for path in sorted(closure(_module_of(name)))}


def closure(module: Path) -> set[Path]:
    """`module` and all project files that it imports, or names in a string because it starts them, directly or not."""
    seen: set[Path] = set()
    waiting = {module}
    while waiting:
        current = waiting.pop()
        seen.add(current)
        waiting |= _named_in(_code(current)) - seen
    return seen


def changed(recorded: dict[str, str], today: dict[str, str]) -> list[str]:
    """Files that are new, gone or different."""
    return sorted(path for path in recorded.keys() | today.keys() if recorded.get(path) != today.get(path))


def told(results: Path) -> list[str]:
    """A line for each result that is older than its code, and one for all results that do not record their code."""
    lines, unknown = [], []
    for path in sorted(results.glob("*.json")):
        recorded = json.loads(path.read_text(encoding="utf-8")).get("code")
        if recorded is None:
            unknown.append(path.stem)
            continue
        files = changed(recorded, code_of(path.stem))
        if files:
            more = f" and {len(files) - 3} more" if len(files) > 3 else ""
            lines.append(f"benchmarks/results/{path.name} is older than {', '.join(files[:3])}{more}")
    undated = "benchmarks/results: of unknown age, written before results recorded their code:"
    return [*lines, f"{undated} {', '.join(unknown)}"] if unknown else lines


def _module_of(name: str) -> Path:
    """The benchmark that writes a result: `streaming_parallel` is one of `streaming`."""
    parts = name.split("_")
    candidates = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    modules = (path for candidate in candidates for path in (ROOT / "benchmarks").glob(f"*/{candidate}.py"))
    return next(modules, ROOT / "infra" / name / "exercise.py")


def _code(path: Path) -> ast.Module:
    """The syntax tree without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_string(line)]  # type: ignore[attr-defined]
    return tree


def _is_string(line: ast.AST) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def _hash(path: Path) -> str:
    return hashlib.sha256(ast.unparse(_code(path)).encode()).hexdigest()[:12]


def _named_in(tree: ast.Module) -> set[Path]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(MODULE.findall(node.value))
    stems = [ROOT.joinpath(*name.split(".")) for name in names if MODULE.fullmatch(name)]
    return {path for stem in stems for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()}


if __name__ == "__main__":
    print("\n".join(told(RESULTS)) or "no result is older than its code")
