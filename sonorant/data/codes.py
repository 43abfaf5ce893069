"""Write and read the token store: a codec's codes of each utterance of a feature store.

A folder: `header.json`, `codes.npy` int16 (sum F, G) and `frames.npy` int64 (U,), in the order of the feature store.
Without codes it holds only a header that never changes, so no stage that depends on the folder runs again.

Shapes: U utterances, F code frames of one utterance, G codebooks."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.data.array_file import ArrayFile, ArrayWriter, array_hash, content_hash
from sonorant.data.features import FeatureStore, store_hash
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, read_json, sha256_tree, write_json
from sonorant.formerly import current_model

VERSION = 1
"""Version of the store's layout; a reader refuses any other."""
CODES, FRAMES = "codes.npy", "frames.npy"
_REPAIR = "run: dvc repro train_waveform"


class Encodes(Protocol):
    """The part of `sonorant.families.codec_lm.codec.SoundCodec` that a token store needs."""

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
    """Codes of the utterances of a feature store, by the same index.

    Attributes: `header` (contents of header.json), `frames` (int64 (U,), code frames of each utterance), `codebooks`
    (G), `codes_per_stream` (K), `stride` (mel frames a code frame), `codec` (what a language model must know of its
    codec: `codebooks`, `codes`, `stride`, `samples_per_frame`, `silence`, `sha256` of its weights), `report`
    (`bits_per_second`, `frames_per_second`, and for each codebook `use`, the fraction of its codes that occur, and
    `entropy_bits` of a code).
    """

    def __init__(self, path: Path, header: dict[str, Any], features: FeatureStore) -> None:
        self.path = path
        self.header = header
        self.codec: dict[str, Any] = header["codec"]
        self.report: dict[str, Any] = header["report"]
        sizes = (int(self.codec[key]) for key in ("codebooks", "codes", "stride"))
        self.codebooks, self.codes_per_stream, self.stride = sizes
        self._features = features
        try:
            self.frames: NDArray[np.int64] = np.load(path / FRAMES, mmap_mode="r").view(np.ndarray)
            self._codes = ArrayFile(path / CODES)
        except (OSError, ValueError, EOFError) as error:
            raise SonorantError(f"{path}: truncated or damaged ({' '.join(str(error).split())}); {_REPAIR}") from None
        if self.frames.shape != (len(features),) or self._codes.shape != (int(self.frames.sum()), self.codebooks):
            raise SonorantError(f"{path}: arrays and header do not belong together; {_REPAIR}")
        self._first = np.cumsum(self.frames) - self.frames

    @classmethod
    def open(cls, path: Path, features: FeatureStore) -> CodeStore:
        """Open the store at `path`, which must belong to `features`.

        Raises SonorantError, saying to run the stage again, for codes of other features, a family without codes,
        another version, and missing or truncated files.
        """
        header = read_header(path)
        if "codec" not in header:
            raise SonorantError(f"{path}: holds no codes, as written with voice.family {header['family']}; {_REPAIR}")
        if header.get("features") != store_hash(features.path):
            raise SonorantError(f"{path}: codes of other features than {features.path}; {_REPAIR}")
        return cls(path, header, features)

    def __reduce__(self) -> tuple[Any, ...]:
        return CodeStore.open, (self.path, self._features)

    def __len__(self) -> int:
        return len(self.frames)

    def codes(self, i: int) -> np.ndarray:
        """Codes int16 (F, G) of utterance `i`."""
        return self._codes.read(int(self._first[i]), int(self.frames[i]))

    def verify(self) -> None:
        """Read everything and compare it with the header's hash. Raises SonorantError if a byte has changed."""
        if content_hash([array_hash(self.path / name) for name in (CODES, FRAMES)]) != self.header["content"]:
            raise SonorantError(f"{self.path}: the arrays are not those the header was written for; {_REPAIR}")


def code_hash(path: Path) -> str:
    """Hex SHA-256 of the store at `path`; the header holds the hash of the arrays."""
    return sha256_tree([path / "header.json"])


def read_header(path: Path) -> dict[str, Any]:
    """The header.json of the store at `path`. Raises SonorantError if it is missing or of another version."""
    header = read_json(path / "header.json")
    header = current_model(header, path) if isinstance(header, dict) else header
    if not isinstance(header, dict) or header.get("version") != VERSION or "family" not in header:
        found = header.get("version") if isinstance(header, dict) else None
        raise SonorantError(f"{path}: token store of version {found}, this code reads {VERSION}; {_REPAIR}")
    return header


def write_no_codes(out: Path, family: str) -> None:
    """Write the store of a family without codes: a header that never changes."""
    with atomic_folder(out) as folder:
        write_json(folder / "header.json", {"version": VERSION, "family": family})


def write_codes(out: Path, family: str, features: FeatureStore, codec: Encodes, sha256: str) -> None:
    """Encode every utterance of `features` and write the store `out`, atomically. `sha256`: of the codec's weights.

    Codes are written as they come, so memory does not grow with the corpus. Raises SonorantError naming an utterance
    whose number of code frames does not match the codec's stride.
    """
    from tqdm import tqdm  # not needed where codes are only read

    used_GK = np.zeros((codec.codebooks, codec.codes), dtype=np.int64)
    with atomic_folder(out) as folder, ExitStack() as stack:
        codes = stack.enter_context(ArrayWriter(folder / CODES, np.int16, (codec.codebooks,)))
        frames = stack.enter_context(ArrayWriter(folder / FRAMES, np.int64))
        for i in tqdm(range(len(features)), desc="codes", unit="utterance"):
            codes_FG = _encoded(codec, features, i)
            used_GK += [np.bincount(stream_F, minlength=codec.codes) for stream_F in codes_FG.T]
            codes.append(codes_FG)
            frames.append(np.array([len(codes_FG)]))
        stack.close()
        header = {
            "version": VERSION,
            "family": family,
            "features": store_hash(features.path),
            "content": content_hash([codes.sha256, frames.sha256]),
            "codec": {
                "codebooks": codec.codebooks,
                "codes": codec.codes,
                "stride": codec.stride,
                "samples_per_frame": codec.samples_per_frame,
                "silence": codec.silence.tolist(),
                "sha256": sha256,
            },
            "report": _report(used_GK, codec.samples_per_frame / features.audio.sample_rate),
        }
        write_json(folder / "header.json", header)


def _encoded(codec: Encodes, features: FeatureStore, i: int) -> NDArray[np.int16]:
    known_DT = np.ascontiguousarray(features.mel_and_pitch(i).T, dtype=np.float32)
    codes_FG = codec.encode_utterance(known_DT, np.array(features.samples(i) / 32768, dtype=np.float32))
    wanted = (-(-int(features.frames[i]) // codec.stride), codec.codebooks)
    if codes_FG.shape != wanted:
        raise SonorantError(
            f"utterance '{features.ids[i]}': the codec makes codes {codes_FG.shape} of it, not {wanted}; "
            "it cannot be used with these features"
        )
    return codes_FG.astype(np.int16)


def _report(used_GK: np.ndarray, frame_seconds: float) -> dict[str, Any]:
    """`used_GK`: how often each code of each codebook occurs."""
    codebooks, codes = used_GK.shape
    share_GK = used_GK / used_GK.sum(1, keepdims=True)
    entropy_G = -(share_GK * np.log2(np.where(share_GK > 0, share_GK, 1.0))).sum(1)
    return {
        "frames_per_second": 1.0 / frame_seconds,
        "bits_per_second": round(codebooks * math.log2(codes) / frame_seconds, 1),
        "use": [round(float(used), 4) for used in (used_GK > 0).mean(1)],
        "entropy_bits": [round(float(bits), 3) for bits in entropy_G],
    }
