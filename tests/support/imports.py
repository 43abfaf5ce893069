"""Where the project lies, and which of its files a module imports."""

from tasks.code_deps import ROOT, closure, imported_names, project_files

__all__ = ["ROOT", "closure", "imported_names", "project_files"]
