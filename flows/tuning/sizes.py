"""Sizes of a learning curve, its defaults, and a hash of its recordings; imports quickly."""

import hashlib
from pathlib import Path

from sonorant.corpus.importers import CorpusConfig
from sonorant.errors import SonorantError
from tasks import params

ALL = "all"
SIZES = "5,10,20,40"
"""Default sizes in minutes; all minutes are always included."""
STUDY = "curve"
REPORT = Path("reports/curve.json")
MORE = 20.0
"""Default number of additional minutes to forecast."""


def read_sizes(text: str) -> list[float]:
    """Parse a list such as "5,10,20,40" into ascending minutes; `all` is implied."""
    words = [word.strip() for word in text.split(",") if word.strip() != ALL]
    try:
        sizes = sorted({float(word) for word in words})
    except ValueError:
        sizes = []
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise SonorantError(f"--minutes {text}: give minutes above 0, such as {SIZES}; the size `all` is always added")
    return sizes


def corpus_path(root: Path) -> Path:
    return root / params.load("corpus", CorpusConfig, root / "params.yaml").path


def files_below(folder: Path) -> str:
    """Return the number of files and a hash that changes if recordings are added."""
    files = sorted(path for path in ([folder] if folder.is_file() else folder.rglob("*")) if path.is_file())
    listed = "".join(f"{path.relative_to(folder.parent)} {path.stat().st_size}\n" for path in files)
    return f"{len(files)} files, {hashlib.sha256(listed.encode()).hexdigest()[:8]}"
