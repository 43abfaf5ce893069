"""Windows of shards: parts of a large corpus that are planned, downloaded and shuffled one at a time.

An epoch visits all shards in random order, one window after another. Resuming downloads only one window.
"""

import numpy as np

from sonorant.features.index import Index
from sonorant.features.plan import repeated


class Windows:
    """Windows numbered across epochs: number n is window n % `count` of epoch n // `count`.

    They depend only on the arguments, and are the same on every machine.
    """

    def __init__(self, index: Index, items: np.ndarray, times: np.ndarray | None, *, shards: int, seed: int) -> None:
        """`items`: int64 indices to train on; `times`: (items,) from `times_heard`; `shards`: number of shards per
        window."""
        self._index, self._shards, self._seed = index, shards, seed
        self._times_U = np.zeros(len(index))
        self._times_U[items] = 1.0 if times is None else times
        self.count = -(-len(index.shard_ends) // shards)

    def shards(self, number: int) -> np.ndarray:
        epoch, window = divmod(number, self.count)
        order = np.random.default_rng([self._seed, epoch, 2]).permutation(len(self._index.shard_ends))
        return order[window * self._shards : (window + 1) * self._shards]

    def items(self, number: int) -> np.ndarray:
        """Return the items (int64) of window `number`, ascending. An item may occur more than once."""
        members = np.sort(np.concatenate([self._index.in_shard(int(shard)) for shard in self.shards(number)]))
        members = members[self._times_U[members] > 0]
        return repeated(members, self._times_U[members], seed=self._seed, epoch=number)
