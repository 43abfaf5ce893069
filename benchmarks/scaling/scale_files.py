"""Steps of `benchmarks scale` on files: recordings of half a second, from import to batch."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import torch

from benchmarks.scaling.scale_rows import PER_SPEAKER, SETTINGS, Work, condition_config, texts
from sonorant.audio.mel import MelConfig
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import read_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.features.batches import UtteranceBatches
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.features.feature_writer import write_features
from sonorant.features.plan import utterance_plan
from sonorant.features.windows import Windows
from sonorant.processes import allow_open_files
from sonorant.text import TextConfig
from tasks.params import load
from testbed.synthetic_corpus import store_beside

RATE = 8000
SECONDS = 0.5
"""Length of a recording."""
WINDOW = 64
"""Number of shards planned and read at a time, as docs/scale.md advises."""
AUDIO = MelConfig(sample_rate=RATE, n_fft=256, hop=64, n_mels=20, f_min=0.0, f_max=4000.0)


def corpus(folder: Path, utterances: int) -> Work:
    source = folder / "source"
    random, rows = np.random.default_rng(4), []
    swell = 0.1 + 0.1 * np.sin(np.arange(round(RATE * SECONDS)) / RATE * 2 * np.pi * 3)
    for number, text in enumerate(texts(utterances)):
        audio = f"{number // 1000:05d}/u{number:08d}.wav"
        (source / audio).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(source / audio, random.uniform(-1, 1, len(swell)) * swell, RATE, subtype="PCM_16")
        spoken = " ".join(text.split()[:1])
        speaker = f"s{number // PER_SPEAKER:06d}"
        rows.append(json.dumps({"audio": audio, "text": spoken, "id": f"u{number:08d}", "speaker": speaker}))
    (source / "table.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    config = CorpusConfig(kind="table", path=str(source))
    return lambda: import_corpus(source / "table.jsonl", folder / "corpus", config)


def prepare_(folder: Path, utterances: int) -> Work:
    config = replace(
        load("prepare", PrepareConfig, SETTINGS), min_seconds=0.05, min_characters_per_second=0.0, min_snr_db=None,
        max_characters_per_second=1000.0, max_rejected=0.5, validation=0.1, most_held_out=200,
    )  # fmt: skip
    return lambda: prepare(folder / "corpus", folder / "prepared", config, "gruut", condition=condition_config())


def features(folder: Path, utterances: int) -> Work:
    rows = read_manifest(folder / "prepared/manifest.jsonl")
    text = TextConfig(frontend="gruut")
    store = store_beside(folder / "features", 128)
    return lambda: write_features(folder / "corpus", rows, folder / "features", AUDIO, text, store=store)


def features_verified(folder: Path, utterances: int) -> Work:
    """The feature store read through, as by one rank per node."""
    return lambda: FeatureStore.open(folder / "features").verify()


def _opened(folder: Path) -> FeatureStore:
    """The store opened as by a training; repeated, because small corpora's files would otherwise be open already."""
    allow_open_files()
    return FeatureStore.open(folder / "features")


def batches(folder: Path, utterances: int) -> Work:
    """Batches of an epoch planned over the whole corpus and read in order: every row from another shard."""

    def work() -> None:
        store = _opened(folder)
        _read(store, store.indices("train"))

    return work


def batches_by_windows(folder: Path, utterances: int) -> Work:
    """As `batches`, by windows of shards, as for large corpora."""

    def work() -> None:
        store = _opened(folder)
        windows = Windows(store.index, store.indices("train"), None, shards=WINDOW, seed=1)
        for number in range(windows.count):
            _read(store, windows.items(number))

    return work


def _read(store: FeatureStore, items: np.ndarray) -> None:
    read = UtteranceBatches(store, utterance_plan(store.frames, items, budget=2000, seed=1, epoch=0))
    for place in range(len(read)):
        read[place]


class _Codec:
    """Returns zeros, because the codec's own work does not depend on the number of utterances."""

    codebooks, codes, stride, samples_per_frame = 2, 16, 2, 2 * AUDIO.hop
    silence = torch.zeros(2, dtype=torch.int64)

    def encode_utterance(self, known_DT: np.ndarray, samples_S: np.ndarray) -> np.ndarray:
        return np.zeros((-(-known_DT.shape[1] // self.stride), self.codebooks), dtype=np.int64)


def codes(folder: Path, utterances: int) -> Work:
    """The token store of a codec that returns zeros; a different one each time, because existing codes are reused."""
    store, codecs = FeatureStore.open(folder / "features"), itertools.count()
    return lambda: write_codes(folder / "codes", "codec_lm", store, _Codec(), f"{next(codecs):064x}")


ON_FILES: dict[str, Callable[[Path, int], Work]] = {
    "corpus": corpus,
    "prepare": prepare_,
    "features": features,
    "features_verified": features_verified,
    "batches": batches,
    "batches_by_windows": batches_by_windows,
    "codes": codes,
}
"""In this order, because each step uses an earlier one's output."""
