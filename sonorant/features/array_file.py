"""Arrays of many rows in .npy files: written row by row in little memory, and read by place.

Rows are read by `pread`. A mapped file reads ahead: where rows are drawn at random, forty times what is asked for.
"""

from __future__ import annotations

import hashlib
import math
import os
import weakref
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sonorant.errors import SonorantError


class ArrayFile:
    """The rows of the .npy file at `path`, of one dtype, in C order.

    Raises OSError if the file cannot be opened, ValueError if it is no such array or not as long as it says.
    Attributes: `dtype`, `shape` (rows, *shape of a row).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb", buffering=0) as file:
            self.dtype, self.shape = _read_header(file)
            self._offset = file.tell()
            self._row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
            there = os.fstat(file.fileno()).st_size - self._offset
            if there != self.nbytes:
                raise ValueError(f"{there} bytes of data, {self.nbytes} expected")
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Size of all rows."""
        return len(self) * self._row_bytes

    @property
    def removed(self) -> bool:
        """Whether the file has no name any more: only who has it open can read it."""
        return os.fstat(self._descriptor).st_nlink == 0

    def read(self, first: int, count: int) -> np.ndarray:
        """A copy of `count` rows from `first` on, fewer where the array ends.

        Raises SonorantError if the file has been cut off since it was opened.
        """
        rows = slice(*slice(first, first + count).indices(len(self)))
        found = np.empty((max(0, rows.stop - rows.start), *self.shape[1:]), dtype=self.dtype)
        wanted, place = found.reshape(-1).view(np.uint8), self._offset + rows.start * self._row_bytes
        done = 0
        while done < len(wanted):
            try:
                data = os.pread(self._descriptor, len(wanted) - done, place + done)
            except OSError as error:
                raise SonorantError(f"{self.path}: cannot be read ({error.strerror}); look at its disk") from None
            if not data:
                raise SonorantError(f"{self.path}: was cut off while it was read; run its stage again (dvc repro)")
            wanted[done : done + len(data)] = np.frombuffer(data, dtype=np.uint8)
            done += len(data)
        return found

    def read_all(self) -> np.ndarray:
        """All rows."""
        return self.read(0, len(self))


class ArrayWriter:
    """A .npy file (rows, *row_shape) that grows by appending; hashes what it writes."""

    def __init__(self, path: Path, dtype: Any, row_shape: tuple[int, ...] = ()) -> None:
        self._path, self._dtype, self._row_shape = path, np.dtype(dtype), row_shape
        self._digest = hashlib.sha256()
        self.rows = 0

    def __enter__(self) -> ArrayWriter:
        self._file: BinaryIO = self._path.open("wb")
        self._write_header()
        return self

    def append(self, rows: np.ndarray) -> None:
        """Add rows (n, *row_shape) of the file's dtype."""
        if rows.dtype != self._dtype or rows.shape[1:] != self._row_shape:
            raise TypeError(f"expected {self._dtype} (n, *{self._row_shape}), got {rows.dtype} {rows.shape}")
        data = rows.tobytes()
        self._digest.update(data)
        self._file.write(data)
        self.rows += len(rows)

    def __exit__(self, *_: object) -> None:
        self._file.seek(0)
        self._write_header()  # NumPy's header leaves room for the first dimension to grow
        self._file.close()

    def _write_header(self) -> None:
        kind, shape = np.lib.format.dtype_to_descr(self._dtype), (self.rows, *self._row_shape)
        np.lib.format.write_array_header_1_0(self._file, {"descr": kind, "fortran_order": False, "shape": shape})

    @property
    def sha256(self) -> str:
        """Of the data, as `array_hash` finds it."""
        return self._digest.hexdigest()


def array_hash(path: Path) -> str:
    """Hex SHA-256 of the data of a .npy file, without its header. Raises OSError and ValueError as `ArrayFile`."""
    with path.open("rb", buffering=0) as file:
        _read_header(file)
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(hashes: list[str]) -> str:
    """Hex SHA-256 over the hashes of several arrays, in a fixed order."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _read_header(file: Any) -> tuple[np.dtype, tuple[int, ...]]:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"version {version} of the .npy format, not (1, 0)")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    if fortran_order or not shape or dtype.hasobject:
        raise ValueError("not plain numbers in C order")
    return dtype, shape
