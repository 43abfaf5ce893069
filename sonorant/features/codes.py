"""The token store: codec codes of every utterance of a feature store.

A folder with `header.json`, `frames.npy` int64 (U,) in the order of the feature store, and `objects.npy` uint8 (K, 1,
32), the SHA-256 of each shard's codes, int16 (sum F, G), which are in the features' store. For a family without codes,
the header never changes, so that no later stage reruns.

Shapes: U utterances, K shards, F code frames of an utterance, G codebooks.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.corpus.cache import code_of, key_of
from sonorant.errors import SonorantError
from sonorant.features.array_file import ArrayWriter, array_hash, content_hash
from sonorant.features.computing import complete, use_one_thread
from sonorant.features.feature_store import ARRAYS, AUDIO, MELS, PITCH, FeatureStore, store_hash
from sonorant.features.shards import Shards
from sonorant.features.store import Place, open_store
from sonorant.features.store.marks import KEYS, mark, packed
from sonorant.features.store.shard_files import Shard, write_shard
from sonorant.files import atomic_folder, read_json, sha256_tree, write_json

VERSION = 1
"""Version of the store's layout; different versions are rejected."""
CODES, FRAMES, OBJECTS = "codes", "frames.npy", "objects.npy"
_REPAIR = "run: dvc repro train_waveform"
_FRAMES, _USED = "frames", "used"
"""Keys in a shard's rows: code frames of each utterance; number of occurrences of each code."""
_REMAKE = "dvc repro --force --single-item train_waveform"


class Encodes(Protocol):
    """The part of `sonorant.extras.codec_lm.codec.Codec` that a token store needs."""

    @property
    def codebooks(self) -> int: ...

    @property
    def codes(self) -> int: ...

    @property
    def stride(self) -> int: ...

    @property
    def samples_per_frame(self) -> int: ...

    @property
    def silence(self) -> torch.Tensor: ...

    def encode_utterance(self, known_DT: NDArray[np.float32], samples_S: NDArray[np.float32]) -> NDArray[np.int64]: ...


class CodeStore:
    """Codes of the utterances of a feature store, with the same indices.

    Attributes: `frames` (int64 (U,)), `codebooks` (G), `codes_per_stream`, `stride` (mel frames per code frame),
    `codec` (with `silence`, and `sha256` of the weights), `report` (per codebook `use`, the fraction of codes that
    occur, and `entropy_bits`).
    """

    def __init__(self, path: Path, header: dict[str, Any], features: FeatureStore) -> None:
        self.path = path
        self.header = header
        self.codec: dict[str, Any] = header["codec"]
        self.report: dict[str, Any] = header["report"]
        sizes = (int(self.codec[key]) for key in ("codebooks", "codes", "stride"))
        self.codebooks, self.codes_per_stream, self.stride = sizes
        self._features = features
        self.frames = _loaded(path, FRAMES)
        index, objects = features.index, self.objects_of(path)
        if self.frames.shape != (len(features),) or objects.shape != (len(index.shard_ends), 1, 32):
            raise SonorantError(f"{path}: arrays and header do not match; {_REPAIR}")
        arrays = {CODES: (np.int16, (self.codebooks,))}
        self._shards = Shards(path, Place.read(path, _REPAIR), objects, arrays, _REMAKE)

    @classmethod
    def open(cls, path: Path, features: FeatureStore) -> CodeStore:
        """Open the store at `path`. Raises SonorantError if it has a different version, contains no codes or codes of
        different features, or is damaged."""
        header = read_header(path)
        if "codec" not in header:
            raise SonorantError(
                f"{path}: contains no codes, because it was written with voice.family {header['family']}; {_REPAIR}"
            )
        if header.get("features") != store_hash(features.path):
            raise SonorantError(f"{path}: contains codes of other features than {features.path}; {_REPAIR}")
        return cls(path, header, features)

    @staticmethod
    def objects_of(path: Path) -> NDArray[np.uint8]:
        """Return the SHA-256 of each shard's codes, uint8 (K, 1, 32). Raises SonorantError if the file is damaged."""
        return _loaded(path, OBJECTS)

    def __reduce__(self) -> tuple[Any, ...]:
        return CodeStore.open, (self.path, self._features)

    def __len__(self) -> int:
        return len(self.frames)

    def codes(self, i: int) -> np.ndarray:
        """Return codes int16 (F, G) of utterance `i`."""
        index = self._features.index
        shard = int(index.shard[i])
        # Offsets of all utterances together would take seconds and gigabytes in each loader.
        members = index.in_shard(shard)
        before = members[: int((members == i).argmax())]
        first, keep = int(self.frames[before].sum()), self._features.keeps
        return self._shards.read(CODES, shard, first, int(self.frames[i]), keep=keep)

    def fetch(self, items: Iterable[int] | np.ndarray) -> None:
        self._shards.fetch(np.unique(self._features.index.shard[np.asarray(items, dtype=np.int64)]).tolist(), (CODES,))

    def verify(self) -> None:
        if content_hash([array_hash(self.path / name) for name in (OBJECTS, FRAMES)]) != self.header["content"]:
            raise SonorantError(f"{self.path}: the arrays do not match the header; {_REPAIR}")
        self._shards.verify()


def _loaded(path: Path, name: str) -> np.ndarray:
    try:
        return np.load(path / name, mmap_mode="r").view(np.ndarray)
    except (OSError, ValueError, EOFError) as error:
        raise SonorantError(f"{path}: truncated or damaged ({' '.join(str(error).split())}); {_REPAIR}") from None


def code_hash(path: Path) -> str:
    """Return the hex SHA-256 of the header, which contains the arrays' hash."""
    return sha256_tree([path / "header.json"])


def read_header(path: Path) -> dict[str, Any]:
    """Read header.json. Raises SonorantError if it is missing or has a different version."""
    header = read_json(path / "header.json")
    if not isinstance(header, dict) or header.get("version") != VERSION or "family" not in header:
        found = header.get("version") if isinstance(header, dict) else None
        raise SonorantError(f"{path}: token store has version {found}, but this code reads {VERSION}; {_REPAIR}")
    return header


def write_no_codes(out: Path, family: str) -> None:
    with atomic_folder(out) as folder:
        write_json(folder / "header.json", {"version": VERSION, "family": family})


def write_codes(
    out: Path, family: str, features: FeatureStore, codec: Encodes, sha256: str, processes: int | None = None
) -> None:
    """Encode the utterances of `features` that are not in the store yet, and write `out` atomically.

    `sha256`: hash of the codec's weights; `processes`: as in `spread`. Raises SonorantError if an utterance's number of
    code frames does not match the codec's stride.
    """
    described = {
        "codebooks": codec.codebooks,
        "codes": codec.codes,
        "stride": codec.stride,
        "samples_per_frame": codec.samples_per_frame,
        "silence": codec.silence.tolist(),
        "sha256": sha256,
    }
    keys = _keys(features, codec, described)
    store = open_store(features.place.store)
    mark(store, keys)
    frames_U = np.zeros(len(features), dtype=np.int64)
    used_GK = np.zeros((codec.codebooks, codec.codes), dtype=np.int64)
    objects = np.zeros((len(keys), 1, 32), dtype=np.uint8)
    shards = complete(
        features.place.store,
        keys,
        list(enumerate(keys)),
        [len(features.index.in_shard(number)) for number in range(len(keys))],
        _encode,
        label="codes",
        processes=1 if torch.cuda.is_available() else processes,
        reads=(features.path / "header.json",),
        prepare=_prepare,
        arguments=(pickle.dumps((features, codec)),),  # by value, because torch's pickling shares memory
    )
    for number, shard in enumerate(shards):
        frames_U[features.index.in_shard(number)] = shard.rows[_FRAMES]
        used_GK += np.array(shard.rows[_USED])
        objects[number, 0] = list(bytes.fromhex(shard.objects[CODES]))
    with atomic_folder(out) as folder:
        for name, array in ((FRAMES, frames_U), (OBJECTS, objects)):
            np.save(folder / name, array)
        (folder / KEYS).write_bytes(packed(keys))
        features.place.seen_from(out).write(folder)
        header = {
            "version": VERSION,
            "family": family,
            "features": store_hash(features.path),
            "content": content_hash([array_hash(folder / name) for name in (OBJECTS, FRAMES)]),
            "codec": described,
            "report": _report(used_GK, codec.samples_per_frame / features.audio.sample_rate),
        }
        write_json(folder / "header.json", header)


def _keys(features: FeatureStore, codec: Encodes, described: dict[str, Any]) -> list[str]:
    import sonorant.layers

    # A GPU rounds differently, so its codes may differ.
    device = {"device": "cuda"} if torch.cuda.is_available() else {}
    shared = key_of(VERSION, described | device, code_of(*modules_of(type(codec)), sonorant.layers))
    heard = [number for number, name in enumerate(ARRAYS) if name in (MELS, PITCH, AUDIO)]
    return [
        key_of(shared, [objects[number].tobytes().hex() for number in heard])
        for objects in features.index.shard_objects
    ]


def modules_of(kind: type) -> list[ModuleType]:
    names = {one.__module__ for one in kind.__mro__ if one is kind or one.__module__.startswith("sonorant.")}
    return [sys.modules[name] for name in sorted(names)]


_given: tuple[FeatureStore, Encodes]


def _prepare(content: bytes) -> None:
    global _given
    use_one_thread()
    _given = pickle.loads(content)


def _encode(work: tuple[int, str]) -> Shard:
    (features, codec), (shard, key) = _given, work
    store = open_store(features.place.store)
    rows: dict[str, list[Any]] = {_FRAMES: [], _USED: []}
    used_GK = np.zeros((codec.codebooks, codec.codes), dtype=np.int64)
    with store.draft() as folder:
        file = folder / f"{CODES}.npy"
        with ArrayWriter(file, np.int16, (codec.codebooks,)) as codes:
            for i in features.index.in_shard(shard).tolist():
                codes_FG = _encoded(codec, features, i)
                used_GK += [np.bincount(stream_F, minlength=codec.codes) for stream_F in codes_FG.T]
                codes.append(codes_FG)
                rows[_FRAMES].append(len(codes_FG))
        rows[_USED] = used_GK.tolist()
        return write_shard(store, key, {CODES: file}, rows)


def _encoded(codec: Encodes, features: FeatureStore, i: int) -> NDArray[np.int16]:
    known_DT = np.ascontiguousarray(features.mel_and_pitch(i).T, dtype=np.float32)
    codes_FG = codec.encode_utterance(known_DT, np.array(features.samples(i) / 32768, dtype=np.float32))
    wanted = (-(-int(features.frames[i]) // codec.stride), codec.codebooks)
    if codes_FG.shape != wanted:
        raise SonorantError(
            f"utterance '{features.ids[i]}': the codec returns codes {codes_FG.shape}, expected {wanted}; "
            "use a codec that was made for these features"
        )
    return codes_FG.astype(np.int16)


def _report(used_GK: np.ndarray, frame_seconds: float) -> dict[str, Any]:
    codebooks, codes = used_GK.shape
    share_GK = used_GK / used_GK.sum(1, keepdims=True)
    entropy_G = -(share_GK * np.log2(np.where(share_GK > 0, share_GK, 1.0))).sum(1)
    return {
        "frames_per_second": 1.0 / frame_seconds,
        "bits_per_second": round(codebooks * math.log2(codes) / frame_seconds, 1),
        "use": [round(float(used), 4) for used in (used_GK > 0).mean(1)],
        "entropy_bits": [round(float(bits), 3) for bits in entropy_G],
    }
