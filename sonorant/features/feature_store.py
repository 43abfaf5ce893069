"""The feature store: mels, pitch, samples and tokens of a corpus, in shards listed by an index.

Shapes of one utterance: T frames, M mel bins, S samples, N tokens. U utterances.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.mel import MelConfig
from sonorant.audio.pitch import ROWS
from sonorant.errors import SonorantError
from sonorant.features import index as store_index
from sonorant.features.array_file import ArrayFile, array_hash, content_hash
from sonorant.features.index import Index, Rows, write_index
from sonorant.features.shards import Shards
from sonorant.features.store import Place
from sonorant.features.store.marks import KEYS, packed
from sonorant.features.store.place import FILE as PLACE
from sonorant.features.store.shard_files import Shard
from sonorant.files import atomic_folder, read_json, sha256_tree, write_json

VERSION = 1
"""Version of the store's layout; different versions are rejected."""
MELS, PITCH, AUDIO, TOKENS = ARRAYS = ("mels", "pitch", "audio", "tokens")
"""Arrays of a shard, in the order of the index."""
HEADER = "header.json"
FILES = (HEADER, PLACE, KEYS, *store_index.FILES)
SAID_MELS = "mels.npy"
"""File of predicted mels, float16 (sum T, M), which replaces the shards' mels."""
SAID_BY = "mels_said_by"
"""Header key of stores with predicted mels, see `sonorant.features.predicted`."""
_REPAIR = "run: dvc repro features"
REMAKE = "dvc repro --force --single-item features"


def write_store(out: Path, place: Place, keys: Sequence[str], rows: Rows, described: dict[str, Any]) -> None:
    """Write the folder of a feature store atomically. `described` is the header without version, content and index."""
    with atomic_folder(out) as folder:
        content = content_hash([name.tobytes().hex() for name in rows.objects])
        header = {"version": VERSION, **described, "content": content, "index": write_index(folder, rows)}
        write_json(folder / HEADER, header)
        (folder / KEYS).write_bytes(packed(keys))
        place.seen_from(out).write(folder)


def objects_of(shards: Iterable[Shard]) -> np.ndarray:
    """Return the SHA-256 of each shard's arrays, uint8 (shards, len(ARRAYS), 32)."""
    return np.array([[list(bytes.fromhex(shard.objects[name])) for name in ARRAYS] for shard in shards], np.uint8)


class FeatureStore:
    """Utterances by index 0..U-1 in the manifest's order. Cheap to open and to pickle.

    Attributes: `header`, `audio`, `index` and its columns `ids`, `split` and `speaker` (positions in the header's
    lists), `frames`, `tokens_count` ((U,) each); `place` (location of the shards), `seconds_reading`.
    """

    def __init__(self, path: Path, header: dict[str, Any], index: Index) -> None:
        self.path = path
        self.header = header
        self.audio = MelConfig(**header["audio"])
        self.index = index
        self.ids, self.split, self.speaker = index.ids, index.split, index.speaker
        self.frames, self.tokens_count = index.frames, index.tokens
        self.place = Place.read(path, _REPAIR)
        self._shards = Shards(path, self.place, index.shard_objects, arrays_of(self.audio), REMAKE)
        self._said = SaidMels(path / SAID_MELS, index.frames, self.audio.n_mels) if SAID_BY in header else None
        self.seconds_reading = 0.0
        self.keeps = False

    @classmethod
    def open(cls, path: Path, compared: str | None = None) -> FeatureStore:
        """Open the store at `path`. `compared`: hash of an index that was already checked. Raises SonorantError if the
        store is damaged or has a different version; shards are checked when they are read, or by `verify`."""
        header = read_json(path / HEADER)
        if not isinstance(header, dict) or header.get("version") != VERSION:
            found = header.get("version") if isinstance(header, dict) else None
            raise SonorantError(f"{path}: feature store has version {found}, but this code reads {VERSION}; {_REPAIR}")
        try:
            return cls(path, header, Index.open(path, header["index"], compared=header["index"] == compared))
        except (KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise SonorantError(f"{path / HEADER}: damaged ({reason}); {_REPAIR}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        # Each window has new workers; they open the files themselves, and skip hashing the index.
        return FeatureStore.open, (self.path, self.header["index"])

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def fetches(self) -> bool:
        """Whether shards are downloaded from a bucket."""
        return self.place.remote and not self._shards.held

    @property
    def nbytes(self) -> int:
        frames, tokens = int(self.frames.sum()), int(self.tokens_count.sum())
        return frames * 2 * (self.audio.n_mels + ROWS + self.audio.hop) + tokens * 2 * 3

    def read_into_memory(self, room: int) -> None:
        """Load all arrays into memory. Raises SonorantError if they exceed `room` bytes."""
        if self.nbytes > room:
            raise SonorantError(
                f"{self.path}: {self.nbytes / 2**30:.1f} GiB of features do not fit into this rank's share of free "
                f"memory ({room / 2**30:.1f} GiB); set data.preload to none or folder"
            )
        self._shards.hold()

    def fetch(self, items: Iterable[int] | np.ndarray, names: tuple[str, ...] = ARRAYS) -> None:
        """Download the shards of these utterances; see `Shards.fetch`."""
        shards = np.unique(self.index.shard[np.asarray(items, dtype=np.int64)]).tolist()
        self._shards.fetch(shards, [name for name in names if not (self._said and name == MELS)])

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep rows read in this context in memory, because downloading them per validation would evict training
        data."""
        self.keeps = True
        try:
            yield
        finally:
            self.keeps = False

    def mel(self, i: int, start: int = 0, frames: int | None = None) -> np.ndarray:
        """Return the log-mel float16 (T, M) of utterance `i`, or `frames` frames of it from `start`."""
        count = self._frames_of(i, start, frames)
        if self._said:
            return self._said.read(i, start, count)
        return self._read(MELS, i, self.index.first_frame[i] + start, count)

    def mel_and_pitch(self, i: int, start: int = 0, frames: int | None = None) -> np.ndarray:
        """Return log-mel and rows of `sonorant.audio.pitch.track_pitch`, float16 (T, M + 2)."""
        pitch = self._read(PITCH, i, self.index.first_frame[i] + start, self._frames_of(i, start, frames))
        return np.concatenate([self.mel(i, start, frames), pitch], axis=1)

    def pitch(self, i: int) -> np.ndarray:
        """Return the rows of `sonorant.audio.pitch.track_pitch`, float16 (T, 2), of utterance `i`."""
        return self._read(PITCH, i, self.index.first_frame[i], int(self.frames[i]))

    def samples(self, i: int, start: int = 0, frames: int | None = None) -> np.ndarray:
        """Return the samples int16 (T * hop,) of the frames that `mel` returns, full scale 32768, zero-padded."""
        hop = self.audio.hop
        first, count = self.index.first_frame[i] + start, self._frames_of(i, start, frames)
        return self._read(AUDIO, i, first * hop, count * hop)

    def tokens(self, i: int) -> np.ndarray:
        """Return tokens int16 (N, 3): symbol, stress, word start (see `SymbolTable`)."""
        return self._read(TOKENS, i, self.index.first_token[i], self.tokens_count[i])

    def _frames_of(self, i: int, start: int, frames: int | None) -> int:
        left = int(self.frames[i]) - start
        return left if frames is None else min(frames, left)

    def _read(self, name: str, i: int, first: int, count: int) -> np.ndarray:
        before = time.perf_counter()
        rows = self._shards.read(name, int(self.index.shard[i]), int(first), int(count), keep=self.keeps)
        self.seconds_reading += time.perf_counter() - before
        return rows

    def indices(self, split: str) -> np.ndarray:
        """Return the utterances of a split as indices int64, ascending."""
        return np.flatnonzero(self.split == self.header["splits"].index(split))

    def check(self) -> None:
        """Raise SonorantError naming the first missing shard, without reading shards."""
        self._shards.check()

    def verify(self) -> None:
        """Raise SonorantError if an array is missing or differs from its hash. Arrays in buckets are compared when
        downloaded."""
        self._shards.verify()
        if self._said and self._said.sha256 != self.header[SAID_MELS]:
            raise SonorantError(f"{self.path}: the mels do not match the header; delete this folder")

    def copy_shards(self, folder: Path) -> None:
        self._shards.copy(folder)


class SaidMels:
    """Predicted mels in one file. Raises SonorantError if it is missing or its length differs from `frames`."""

    def __init__(self, path: Path, frames: np.ndarray, bins: int) -> None:
        self._first = np.cumsum(frames) - frames
        try:
            self._file = ArrayFile(path)
        except (OSError, ValueError, EOFError) as error:
            raise SonorantError(
                f"{path}: missing or damaged ({' '.join(str(error).split())}); delete its folder"
            ) from None
        wanted = (int(frames.sum()), bins)
        if self._file.shape != wanted or self._file.dtype != np.float16:
            raise SonorantError(f"{path}: shape {self._file.shape}, expected {wanted}; delete its folder")

    def read(self, i: int, start: int, count: int) -> np.ndarray:
        """Return frames float16 (count, M) of utterance `i`."""
        return self._file.read(int(self._first[i]) + start, count)

    @property
    def sha256(self) -> str:
        return array_hash(self._file.path)


def arrays_of(audio: MelConfig) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return the dtype and row shape of each array of a shard; a row is a frame, a sample (audio) or a token."""
    return {
        MELS: (np.float16, (audio.n_mels,)),
        PITCH: (np.float16, (ROWS,)),
        AUDIO: (np.int16, ()),
        TOKENS: (np.int16, (3,)),
    }


def store_hash(path: Path) -> str:
    """Return the hex SHA-256 of the header, which contains the hashes of shards and index."""
    return sha256_tree([path / HEADER])
