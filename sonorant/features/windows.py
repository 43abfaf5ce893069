"""Windows of shards: what of a large corpus is planned, fetched and shuffled at a time.

An epoch takes all shards in an order of its own, some at a time. So a training reads from a store one window after the
other, and resumes at the cost of one window, whatever the corpus.
"""

import numpy as np

from sonorant.features.index import Index
from sonorant.features.plan import repeated


class Windows:
    """The windows of every epoch, counted on from epoch to epoch: round r is window r % `count` of epoch r // `count`.

    A pure function of the arguments: the same on every machine, for any number of ranks.
    """

    def __init__(self, index: Index, items: np.ndarray, times: np.ndarray | None, *, shards: int, seed: int) -> None:
        """`items`: int64 indices to train on; `times`: (items,) from `sonorant.features.plan.times_heard`, None = once
        each; `shards`: shards in a window."""
        self._index, self._shards, self._seed = index, shards, seed
        self._times_U = np.zeros(len(index))
        self._times_U[items] = 1.0 if times is None else times
        self.count = -(-len(index.shard_ends) // shards)

    def shards(self, number: int) -> np.ndarray:
        """The shards of a round, int64."""
        epoch, window = divmod(number, self.count)
        order = np.random.default_rng([self._seed, epoch, 2]).permutation(len(self._index.shard_ends))
        return order[window * self._shards : (window + 1) * self._shards]

    def items(self, number: int) -> np.ndarray:
        """What a round takes, int64 indices, ascending; one may be there more than once."""
        members = np.sort(np.concatenate([self._index.in_shard(int(shard)) for shard in self.shards(number)]))
        members = members[self._times_U[members] > 0]
        return repeated(members, self._times_U[members], seed=self._seed, epoch=number)
