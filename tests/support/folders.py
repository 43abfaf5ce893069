from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """The content of each file at any depth, by its path in the folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
