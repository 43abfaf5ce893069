"""Load planned micro-batches as tensors, with codec codes and a prompt by the same speaker.

Shapes: B rows, F code frames of an utterance, P of a prompt, G codebooks.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from sonorant.features.batches import Batch, UtteranceBatches, round_up
from sonorant.features.codes import CodeStore
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch

CODES_MULTIPLE = 8
UNPROMPTED = 0.25
"""Fraction of rows without a prompt, because the model must also speak without one."""


class Peers:
    """Utterances grouped by speaker and split."""

    def __init__(self, store: FeatureStore) -> None:
        self._store, self._splits = store, len(store.header["splits"])
        group_U = store.speaker * self._splits + store.split
        # Pickled for every loader: 0.2 GiB for 45 million utterances, but 1 GiB as int64.
        self._order_U = np.argsort(group_U, kind="stable").astype(np.min_scalar_type(-len(group_U) - 1))
        self._ends_G = np.cumsum(np.bincount(group_U))

    def of(self, item: int) -> NDArray[np.signedinteger]:
        """Return the utterances with the same speaker and split as `item`, including it, ascending."""
        group = int(self._store.speaker[item]) * self._splits + int(self._store.split[item])
        return self._order_U[int(self._ends_G[group - 1]) if group else 0 : int(self._ends_G[group])]


class Prompts:
    """Draws a prompt for each row and epoch: part of another utterance of the same speaker and split.

    A fraction `UNPROMPTED` of the rows, and rows whose speaker has no other utterance, get no prompt.
    """

    def __init__(self, store: FeatureStore, codes: CodeStore, frames: int, seed: int) -> None:
        """`frames`: maximum number of code frames in a prompt; 0 disables prompts."""
        self.codes, self.frames, self.seed = codes, frames, seed
        self.peers = Peers(store) if frames else None

    def draw(self, planned: MicroBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return zero-padded prompts (B, P, G) with P >= 1, and their lengths (B,)."""
        rows = len(planned.items)
        prompt_BPG = np.zeros((rows, max(1, self.frames), self.codes.codebooks), dtype=np.int64)
        lengths_B = np.zeros(rows, dtype=np.int64)
        random = np.random.default_rng([self.seed, planned.epoch, planned.number])
        for row, item in enumerate(planned.items if self.peers else ()):
            other = self._another(int(item), random)
            if other is None:
                continue
            lengths_B[row] = min(random.integers(1, self.frames + 1), self.codes.frames[other])
            first = random.integers(0, self.codes.frames[other] - lengths_B[row] + 1)
            prompt_BPG[row, : lengths_B[row]] = self.codes.codes(other)[first : first + lengths_B[row]]
        return prompt_BPG, lengths_B

    def _another(self, item: int, random: np.random.Generator) -> int | None:
        assert self.peers is not None
        peers = self.peers.of(item)
        if random.random() < UNPROMPTED or len(peers) == 1:
            return None
        place = int(random.integers(0, len(peers) - 1))
        return int(peers[place + (place >= peers.searchsorted(peers.dtype.type(item)))])  # any except `item`


class CodeBatches(Dataset[Batch]):
    """`UtteranceBatches` with codes (B, F, G) int64, code_lengths (B,), prompt (B, P, G) int64, prompt_lengths (B,)."""

    def __init__(self, store: FeatureStore, codes: CodeStore, batches: Sequence[MicroBatch], prompts: Prompts) -> None:
        self.utterances = UtteranceBatches(store, batches)
        self.codes = codes
        self.prompts = prompts

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Batch:
        batch = self.utterances[index]
        planned = self.utterances.batches[index]
        lengths = self.codes.frames[planned.items]
        codes = np.zeros((len(lengths), round_up(lengths.max(), CODES_MULTIPLE), self.codes.codebooks), dtype=np.int64)
        for row, item in enumerate(planned.items):
            codes[row, : lengths[row]] = self.codes.codes(int(item))
        prompt, prompt_lengths = self.prompts.draw(planned)
        arrays = {"codes": codes, "code_lengths": lengths, "prompt": prompt, "prompt_lengths": prompt_lengths}
        return batch | {name: torch.from_numpy(array) for name, array in arrays.items()}
