""".npy files written by appending rows and read by row range.

Reads use `pread`, because a memory map under random access reads forty times the bytes needed.
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
    """An open .npy file in C order. Attributes: `dtype`, `shape` (rows, *row shape).

    Raises OSError if the file cannot be opened, ValueError if its header or length is wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb", buffering=0) as file:
            self.dtype, self.shape = _read_header(file)
            self._offset = file.tell()
            self._row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
            there = os.fstat(file.fileno()).st_size - self._offset
            if there != self.nbytes:
                raise ValueError(f"{there} bytes of data, expected {self.nbytes}")
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return len(self) * self._row_bytes

    @property
    def removed(self) -> bool:
        """Whether the file was unlinked while open."""
        return os.fstat(self._descriptor).st_nlink == 0

    def read(self, first: int, count: int) -> np.ndarray:
        """Return a copy of rows `first` to `first + count`, fewer at the array's end.

        Raises SonorantError if the file was truncated after it was opened.
        """
        rows = slice(*slice(first, first + count).indices(len(self)))
        found = np.empty((max(0, rows.stop - rows.start), *self.shape[1:]), dtype=self.dtype)
        wanted, place = found.reshape(-1).view(np.uint8), self._offset + rows.start * self._row_bytes
        done = 0
        while done < len(wanted):
            try:
                data = os.pread(self._descriptor, len(wanted) - done, place + done)
            except OSError as error:
                raise SonorantError(f"cannot read {self.path} ({error.strerror}); check the disk") from None
            if not data:
                raise SonorantError(f"{self.path}: truncated while open; rerun the stage that writes it (dvc repro)")
            wanted[done : done + len(data)] = np.frombuffer(data, dtype=np.uint8)
            done += len(data)
        return found

    def read_all(self) -> np.ndarray:
        return self.read(0, len(self))


class ArrayWriter:
    """Writes a .npy file (rows, *row_shape) by appending."""

    def __init__(self, path: Path, dtype: Any, row_shape: tuple[int, ...] = ()) -> None:
        self._path, self._dtype, self._row_shape = path, np.dtype(dtype), row_shape
        self.rows = 0

    def __enter__(self) -> ArrayWriter:
        self._file: BinaryIO = self._path.open("wb")
        self._write_header()
        return self

    def append(self, rows: np.ndarray) -> None:
        if rows.dtype != self._dtype or rows.shape[1:] != self._row_shape:
            raise TypeError(f"expected {self._dtype} (n, *{self._row_shape}), got {rows.dtype} {rows.shape}")
        self._file.write(rows.tobytes())
        self.rows += len(rows)

    def __exit__(self, *_: object) -> None:
        self._file.seek(0)
        self._write_header()  # NumPy pads the header so that the row count can grow
        self._file.close()

    def _write_header(self) -> None:
        kind, shape = np.lib.format.dtype_to_descr(self._dtype), (self.rows, *self._row_shape)
        np.lib.format.write_array_header_1_0(self._file, {"descr": kind, "fortran_order": False, "shape": shape})


def array_hash(path: Path) -> str:
    """Return the hex SHA-256 of a .npy file's data without the header. Raises OSError or ValueError."""
    with path.open("rb", buffering=0) as file:
        _read_header(file)
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(hashes: list[str]) -> str:
    """Return the hex SHA-256 of a list of hashes."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _read_header(file: Any) -> tuple[np.dtype, tuple[int, ...]]:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f".npy format version {version}, expected (1, 0)")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    if fortran_order or not shape or dtype.hasobject:
        raise ValueError("expected plain numbers in C order")
    return dtype, shape
