"""Which project files a module imports, directly or not, read from the source. Knows nothing of what the tests demand
of it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("sonorant", "tasks", "flows")


def imported_names(file: Path) -> set[str]:
    """Dotted names in all import statements of a file, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= members
            if not project_files(members):
                names.add(node.module)
    return names


def project_files(names: set[str]) -> set[Path]:
    """The project files that these names are. A package's `__init__.py` counts when the package itself is named, not a
    module in it."""
    files = set()
    for name in names:
        stem = ROOT.joinpath(*name.split("."))
        if name.split(".")[0] in PACKAGES:
            files.update(path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file())
    return files


def closure(file: Path) -> set[Path]:
    """All project files that `file` imports, directly or not, itself included."""
    seen: set[Path] = set()
    waiting = {file}
    while waiting:
        current = waiting.pop()
        seen.add(current)
        waiting |= project_files(imported_names(current)) - seen
    return seen
