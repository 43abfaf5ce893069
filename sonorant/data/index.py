"""The index of a feature store: what is known of each utterance, in columns.

A folder of .npy files that are mapped into memory: opening it takes no memory of its own, and the ranks of a machine
share what the system holds of it. U is the number of utterances.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, overload

import numpy as np

from sonorant.data.array_file import ArrayWriter, array_hash, content_hash
from sonorant.errors import SonorantError

COLUMNS = {
    "frames": np.int64,
    "first_frame": np.int64,
    "tokens": np.int64,
    "first_token": np.int64,
    "speaker": np.int64,
    "split": np.uint8,
    "id_ends": np.int64,
    "id_bytes": np.uint8,
}
"""Their types. All are (U,) but `id_bytes`, the UTF-8 of all ids, of which `id_ends` says where each ends."""
FOLDER = "index"
FILES = tuple(f"{FOLDER}/{name}.npy" for name in COLUMNS)
"""Within the store."""
_REPAIR = "run: dvc repro features"


class Ids(Sequence[str]):
    """The ids of the utterances, read from their bytes as they are asked for."""

    def __init__(self, data: np.ndarray, ends: np.ndarray) -> None:
        self._data, self._ends = data, ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        first = int(self._ends[place - 1]) if place else 0
        return bytes(self._data[first : int(self._ends[place])]).decode("utf-8")


class Index:
    """The columns in memory-mapped arrays.

    Attributes: `frames`, `first_frame`, `tokens`, `first_token` (int64 (U,): how many of each utterance, and where they
    begin), `speaker` (int64 (U,): place in the header's speakers), `split` (uint8 (U,): in its splits), `ids`.
    """

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.frames, self.first_frame = columns["frames"], columns["first_frame"]
        self.tokens, self.first_token = columns["tokens"], columns["first_token"]
        self.speaker, self.split = columns["speaker"], columns["split"]
        self.ids = Ids(columns["id_bytes"], columns["id_ends"])

    @classmethod
    def open(cls, store: Path, content: str) -> Index:
        """Map the index of the store at `store`, whose header says that its hash is `content`.

        Raises SonorantError if a column is missing or not the one that was written.
        """
        columns = {name: _mapped(store / file) for name, file in zip(COLUMNS, FILES, strict=True)}
        if content_hash([array_hash(store / file) for file in FILES]) != content:
            raise SonorantError(f"{store / FOLDER}: not what the header was written for; {_REPAIR}")
        return cls(columns)

    def __len__(self) -> int:
        return len(self.frames)

    def row(self, i: int) -> dict[str, Any]:
        """What is known of utterance `i`, as `write_index` takes it."""
        numbers = ("split", "speaker", "frames", "tokens")
        return {"id": self.ids[i], **{name: int(getattr(self, name)[i]) for name in numbers}}

    def place(self, i: int) -> dict[str, int]:
        """Where utterance `i` begins."""
        return {"first_frame": int(self.first_frame[i]), "first_token": int(self.first_token[i])}


def _mapped(column: Path) -> np.ndarray:
    try:
        return np.load(column, mmap_mode="r").view(np.ndarray)
    except FileNotFoundError:
        raise SonorantError(f"{column}: no such file; {_REPAIR}") from None
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise SonorantError(f"{column}: truncated or damaged ({reason}); {_REPAIR}") from None


class IndexWriter:
    """Writes an index into the folder of a new store, utterance by utterance, in memory that does not grow."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def __enter__(self) -> IndexWriter:
        (self._store / FOLDER).mkdir()
        with ExitStack() as stack:
            self._columns = {
                name: stack.enter_context(ArrayWriter(self._store / file, COLUMNS[name]))
                for name, file in zip(COLUMNS, FILES, strict=True)
            }
            self._open = stack.pop_all()
        self._frames = self._tokens = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def append(self, *, id: str, split: int, speaker: int, frames: int, tokens: int) -> None:
        """Add the next utterance, whose frames and tokens follow those of the one before."""
        values = {
            "frames": frames, "first_frame": self._frames, "tokens": tokens, "first_token": self._tokens,
            "speaker": speaker, "split": split,
        }  # fmt: skip
        data = np.frombuffer(id.encode("utf-8"), dtype=np.uint8)
        self._columns["id_bytes"].append(data)
        values["id_ends"] = self._columns["id_bytes"].rows
        for name, value in values.items():
            self._columns[name].append(np.array([value], dtype=COLUMNS[name]))
        self._frames, self._tokens = self._frames + frames, self._tokens + tokens

    @property
    def content(self) -> str:
        """The hash to open it with."""
        return content_hash([column.sha256 for column in self._columns.values()])


def write_index(store: Path, rows: Iterable[dict[str, Any]]) -> str:
    """Write rows with the fields of `IndexWriter.append` as the index of a new store; return its hash."""
    with IndexWriter(store) as writer:
        for row in rows:
            writer.append(**row)
    return writer.content
