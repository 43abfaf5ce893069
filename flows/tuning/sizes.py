"""The sizes of a learning curve, what it is called, and which recordings it is of. Imports nothing that takes long."""

import hashlib
from pathlib import Path

from sonorant.corpus.importers import CorpusConfig
from sonorant.errors import SonorantError
from tasks import params

ALL = "all"
SIZES = "5,10,20,40"
"""Minutes besides all of them."""
STUDY = "curve"
REPORT = Path("reports/curve.json")
MORE = 20.0
"""Minutes more that are foretold."""


def read_sizes(text: str) -> list[float]:
    """Minutes by rising size, such as of "5,10,20,40"; `all` may be named, and is always there."""
    words = [word.strip() for word in text.split(",") if word.strip() != ALL]
    try:
        sizes = sorted({float(word) for word in words})
    except ValueError:
        sizes = []
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise SonorantError(f"--minutes {text}: give minutes above 0, such as {SIZES}; all of them are added")
    return sizes


def corpus_path(root: Path) -> Path:
    """Where params.yaml says that the recordings are."""
    return root / params.load("corpus", CorpusConfig, root / "params.yaml").path


def files_below(folder: Path) -> str:
    """How many files there are, and a hash of their names and sizes: recordings that were added make another curve."""
    files = sorted(path for path in ([folder] if folder.is_file() else folder.rglob("*")) if path.is_file())
    listed = "".join(f"{path.relative_to(folder.parent)} {path.stat().st_size}\n" for path in files)
    return f"{len(files)} files, {hashlib.sha256(listed.encode()).hexdigest()[:8]}"
