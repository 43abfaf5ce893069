"""The feature store: mels, pitch, samples and tokens of a corpus in arrays on disk, and copies of it on a local disk.

Shapes, all of one utterance: T frames, M mel bins, S samples, N tokens. U is the number of utterances.
"""

from __future__ import annotations

import dataclasses
import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.mel import MelConfig
from sonorant.audio.pitch import ROWS
from sonorant.data import index as store_index
from sonorant.data.array_file import ArrayFile, array_hash, content_hash
from sonorant.data.index import Index
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, read_json, sha256_tree
from sonorant.formerly import store_hash_of_version_2

VERSION = 3
"""Version of the store's layout; a reader refuses any other."""
MELS, PITCH, AUDIO, TOKENS = ARRAYS = ("mels.npy", "pitch.npy", "audio.npy", "tokens.npy")
HEADER = "header.json"
FILES = (HEADER, *store_index.FILES, *ARRAYS)
"""Of a store, within its folder."""
_REPAIR = "run: dvc repro features"
_HEADER_KEYS = (
    "version", "audio", "frontend", "symbols", "speakers", "splits", "mel_mean", "mel_std", "content", "index",
)  # fmt: skip


class FeatureStore:
    """The utterances of a store, by index 0..U-1 in the manifest's order. Cheap to open and to send to other processes.

    Attributes: `header` (contents of header.json), `audio` (its MelConfig), `ids` (U strings), `split` (uint8 (U,):
    place in `header["splits"]`), `speaker` (int64 (U,): place in `header["speakers"]`), `frames` and `tokens_count`
    (int64 (U,)), `seconds_reading` (time this process has spent reading).
    """

    def __init__(self, path: Path, header: dict[str, Any], index: Index) -> None:
        self.path = path
        self.header = header
        self.audio = MelConfig(**header["audio"])
        self.ids, self.split, self.speaker = index.ids, index.split, index.speaker
        self.frames, self.tokens_count = index.frames, index.tokens
        self._first_frame, self._first_token = index.first_frame, index.first_token
        total = int(self._first_frame[-1] + self.frames[-1])
        tokens = int(self._first_token[-1] + self.tokens_count[-1])
        self._mels = _open_array(path / MELS, np.float16, (total, self.audio.n_mels))
        self._pitch = _open_array(path / PITCH, np.float16, (total, ROWS))
        self._audio = _open_array(path / AUDIO, np.int16, (total * self.audio.hop,))
        self._tokens = _open_array(path / TOKENS, np.int16, (tokens, 3))
        self.seconds_reading = 0.0

    @classmethod
    def open(cls, path: Path, audio: MelConfig | None = None) -> FeatureStore:
        """Open the store at `path`; refuse it if `audio` is given and differs from its settings.

        Raises SonorantError, saying to run the stage again, for another version, another mel, and missing or truncated
        files.
        """
        header = read_json(path / HEADER)
        if not isinstance(header, dict) or header.get("version") != VERSION:
            found = header.get("version") if isinstance(header, dict) else None
            raise SonorantError(f"{path}: feature store of version {found}, this code reads {VERSION}; {_REPAIR}")
        missing = [key for key in _HEADER_KEYS if key not in header]
        if missing:
            raise SonorantError(f"{path / 'header.json'}: key '{missing[0]}' is missing; {_REPAIR}")
        if audio is not None and header["audio"] != dataclasses.asdict(audio):
            difference = _difference(header["audio"], dataclasses.asdict(audio))
            raise SonorantError(f"{path}: made with {difference}; {_REPAIR}")
        index = Index.open(path, header["index"])
        try:
            return cls(path, header, index)
        except (TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise SonorantError(f"{path}: damaged header ({reason}); {_REPAIR}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore.open, (self.path,)  # a worker opens the files again instead of being sent the corpus

    def __len__(self) -> int:
        return len(self.frames)

    def read_into_memory(self, room: int) -> None:
        """Hold all arrays in this process; worker processes forked from it share them.

        Raises SonorantError if they exceed `room` bytes, this rank's share of free memory: each rank holds them all.
        """
        arrays = self._mels, self._pitch, self._audio, self._tokens
        needed = sum(array.nbytes for array in arrays)
        if needed > room:
            raise SonorantError(
                f"{self.path}: {needed / 2**30:.1f} GiB of features do not fit into this rank's share of free memory, "
                f"{room / 2**30:.1f} GiB; set data.preload to none or folder"
            )
        for array in arrays:
            array.hold()

    def mel(self, i: int, start: int = 0, frames: int | None = None) -> np.ndarray:
        """Log-mel float16 (T, M) of utterance `i`: all of it, or `frames` frames from `start` on."""
        return self._read(self._mels, self._first_frame[i] + start, self._frames_of(i, start, frames))

    def mel_and_pitch(self, i: int, start: int = 0, frames: int | None = None) -> np.ndarray:
        """Log-mel, then the rows of `sonorant.audio.pitch.track_pitch`, float16 (T, M + 2), of the same frames."""
        first, count = self._first_frame[i] + start, self._frames_of(i, start, frames)
        return np.concatenate([self._read(self._mels, first, count), self._read(self._pitch, first, count)], axis=1)

    def samples(self, i: int, start: int = 0, frames: int | None = None) -> np.ndarray:
        """Samples int16 (T * hop,), full scale 32768, of the same frames; the end of an utterance is zeros."""
        hop = self.audio.hop
        return self._read(self._audio, (self._first_frame[i] + start) * hop, self._frames_of(i, start, frames) * hop)

    def tokens(self, i: int) -> np.ndarray:
        """Tokens int16 (N, 3) of utterance `i`: symbol, stress, word start (see `SymbolTable`)."""
        return self._read(self._tokens, self._first_token[i], self.tokens_count[i])

    def _frames_of(self, i: int, start: int, frames: int | None) -> int:
        left = int(self.frames[i]) - start
        return left if frames is None else min(frames, left)

    def _read(self, array: ArrayFile, first: int, count: int) -> np.ndarray:
        before = time.perf_counter()
        rows = array.read(int(first), int(count))
        self.seconds_reading += time.perf_counter() - before
        return rows

    def indices(self, split: str) -> np.ndarray:
        """Indices int64 of the utterances of a split, ascending."""
        return np.flatnonzero(self.split == self.header["splits"].index(split))

    def verify(self) -> None:
        """Read everything and compare it with the header's hash. Raises SonorantError if a byte has changed."""
        if content_hash([array_hash(self.path / name) for name in ARRAYS]) != self.header["content"]:
            raise SonorantError(f"{self.path}: the arrays are not those the header was written for; {_REPAIR}")


def store_hash(path: Path) -> str:
    """Hex SHA-256 of the store at `path`: of its header, which holds the hashes of the arrays and of the index."""
    return sha256_tree([path / HEADER])


def former_hash(path: Path) -> str:
    """The hash that the store at `path` had when stores had version 2: its content is the same."""
    header = read_json(path / HEADER)
    index = Index.open(path, header["index"])
    return store_hash_of_version_2(header, (index.row(i) | index.place(i) for i in range(len(index))))


def _open_array(path: Path, dtype: type, shape: tuple[int, ...]) -> ArrayFile:
    try:
        array = ArrayFile(path)
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; {_REPAIR}") from None
    except (OSError, ValueError, EOFError) as error:
        raise SonorantError(f"{path}: truncated or damaged ({' '.join(str(error).split())}); {_REPAIR}") from None
    if array.dtype != dtype or array.shape != shape:
        expected = f"{np.dtype(dtype).name} {shape}"
        raise SonorantError(f"{path}: holds {array.dtype.name} {array.shape}, the index says {expected}; {_REPAIR}")
    return array


def _difference(found: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(found, dict):
        return "no audio settings"
    keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
    return ", ".join(f"audio.{key} {found.get(key)} (now {wanted.get(key)})" for key in keys)


_NO_ROOM = "make room there, name another folder or set data.preload to none"


def copy_path(features: Path, folder: Path) -> Path:
    """The place in `folder` for a copy of these features, named by their content."""
    return folder / store_hash(features)[:32]


def local_copy(features: Path, folder: Path) -> Path:
    """The copy of a feature store in `folder`, made if it is absent or damaged; it is either complete or not there.

    Processes that ask at the same time wait for the first. Raises SonorantError if the disk is full or not writable, or
    the features themselves are damaged.
    """
    target = copy_path(features, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder / f"{target.name}.lock"):
            if not _whole(target):
                _copy(features, target)
    except OSError as error:
        raise SonorantError(f"data.preload_folder {folder}: {error.strerror}; {_NO_ROOM}") from None
    return target


def _copy(features: Path, target: Path) -> None:
    for abandoned in target.parent.glob(f".{target.name}.*.tmp"):  # by a killed process, as we hold the lock
        shutil.rmtree(abandoned)
    needed, free = sum((features / name).stat().st_size for name in FILES), shutil.disk_usage(target.parent).free
    if needed > free:
        sizes = f"{needed / 2**30:.2f} GiB of features, {free / 2**30:.2f} GiB free"
        raise SonorantError(f"data.preload_folder {target.parent}: {sizes}; {_NO_ROOM}")
    with atomic_folder(target) as copy:
        for name in FILES:
            (copy / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(features / name, copy / name)
        FeatureStore.open(copy)
        if not _whole(copy):
            FeatureStore.open(features).verify()  # names the features if they are the damaged ones
            raise SonorantError(f"data.preload_folder {target.parent}: the copy there is damaged; name another disk")


def _whole(store: Path) -> bool:
    try:
        FeatureStore.open(store).verify()
    except SonorantError:
        return False
    return True


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
