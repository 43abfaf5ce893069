"""What a corpus of so many hours takes before it can be trained on: time, memory, disk and money.

What grows with the speech is measured on recordings that are here. What grows with the number of utterances was
measured by `benchmarks scale` on a million of them. The rest is multiplication: nothing of it has run.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

from sonorant.audio.conditioning import ConditionConfig
from sonorant.audio.mel import MelConfig
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.corpus.preparation import PrepareConfig
from sonorant.corpus.preparation.prepare import examine
from sonorant.errors import SonorantError
from sonorant.features.feature_shards import Job, Work, write
from sonorant.features.index import COLUMNS
from sonorant.features.threads import one_thread
from sonorant.text import TextConfig

Result = TypeVar("Result")
AUDIT = 40.0
"""CPU seconds of the stage `audit` an hour of speech, with the source `aligner`; measured on an hour of a person."""
ALIGNERS = 350.0
"""CPU seconds in which its aligners learn, whatever the corpus; measured there."""
LISTED: dict[str, tuple[float, float]] = {
    "corpus": (259.0, 873.0),
    "prepare": (0.0, 3181.0),
    "manifest_written": (3 * 74.0, 2.0),
    "manifest_read": (3 * 137.0, 2715.0),
    "splits": (6.7, 224.0),
    "summary": (37.0, 321.0),
    "index_written": (0.2, 189.0),
    "index_opened": (0.1, 1.0),
    "plan": (0.4, 62.0),
    "ledger": (2.2, 93.0),
}
"""Steps that one process does for all utterances: CPU microseconds and bytes of memory for each; `benchmarks scale`, of
a million, on an AMD EPYC. Three stages write and read a manifest; what `prepare` examines is spread, and counted so."""
OF_CORPUS, OF_WINDOW = ("index_opened",), ("plan", "ledger")
"""Those of them that every rank does at the start and when it is resumed: for the whole corpus, and for a window, or
where there are none for the whole corpus too."""
OF_INDEX = sum(
    np.dtype(COLUMNS[name]).itemsize for name in COLUMNS if name not in {"shard_ends", "shard_objects", "id_bytes"}
)
"""Bytes of an utterance in the index, beside its id."""
FULL = 0.7
"""How full shards are on average: leaves of a trie that are halved while they are too full."""
OBJECTS = 5
"""Files of a shard: four arrays, and one that says that it is whole."""
LARGE = 1000.0
"""Hours from which shards are larger and nodes read by windows."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What an hour of speech takes, measured on recordings here, one after the other on one core."""

    recordings: int
    """That were measured."""
    utterance_seconds: float
    """Mean length, conditioned."""
    prepare: float
    """CPU seconds in which it is examined."""
    features: float
    """CPU seconds in which its features are computed and written."""
    recordings_gb: float
    """Of the files as they are."""
    store_gb: float
    """Of the features."""
    id_bytes: float
    """Mean length of an id."""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What prepares a corpus. Raises SonorantError for numbers that are none."""

    cores: int
    """Of each."""
    machines: int = 1
    price: float | None = None
    """Of an hour of one machine, in any currency."""
    gb_month: float | None = None
    """Price of a gigabyte in the store for a month."""

    def __post_init__(self) -> None:
        if self.cores < 1 or self.machines < 1:
            raise SonorantError(f"{self.machines} machines of {self.cores} cores: both must be at least 1")
        for name in ("price", "gb_month"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise SonorantError(f"--{name.replace('_', '-')} {value:g}: give a price of at least 0")


def measure(
    corpus: Path,
    prepared: Path,
    most: int,
    *,
    config: PrepareConfig,
    condition: ConditionConfig,
    text: TextConfig,
    audio: MelConfig,
) -> Rates:
    """Examine up to `most` recordings of the folder `corpus` that the folder `prepared` lists, spread over all of
    them, and compute their features in a temporary folder. Raises SonorantError if there are none."""
    listed = [row for row in read_manifest(prepared / "manifest.jsonl") if row.audio and row.seconds]
    if not listed:
        raise SonorantError(f"{prepared / 'manifest.jsonl'}: lists no recording; run: dvc repro prepare")
    rows = listed[:: max(1, len(listed) // most)][:most]
    hours = sum(row.seconds or 0.0 for row in rows) / 3600
    how: dict[str, Any] = {"config": config, "condition": condition, "frontend": text.frontend, "lexicon": text.lexicon}

    def examined(some: Sequence[Utterance]) -> None:
        for row in tqdm(some, desc="examining", unit="recording", disable=len(some) == 1):
            examine(row, corpus=corpus, **how)

    with tempfile.TemporaryDirectory() as place, one_thread():
        job = Job(corpus, place, audio, text)

        def written(some: Sequence[Utterance]) -> int:
            return sum(write(job, Work(f"{len(some):064x}", list(some))).sizes.values())

        examined(rows[:1])  # what loads at the first is not counted for each
        written(rows[:1])
        prepare, _ = _timed(examined, rows)
        features, stored = _timed(written, rows)
    return Rates(
        recordings=len(rows),
        utterance_seconds=3600 * hours / len(rows),
        prepare=prepare / hours,
        features=features / hours,
        recordings_gb=sum((corpus / name).stat().st_size for name in {str(row.audio) for row in rows}) / 1e9 / hours,
        store_gb=stored / 1e9 / hours,
        id_bytes=sum(len(row.id.encode()) for row in rows) / len(rows),
    )


def _timed(work: Callable[[Sequence[Utterance]], Result], rows: Sequence[Utterance]) -> tuple[float, Result]:
    """CPU seconds of this process, and the result."""
    began = time.process_time()
    result = work(rows)
    return time.process_time() - began, result


def forecast(rates: Rates, hours: float, machines: Machines, *, audited: bool = True) -> dict[str, Any]:
    """What `hours` of such recordings take, as plain data. `audited`: whether the stage `audit` hears them."""
    utterances = round(hours * 3600 / rates.utterance_seconds)
    large = hours >= LARGE
    per_shard = 1024 if large else 128
    shards = math.ceil(utterances / (per_shard * FULL))
    spread = {"prepare": rates.prepare * hours, "features": rates.features * hours}
    learned = ALIGNERS if audited else 0.0
    if audited:
        spread["audit"] = AUDIT * hours
    listed = sum(cpu for step, (cpu, _) in LISTED.items() if step not in OF_CORPUS + OF_WINDOW) * utterances / 1e6
    cores = machines.cores * machines.machines
    wall = sum(spread.values()) / cores + learned / min(cores, 2) + listed  # two aligners learn, each on a core
    store = rates.store_gb * hours
    window = 64 if large else None
    planned = min(utterances, window * per_shard * FULL) if window else utterances
    start = sum(LISTED[step][0] for step in OF_CORPUS) * utterances / 1e6
    start += sum(LISTED[step][0] for step in OF_WINDOW) * planned / 1e6
    return {
        "hours": hours,
        "utterances": utterances,
        "settings": {
            "store.place": "a bucket" if large else "a folder",
            "store.utterances_per_shard": per_shard,
            "train_<model>.window_shards": window,
        },
        "cpu_hours": {
            **{stage: seconds / 3600 for stage, seconds in spread.items()},
            **({"aligners": learned / 3600} if audited else {}),
            "in one process": listed / 3600,
        },
        "hours_by_the_clock": wall / 3600,
        "memory_gib": max(held for _, held in LISTED.values()) * utterances / 2**30,
        "disk_gb": {
            "recordings": rates.recordings_gb * hours,
            "store": store,
            "index": (OF_INDEX + rates.id_bytes) * utterances / 1e9,
            "window": store * window / shards if window else None,
        },
        "shards": shards,
        "files": shards * OBJECTS,
        "computed_for_one_more": round(per_shard * FULL),
        "computed_for_one_per_cent_more": 1.0 - 0.99 ** (per_shard * FULL),
        "start_of_training_seconds": start,
        "cost": {
            "preparation": None if machines.price is None else machines.price * machines.machines * wall / 3600,
            "store_a_month": None if machines.gb_month is None else machines.gb_month * store,
        },
    }


def table(rates: Rates, found: Sequence[dict[str, Any]]) -> str:
    """The forecasts as columns, and where their figures are from."""
    rows = {
        "speech, hours": [row["hours"] for row in found],
        "utterances": [row["utterances"] for row in found],
        **{name: [row["settings"][name] for row in found] for name in found[0]["settings"]},
        **{f"{stage}, CPU hours": [row["cpu_hours"][stage] for row in found] for stage in found[0]["cpu_hours"]},
        "by the clock, hours": [row["hours_by_the_clock"] for row in found],
        "memory of a stage, GiB": [row["memory_gib"] for row in found],
        **{f"{name}, GB": [row["disk_gb"][name] for row in found] for name in found[0]["disk_gb"]},
        "shards": [row["shards"] for row in found],
        "files in the store": [row["files"] for row in found],
        "one recording more: computed": [row["computed_for_one_more"] for row in found],
        "1 % more: computed, %": [round(100 * row["computed_for_one_per_cent_more"]) for row in found],
        "training starts after, s": [row["start_of_training_seconds"] for row in found],
        "preparation costs": [row["cost"]["preparation"] for row in found],
        "the store costs a month": [row["cost"]["store_a_month"] for row in found],
    }
    lines = [f"{name:<30}" + "".join(f"{_short(value):>16}" for value in values) for name, values in rows.items()]
    measured = (
        f"Multiplied from {rates.recordings} recordings of {rates.utterance_seconds:.1f} s on average, measured here on"
        " one core, and from what benchmarks.scaling.scale measured on a million rows. Nothing of this size has run."
    )
    return "\n".join([*lines, "", measured])


def _short(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"
