"""Feature stores that a test changes: the index written anew, and the header to match."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sonorant.data.index import FOLDER, Index, write_index
from sonorant.files import read_json, write_json

Rows = list[dict[str, Any]]
"""As `sonorant.data.index.write_index` takes them."""


def rows_of(store: Path) -> Rows:
    """The rows of a store's index."""
    index = Index.open(store, read_json(store / "header.json")["index"])
    return [index.row(i) for i in range(len(index))]


def edit_index(store: Path, change: Callable[[Rows], Rows], **header: Any) -> None:
    """Write the index as `change` makes it of its rows, and `header` over the keys of the header."""
    rows = change(rows_of(store))
    shutil.rmtree(store / FOLDER)
    changed = header | {"index": write_index(store, rows)}
    write_json(store / "header.json", read_json(store / "header.json") | changed)
