"""Compare the samples of all ranks with the plan, and compare features, codes, settings and code between nodes."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from sonorant.errors import SonorantError
from sonorant.features.codes import CodeStore, code_hash
from sonorant.features.feature_store import FeatureStore, store_hash
from sonorant.features.plan import MicroBatch, Plan, shard
from sonorant.training.distributed.ranks import AllRanksError, Ranks

EPOCHS_COMPARED = 4
"""Number of successive epochs that must not all have the same plan."""
HINT = "fix the code that loads the data: a rank must compute exactly what `shard` returns for its global rank"
Samples = list[tuple[int, int]]
"""Pairs of an utterance index and the first frame read."""


@dataclass(frozen=True)
class Page:
    rank: str
    planned: str
    """Hash of the rank's plan for the recorded steps."""
    computed: list[Samples]
    """Computed samples of each step."""


class Ledger:
    """Record of the samples computed since the last check."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._computed: list[Samples] = []

    def open(self, plan: Plan, epoch: int, place: int) -> list[MicroBatch]:
        """Start recording before step `place` of an epoch; return that step's micro-batches. Raises AllRanksError if
        the ranks' plans differ or epochs are not reshuffled."""
        self._plan, self._epoch, self._place = plan, epoch, place
        self._steps = plan.steps(epoch)
        self._computed = []
        planned = _hash(self._steps)
        _refuse_other_plans(self.ranks.gather(Page(self.ranks.name, planned, [])))
        # With windows, compare the same window of later epochs.
        later = range(epoch + plan.windows, epoch + EPOCHS_COMPARED * plan.windows, plan.windows)
        enough = sum(map(len, self._steps)) >= EPOCHS_COMPARED
        if enough and all(_hash(plan.steps(number)) == planned for number in later):
            first = epoch // plan.windows
            raise AllRanksError(
                f"{self.ranks.name}: epochs {first} to {first + EPOCHS_COMPARED - 1} have the same plan, so nothing is "
                "ever reshuffled; make the plan's random numbers depend on the epoch"
            )
        return self._upcoming()

    def note(self, loaded: Iterable[torch.Tensor]) -> None:
        """Record this rank's samples of a step, (B, 2) int64 per micro-batch."""
        self._computed.append([(item, start) for rows in loaded for item, start in rows.tolist()])

    def check(self, step: int) -> None:
        """Compare the records up to optimizer step `step` with the plan. A collective call. Raises AllRanksError if
        samples overlap or are missing."""
        first = step - len(self._computed) + 1
        planned = [self._next() for _ in self._computed]
        pages = self.ranks.gather(Page(self.ranks.name, _hash([batches for _, batches in planned]), self._computed))
        self._computed = []
        _refuse_other_plans(pages)
        for number, (epoch, batches) in enumerate(planned):
            shares = [page.computed[number] for page in pages]
            if sorted(chain.from_iterable(shares)) != sorted(samples_of(batches)):
                where = f"step {first + number} (epoch {epoch // self._plan.windows})"
                raise AllRanksError(f"{where}: {self._fault(batches, shares, pages)}; {HINT}")

    def _next(self) -> tuple[int, list[MicroBatch]]:
        step = self._upcoming()
        self._place += 1
        return self._epoch, step

    def _upcoming(self) -> list[MicroBatch]:
        while self._place == len(self._steps):  # a window may have no step
            self._epoch, self._place = self._epoch + 1, 0
            self._steps = self._plan.steps(self._epoch)
        return self._steps[self._place]

    def _fault(self, batches: list[MicroBatch], shares: list[Samples], pages: list[Page]) -> str:
        planned, computed = Counter(samples_of(batches)), Counter(chain.from_iterable(shares))
        foreign, missing = sorted((computed - planned).keys()), sorted((planned - computed).keys())
        if repeated := [sample for sample in foreign if sample in planned]:
            who = " and by ".join(page.rank for page, share in zip(pages, shares, strict=True) if repeated[0] in share)
            samples = f"{len(repeated)} samples were computed more than once, utterance {repeated[0][0]} by {who}"
            return f"{samples}: the ranks load the same data"
        if not missing:
            return f"{len(foreign)} samples are not in the plan of this step, first utterance {foreign[0][0]}"
        dealt = [samples_of(batch for batch, _ in shard(batches, rank, len(pages))) for rank in range(len(pages))]
        owner = [page.rank for page, samples in zip(pages, dealt, strict=True) if missing[0] in samples][-1]
        instead = f", but {len(foreign)} others were" if foreign else ""
        return (
            f"{len(missing)} samples were computed by no rank{instead}; "
            f"utterance {missing[0][0]} was assigned to {owner}"
        )


def samples_of(batches: Iterable[MicroBatch]) -> Samples:
    samples: Samples = []
    for batch in batches:
        starts = np.zeros_like(batch.items) if batch.starts is None else batch.starts
        samples += zip(batch.items.tolist(), starts.tolist(), strict=True)
    return samples


def _hash(steps: Iterable[list[MicroBatch]]) -> str:
    digest = hashlib.sha256()
    for batches in steps:
        digest.update(sum(len(batch.items) for batch in batches).to_bytes(8))
        for batch in batches:
            starts = 0 if batch.starts is None else batch.starts
            digest.update(np.stack(np.broadcast_arrays(batch.items, starts), axis=1).astype(np.int64).tobytes())
    return digest.hexdigest()


def _refuse_other_plans(pages: list[Page]) -> None:
    for page in pages[1:]:
        if page.planned != pages[0].planned:
            raise AllRanksError(
                f"{page.rank} planned other samples than {pages[0].rank}: their features, settings or code differ, "
                "or one is ahead by steps; use the same copies on all nodes"
            )


def refuse_other_copies(features: Path, codes: Path | None, fingerprint: str, code: str, ranks: Ranks) -> None:
    """Raise AllRanksError on all ranks if a node's features, codes, settings or code differ from rank 0's. A collective
    call.

    With several nodes, one rank per node also compares all arrays with their hashes, which may take hours. `code` is
    the hash of the package.
    """
    if ranks.world_size == 1:
        return
    own, problem = {}, ""
    try:
        # The keys are part of the message.
        own = {"features (": store_hash(features), "codes (": code_hash(codes) if codes else ""}
    except (SonorantError, OSError) as error:
        problem = str(error)
    if os.environ.get("LOCAL_WORLD_SIZE") != str(ranks.world_size):
        reads = ranks.local_rank == 0 and not problem
        problem = ranks.after(partial(_damage_of, features, codes) if reads else None) or problem
    own |= {"settings (fingerprint ": fingerprint, "code (hash ": code}
    copies = ranks.gather((ranks.host, own, problem))
    first, wanted, _ = copies[0]
    remedies = {"features (": f"run there: dvc pull {features}", "codes (": f"run there: dvc pull {codes}"}
    checkout = "check out the same commit with the same params.yaml there"
    for host, found, fault in copies:
        if fault:
            raise AllRanksError(
                f"node {host}: {fault}; to fetch features again, run: dvc pull {features} {codes or ''}"
            )
        for what, its in found.items():
            if its != wanted[what]:
                other = f"its {what}{its[:16]}) differ from the first node's ({first}, {wanted[what][:16]})"
                raise AllRanksError(f"node {host}: {other}; {remedies.get(what, checkout)}")


def _damage_of(features: Path, codes: Path | None) -> str:
    try:
        store = FeatureStore.open(features)
        store.verify()
        if codes:
            CodeStore.open(codes, store).verify()
    except (SonorantError, OSError) as error:
        return str(error)
    return ""
