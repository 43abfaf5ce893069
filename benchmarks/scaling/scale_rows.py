"""Steps of `benchmarks scale` on rows: synthetic manifests and indexes as complete as real ones."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.processes import ROOT
from sonorant.audio.conditioning import ConditionConfig, Conditioning, Level
from sonorant.audio.measures import Measures
from sonorant.corpus.manifest import SPLITS, Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation.summary import summarize, summary_page
from sonorant.corpus.splits import beyond, split_key, split_of
from sonorant.features.code_batches import Prompts
from sonorant.features.feature_store import ARRAYS
from sonorant.features.grouping import leaves
from sonorant.features.index import Index, Rows, write_index
from sonorant.features.plan import MicroBatch, Plan, utterance_plan
from sonorant.files import atomic_folder, read_json, write_json
from sonorant.training.distributed.ledger import Ledger
from sonorant.training.distributed.ranks import Ranks
from tasks.params import load

SETTINGS = ROOT / "params.yaml"
PER_SPEAKER = 108
"""Utterances per speaker, as in LibriTTS-R."""
PER_SHARD = 1024
BUDGET = 8000
"""Frames per micro-batch; an utterance has 100 to 1000."""
Work = Callable[[], object]


def words() -> list[str]:
    prompts = (ROOT / "corpora/demo/prompts.txt").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"[a-z]{3,}", prompts)))


def texts(utterances: int) -> Iterator[str]:
    known, random = words(), np.random.default_rng(1)
    for _ in range(utterances):
        yield " ".join(known[word] for word in random.integers(0, len(known), 9).tolist())


def prepared(utterances: int) -> Iterator[Utterance]:
    random = np.random.default_rng(2)
    for number, text in enumerate(texts(utterances)):
        seconds, snr, loudness, pitch = random.uniform((1, 20, -30, 80), (10, 60, -15, 300)).round(2).tolist()
        level = Level(seconds=seconds, loudness=loudness, true_peak=-3.0, dc=0.0)
        measures = Measures(
            speech_seconds=seconds, snr_db=snr, noise_floor_db=-60.0, reverberation=0.2, bandwidth_hz=7800.0,
            hum_db=3.0, clipped=0.0, soft_clipped=0.0, dc=0.0, pitch_hz=pitch,
            spectrum=tuple(random.normal(0, 5, 14).round(1).tolist()),
        )  # fmt: skip
        yield Utterance(
            id=f"u{number:08d}", audio=f"audio/{number // 1000:05d}/u{number:08d}.wav", text=text, spoken=text,
            speaker=f"s{number // PER_SPEAKER:06d}", language="en-us", seconds=seconds, sample_rate=24000,
            channels="mono", sha256=hashlib.sha256(text.encode()).hexdigest(), clip=f"{number:016x}", measures=measures,
            conditioning=Conditioning(before=level, after=level, gain_db=1.0),
            split=split_of(text, validation=0.02, test=0.02),
        )  # fmt: skip


def condition_config() -> ConditionConfig:
    return load("condition", ConditionConfig, SETTINGS)


def manifest_written(folder: Path, utterances: int) -> Work:
    rows = list(prepared(utterances))
    return lambda: write_manifest(folder / "rows.jsonl", rows)


def manifest_read(folder: Path, utterances: int) -> Work:
    """The whole manifest, as `features` and `audit` read it."""
    return lambda: read_manifest(folder / "rows.jsonl")


def splits(folder: Path, utterances: int) -> Work:
    """Each utterance's split, with limited held-out sets."""
    rows = list(prepared(utterances))

    def work() -> None:
        for row in rows:
            split_of(split_key(row, "text"), validation=0.02, test=0.02)
        beyond(rows, "text", 200)

    return work


def summary(folder: Path, utterances: int) -> Work:
    held_out = {row.id for row in list(prepared(utterances))[:: max(1, utterances // 200)]}
    rows = [replace(row, split="test" if row.id in held_out else "train") for row in prepared(utterances)]
    condition = condition_config()

    def work() -> None:
        figures = summarize(rows, [], condition) | {"warnings": []}
        levels = [(row, -20.0) for row in rows]
        summary_page(figures, accepted=levels, rejected=[], condition=condition)

    return work


def index_rows(utterances: int) -> Rows:
    """The index of a feature store, with 1 in 50 utterances held out."""
    numbers = np.arange(utterances)
    frames = np.random.default_rng(3).integers(100, 1001, utterances)
    ids = [f"u{number:08d}" for number in range(utterances)]
    shards = leaves(ids, PER_SHARD)
    return Rows(
        ids=ids,
        split=np.where(numbers % 50 == 0, SPLITS.index("test"), SPLITS.index("train")),
        speaker=numbers // PER_SPEAKER,
        frames=frames,
        tokens=frames // 8,
        shards=shards,
        objects=np.zeros((len(shards), len(ARRAYS), 32), np.uint8),
    )


def index_written(folder: Path, utterances: int) -> Work:
    rows = index_rows(utterances)

    def work() -> None:
        with atomic_folder(folder / "rows") as store:
            write_json(store / "header.json", {"index": write_index(store, rows)})

    return work


def _index(folder: Path) -> Index:
    return Index.open(folder / "rows", read_json(folder / "rows/header.json")["index"])


def index_opened(folder: Path, utterances: int) -> Work:
    """The index opened by a rank, including its hash."""
    return lambda: _index(folder)


def _planned(index: Index) -> Callable[[int], list[MicroBatch]]:
    items = np.flatnonzero(index.split == SPLITS.index("train"))
    return lambda epoch: utterance_plan(index.frames, items, budget=BUDGET, seed=1, epoch=epoch)


def plan(folder: Path, utterances: int) -> Work:
    planned = _planned(_index(folder))
    return lambda: planned(1)


class _Alone(Ranks):
    """A rank without peers."""

    def gather(self, value: Any) -> list[Any]:
        return [value]


def ledger(folder: Path, utterances: int) -> Work:
    """The ledger opened, as at every start and resume, with the plans that it requests."""
    planned = _planned(_index(folder))
    opened = Ledger(_Alone(0, 1, 0, torch.device("cpu")))
    return lambda: opened.open(Plan(2, planned), 1, 0)


class _Codes:
    codebooks = 2

    def __init__(self, frames: np.ndarray) -> None:
        self.frames = frames
        self._codes = np.zeros((1000, 2), dtype=np.int16)

    def codes(self, i: int) -> np.ndarray:
        return self._codes[: self.frames[i]]


def prompts(folder: Path, utterances: int) -> Work:
    index = _index(folder)
    store: Any = SimpleNamespace(speaker=index.speaker, split=index.split, header={"splits": SPLITS})
    codes: Any = _Codes(index.frames // 2)

    def work() -> None:
        drawn = Prompts(store, codes, 50, 1)
        for first in range(0, utterances, 16):
            drawn.draw(MicroBatch(1, first, np.arange(first, min(first + 16, utterances))))

    return work


ON_ROWS: dict[str, Callable[[Path, int], Work]] = {
    "manifest_written": manifest_written,
    "manifest_read": manifest_read,
    "splits": splits,
    "summary": summary,
    "index_written": index_written,
    "index_opened": index_opened,
    "plan": plan,
    "ledger": ledger,
    "prompts": prompts,
}
