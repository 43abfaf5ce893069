"""Compute the shards that a store lacks, each in one torch thread, because the last bits of some sums depend on the
number of threads."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from sonorant.features.store import open_store
from sonorant.features.store.shard_files import Shard, check_written, find_shards
from sonorant.processes import spread

Work = TypeVar("Work")
FEW = 32
"""Maximum number of utterances computed without starting processes, which would take longer."""


def use_one_thread() -> None:
    torch.set_num_threads(1)


@contextmanager
def _threads_kept() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def complete(
    place: str,
    keys: Sequence[str],
    work: Sequence[Work],
    sizes: Sequence[int],
    write: Callable[[Work], Shard],
    *,
    label: str,
    processes: int | None,
    reads: Sequence[Path],
    prepare: Callable[..., None] = use_one_thread,
    arguments: tuple[Any, ...] = (),
) -> list[Shard]:
    """Return all shards with these keys. `write` computes a missing one from its `work` and writes it. `sizes`: number
    of utterances of each shard; `processes`, `prepare`, `arguments` and `reads`: as in `spread`."""
    found = find_shards(open_store(place), keys)
    lacking = [number for number, shard in enumerate(found) if shard is None]
    lacking.sort(key=lambda number: -sizes[number])  # largest first, so that workers finish together
    if len(lacking) < len(keys):
        print(f"{label}: {len(keys) - len(lacking)} of {len(keys)} shards are in {place}", flush=True)
    todo = [work[number] for number in lacking]
    if processes == 1 or sum(sizes[number] for number in lacking) <= FEW:
        with _threads_kept():
            prepare(*arguments)
            made = [write(one) for one in todo]
    else:
        made = spread(write, todo, label=label, unit="shard", processes=processes, prepare=prepare,
                      arguments=arguments, reads=reads)  # fmt: skip
        check_written(place, [keys[number] for number in lacking])
    computed = dict(zip(lacking, made, strict=True))
    return [shard or computed[number] for number, shard in enumerate(found)]
