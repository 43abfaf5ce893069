"""The steps that `benchmarks.scale` measures, each in a process of its own: python -m benchmarks.scale_steps STEP.

Steps on rows work on synthetic manifests and indexes, steps on files on recordings of half a second. What a step needs
is made before it is measured.
"""

import gc
import hashlib
import json
import os
import re
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import soundfile
import torch

from benchmarks.processes import ROOT, answer, memory_mib
from sonorant.audio.conditioning import ConditionConfig, Conditioning, Level
from sonorant.audio.measures import Measures
from sonorant.audio.mel import MelConfig
from sonorant.data.batches import UtteranceBatches
from sonorant.data.code_batches import Prompts
from sonorant.data.codes import write_codes
from sonorant.data.corpora import CorpusConfig, import_corpus
from sonorant.data.feature_writer import write_features
from sonorant.data.features import FeatureStore
from sonorant.data.index import Index, write_index
from sonorant.data.manifest import SPLITS, Utterance, read_manifest, write_manifest
from sonorant.data.plan import MicroBatch, Plan, utterance_plan
from sonorant.data.preparation import PrepareConfig, prepare
from sonorant.data.preparation.speakers import summarize_speakers
from sonorant.data.preparation.summary import summarize, summary_page
from sonorant.data.splits import beyond, split_key, split_of
from sonorant.files import atomic_folder, read_json, write_json
from sonorant.text import TextConfig
from sonorant.training.distributed.ledger import Ledger
from sonorant.training.distributed.ranks import Ranks
from tasks.params import load

SETTINGS = ROOT / "params.yaml"
PER_SPEAKER = 108
"""Utterances, as in LibriTTS-R."""
RATE = 8000
SECONDS = 0.5
"""Of a recording."""
AUDIO = MelConfig(sample_rate=RATE, n_fft=256, hop=64, n_mels=20, f_min=0.0, f_max=4000.0)
BUDGET = 8000
"""Frames of a micro-batch; an utterance has 100 to 1000."""
LONG_ENOUGH = 5.0
"""CPU seconds from which a step is not measured again."""
REPEATED = 3
Work = Callable[[], object]
"""May be done again."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A step to measure."""

    utterances: int
    folder: str
    """Where the steps of this size leave what the next ones take."""


def measured(prepare_step: Callable[[Path, int], Work], job: Job) -> dict[str, float | None]:
    """CPU seconds of this process and of those it started, bytes of memory at most and files left, of what
    `prepare_step` returns: the least CPU time of up to `REPEATED` times, and of the first time memory (None where the
    system does not tell) and files."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    work = prepare_step(folder, job.utterances)
    gc.collect()
    files, before = _files(folder), _forget_peak()
    spent = [_spent(work)]
    peak = memory_mib("VmHWM")
    memory = None if before is None or peak is None else max(0.0, peak - before) * 2**20
    left = _files(folder) - files
    while sum(spent) < LONG_ENOUGH and len(spent) < REPEATED:
        spent.append(_spent(work))
    return {"cpu_seconds": min(spent), "bytes": memory, "files": left}


def _spent(work: Work) -> float:
    before = _cpu()
    work()
    return _cpu() - before


def _cpu() -> float:
    """CPU seconds of this process and of those that it started and saw end."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _forget_peak() -> float | None:
    """MiB of this process now, from which its peak is counted."""
    forget = Path("/proc/self/clear_refs")
    if not os.access(forget, os.W_OK):
        return None
    forget.write_text("5")
    return memory_mib("VmRSS")


def _files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def words() -> list[str]:
    """Words that the frontend knows."""
    prompts = (ROOT / "corpora/demo/prompts.txt").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"[a-z]{3,}", prompts)))


def texts(utterances: int) -> Iterator[str]:
    """Nine words each, drawn anew."""
    known, random = words(), np.random.default_rng(1)
    for _ in range(utterances):
        yield " ".join(known[word] for word in random.integers(0, len(known), 9).tolist())


def prepared(utterances: int) -> Iterator[Utterance]:
    """Utterances as `prepare` leaves them."""
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


def _condition() -> ConditionConfig:
    return load("condition", ConditionConfig, SETTINGS)


def manifest_written(folder: Path, utterances: int) -> Work:
    """`manifest.jsonl`."""
    rows = list(prepared(utterances))
    return lambda: write_manifest(folder / "rows.jsonl", rows)


def manifest_read(folder: Path, utterances: int) -> Work:
    """All of it, as `features` and `audit` take it."""
    return lambda: read_manifest(folder / "rows.jsonl")


def splits(folder: Path, utterances: int) -> Work:
    """Each utterance's split, and held-out sets capped."""
    rows = list(prepared(utterances))

    def work() -> None:
        for row in rows:
            split_of(split_key(row, "text"), validation=0.02, test=0.02)
        beyond(rows, "text", 200)

    return work


def summary(folder: Path, utterances: int) -> Work:
    """Figures and page of a prepared corpus."""
    held_out = {row.id for row in list(prepared(utterances))[:: max(1, utterances // 200)]}
    rows = [replace(row, split="test" if row.id in held_out else "train") for row in prepared(utterances)]
    condition = _condition()

    def work() -> None:
        figures = summarize(rows, Counter(), condition)
        figures |= {"by_speaker": summarize_speakers(rows, []), "warnings": []}
        levels = [(row, -20.0) for row in rows]
        summary_page(figures, accepted=levels, rejected=[], unplaced=None, condition=condition)

    return work


def index_rows(utterances: int) -> Iterator[dict[str, Any]]:
    """The index of a feature store, 1 in 50 held out."""
    random = np.random.default_rng(3)
    for number in range(utterances):
        split, frames = SPLITS.index("test" if number % 50 == 0 else "train"), int(random.integers(100, 1001))
        numbers = {"speaker": number // PER_SPEAKER, "split": split, "frames": frames, "tokens": frames // 8}
        yield {"id": f"u{number:08d}", **numbers}


def index_written(folder: Path, utterances: int) -> Work:
    """The columns of a feature store."""
    rows = list(index_rows(utterances))

    def work() -> None:
        with atomic_folder(folder / "rows") as store:
            write_json(store / "header.json", {"index": write_index(store, rows)})

    return work


def _index(folder: Path) -> Index:
    return Index.open(folder / "rows", read_json(folder / "rows/header.json")["index"])


def index_opened(folder: Path, utterances: int) -> Work:
    """By a rank, hash and all."""
    return lambda: _index(folder)


def _planned(index: Index) -> Callable[[int], list[MicroBatch]]:
    items = np.flatnonzero(index.split == SPLITS.index("train"))
    return lambda epoch: utterance_plan(index.frames, items, budget=BUDGET, seed=1, epoch=epoch)


def plan(folder: Path, utterances: int) -> Work:
    """Of an epoch."""
    planned = _planned(_index(folder))
    return lambda: planned(1)


class _Alone(Ranks):
    """A rank without peers."""

    def gather(self, value: Any) -> list[Any]:
        return [value]


def ledger(folder: Path, utterances: int) -> Work:
    """Opened, as at every start and resume, with the plans that it asks for."""
    planned = _planned(_index(folder))
    opened = Ledger(_Alone(0, 1, 0, torch.device("cpu")))
    return lambda: opened.open(Plan(2, planned), 1, 0)


class _Codes:
    """Codes of a language model, all alike."""

    codebooks = 2

    def __init__(self, frames: np.ndarray) -> None:
        self.frames = frames
        self._codes = np.zeros((1000, 2), dtype=np.int16)

    def codes(self, i: int) -> np.ndarray:
        return self._codes[: self.frames[i]]


def prompts(folder: Path, utterances: int) -> Work:
    """Grouped once, and drawn for each row of an epoch."""
    index = _index(folder)
    store: Any = SimpleNamespace(speaker=index.speaker, split=index.split, header={"splits": SPLITS})
    codes: Any = _Codes(index.frames // 2)

    def work() -> None:
        drawn = Prompts(store, codes, 50, 1)
        for first in range(0, utterances, 16):
            drawn.draw(MicroBatch(1, first, np.arange(first, min(first + 16, utterances))))

    return work


def corpus(folder: Path, utterances: int) -> Work:
    """A table of recordings imported."""
    source = folder / "source"
    random, rows = np.random.default_rng(4), []
    swell = 0.1 + 0.1 * np.sin(np.arange(round(RATE * SECONDS)) / RATE * 2 * np.pi * 3)
    for number, text in enumerate(texts(utterances)):
        audio = f"{number // 1000:05d}/u{number:08d}.wav"
        (source / audio).parent.mkdir(parents=True, exist_ok=True)
        if not (source / audio).exists():
            soundfile.write(source / audio, random.uniform(-1, 1, len(swell)) * swell, RATE, subtype="PCM_16")
        spoken = " ".join(text.split()[:1])
        speaker = f"s{number // PER_SPEAKER:06d}"
        rows.append(json.dumps({"audio": audio, "text": spoken, "id": f"u{number:08d}", "speaker": speaker}))
    (source / "table.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    config = CorpusConfig(kind="table", path=str(source))
    return lambda: import_corpus(source / "table.jsonl", folder / "corpus", config)


def prepare_(folder: Path, utterances: int) -> Work:
    """The stage `prepare`: every recording examined."""
    config = replace(
        load("prepare", PrepareConfig, SETTINGS), min_seconds=0.05, min_characters_per_second=0.0, min_snr_db=None,
        max_characters_per_second=1000.0, split_by="id", max_rejected=0.5, most_held_out=200,
    )  # fmt: skip
    return lambda: prepare(folder / "corpus", folder / "prepared", config, "gruut", condition=_condition())


def features(folder: Path, utterances: int) -> Work:
    """The feature store."""
    rows = read_manifest(folder / "prepared/manifest.jsonl")
    text = TextConfig(frontend="gruut")
    return lambda: write_features(folder / "corpus", rows, folder / "features", AUDIO, text)


def features_verified(folder: Path, utterances: int) -> Work:
    """Read through, as by one rank of each node."""
    return lambda: FeatureStore.open(folder / "features").verify()


def batches(folder: Path, utterances: int) -> Work:
    """An epoch's batches, read in their order."""
    store = FeatureStore.open(folder / "features")
    items = store.indices("train")
    read = UtteranceBatches(store, utterance_plan(store.frames, items, budget=2000, seed=1, epoch=0))

    def work() -> None:
        for place in range(len(read)):
            read[place]

    return work


class _Codec:
    """Says zeros: the codec's own work does not depend on how many utterances there are."""

    codebooks, codes, stride, samples_per_frame = 2, 16, 2, 2 * AUDIO.hop
    silence = torch.zeros(2, dtype=torch.int64)

    def encode_utterance(self, known_DT: np.ndarray, samples_S: np.ndarray) -> np.ndarray:
        return np.zeros((-(-known_DT.shape[1] // self.stride), self.codebooks), dtype=np.int64)


def codes(folder: Path, utterances: int) -> Work:
    """The token store, by a codec that says zeros."""
    store = FeatureStore.open(folder / "features")
    return lambda: write_codes(folder / "codes", "codec_lm", store, _Codec(), "0" * 64)


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
ON_FILES: dict[str, Callable[[Path, int], Work]] = {
    "corpus": corpus,
    "prepare": prepare_,
    "features": features,
    "features_verified": features_verified,
    "batches": batches,
    "codes": codes,
}
"""In this order: each takes what an earlier one left."""


def main() -> None:
    """Measure the step that the command line names."""
    steps = {**ON_ROWS, **ON_FILES}
    answer(Job, {name: lambda job, step=step: measured(step, job) for name, step in steps.items()})  # type: ignore[misc]


if __name__ == "__main__":
    main()
