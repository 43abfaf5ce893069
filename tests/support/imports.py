"""The project's root, and the project's files that a module imports."""

from tasks.code_deps import ROOT, closure, imported_names, project_files

__all__ = ["ROOT", "closure", "imported_names", "project_files"]
