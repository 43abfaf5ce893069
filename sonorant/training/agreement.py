"""Before the first step: every node trains the same thing. Knows nothing of how the copies came to the nodes.

Each node has read its own params, code and features; a node that trained on others would spoil the voice without a word.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from sonorant.data.codes import CodeStore, code_hash
from sonorant.data.features import FeatureStore, store_hash
from sonorant.errors import SonorantError
from sonorant.training.ranks import AllRanksError, Ranks


@dataclass(frozen=True)
class Copy:
    """What a rank was given to train with."""

    host: str
    features: str
    """Hash of its feature store."""
    codes: str
    """Hash of its token store; empty where none is learned from."""
    fingerprint: str
    """Of params, code and features."""
    problem: str = ""
    """Why its features or codes cannot be used; empty where they can."""


def refuse_other_copies(features: Path, codes: Path | None, fingerprint: str, ranks: Ranks) -> None:
    """Raise AllRanksError on all ranks if any node's features, codes or fingerprint differ from rank 0's; every rank must call it.

    The arrays themselves are read through and compared with their hash by one rank of each node, where there are several nodes: who
    copied the features may have been interrupted.
    """
    if ranks.world_size == 1:
        return
    several = os.environ.get("LOCAL_WORLD_SIZE") != str(ranks.world_size)
    own = _copy(features, codes, fingerprint, verify=several and ranks.local_rank == 0)
    first, *others = ranks.gather(own)
    for copy in (first, *others):
        if copy.problem:
            folders = f"{features} {codes}" if codes else f"{features}"
            raise AllRanksError(f"node {copy.host}: {copy.problem}; where features are fetched: dvc pull {folders}")
        for what, folder, its, wanted in (
            ("features", features, copy.features, first.features),
            ("codes", codes, copy.codes, first.codes),
        ):
            if its != wanted:
                raise AllRanksError(
                    f"node {copy.host}: its {what} ({its[:12]}) are not those of the first node {first.host} "
                    f"({wanted[:12]}); there: dvc pull {folder}"
                )
        if copy.fingerprint != first.fingerprint:
            raise AllRanksError(
                f"node {copy.host}: its code or params (fingerprint {copy.fingerprint}) are not those of the first node {first.host} "
                f"({first.fingerprint}); check out the same commit with the same params.yaml there"
            )


def _copy(features: Path, codes: Path | None, fingerprint: str, verify: bool) -> Copy:
    host = platform.node()
    try:
        if verify:
            store = FeatureStore.open(features)
            store.verify()
            if codes:
                CodeStore.open(codes, store).verify()
        return Copy(host, store_hash(features), code_hash(codes) if codes else "", fingerprint)
    except (SonorantError, OSError) as error:
        return Copy(host, "", "", fingerprint, str(error))
