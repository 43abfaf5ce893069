"""Load planned micro-batches as tensors, prefetched by worker processes."""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from sonorant.audio.pitch import ROWS, SOURCE_ROWS, SourceRows
from sonorant.errors import SonorantError
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch
from sonorant.processes import signals_blocked

FRAMES_MULTIPLE = 16
"""Padded frame counts are multiples of this, which limits the number of shapes."""
TOKENS_MULTIPLE = 8
SHARED_MEMORY, ROOM = Path("/dev/shm"), 2**30
"""Where worker processes pass batches, and its free bytes below which they use pipes; containers often have 64 MiB."""
Batch = dict[str, torch.Tensor]
DRAWN = "drawn"
"""Batch key, (B, 2) int64: item and first frame of each row. Ranks compare these with the plan."""


class UtteranceBatches(Dataset[Batch]):
    """Padded utterances: tokens (B, N, 3) int64, token_lengths (B,), mel (B, T, M) and pitch (B, T, 2) float32,
    mel_lengths (B,), speaker (B,)."""

    def __init__(self, store: FeatureStore, batches: Sequence[MicroBatch]) -> None:
        self.store = store
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Batch:
        items = self.batches[index].items
        token_lengths, mel_lengths = self.store.tokens_count[items], self.store.frames[items]
        tokens = np.zeros((len(items), round_up(token_lengths.max(), TOKENS_MULTIPLE), 3), dtype=np.int64)
        frames = round_up(mel_lengths.max(), FRAMES_MULTIPLE)
        known = np.zeros((len(items), frames, self.store.audio.n_mels + ROWS), dtype=np.float32)
        for row, item in enumerate(items):
            tokens[row, : token_lengths[row]] = self.store.tokens(int(item))
            known[row, : mel_lengths[row]] = self.store.mel_and_pitch(int(item))
        arrays = {
            "tokens": tokens,
            "token_lengths": token_lengths,
            "mel": known[..., :-ROWS],
            "pitch": known[..., -ROWS:],
            "mel_lengths": mel_lengths,
            "speaker": self.store.speaker[items],
            DRAWN: np.stack([items, np.zeros_like(items)], axis=1),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


class SegmentBatches(Dataset[Batch]):
    """Segments of equal length: vocoder input frames (B, R, T) float32 (see `sonorant.audio.pitch`) and samples (B, T *
    hop) float32 in -1..1."""

    def __init__(self, store: FeatureStore, batches: Sequence[MicroBatch], length: int) -> None:
        self.store = store
        self.batches = batches
        self.length = length

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Batch:
        batch = self.batches[index]
        assert batch.starts is not None
        audio = self.store.audio
        drawn = np.stack([batch.items, batch.starts], axis=1)
        frames = np.empty((len(batch.items), audio.n_mels + ROWS + SOURCE_ROWS, self.length), dtype=np.float32)
        samples = np.empty((len(batch.items), self.length * audio.hop), dtype=np.float32)
        for row, (item, start) in enumerate(drawn.tolist()):
            known = self.store.mel_and_pitch(item, start, self.length).T[None]
            frames[row] = SourceRows(audio.sample_rate, audio.hop, item + start).append(known)[0]
            samples[row] = self.store.samples(item, start, self.length) / np.float32(32768)
        return {
            "frames": torch.from_numpy(frames),
            "samples": torch.from_numpy(samples),
            DRAWN: torch.from_numpy(drawn),
        }


def prefetched(dataset: Dataset[Batch], workers: int, pin: bool, fresh: bool = False) -> Iterator[Batch]:
    """Yield batches in order, prefetched by `workers` processes (0: this process).

    `fresh`: spawn the workers instead of forking them, because a bucket client does not survive a fork.
    """
    piped = workers > 0 and SHARED_MEMORY.exists() and disk_usage(SHARED_MEMORY).free < ROOM
    loader = DataLoader(
        dataset,
        batch_size=None,
        shuffle=False,
        num_workers=workers,
        pin_memory=pin and not piped,
        collate_fn=_arrays if piped else None,
        prefetch_factor=4 if workers else None,
        multiprocessing_context="spawn" if workers and fresh else None,
    )
    # torchrun sends SIGTERM to a rank's whole process group; the rank needs its workers until it has saved.
    with signals_blocked(signal.SIGTERM):
        batches = map(_tensors, loader) if piped else iter(loader)
    return _errors_in_one_line(batches) if workers else batches


def _arrays(batch: Any) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in batch.items()}


def _tensors(arrays: dict[str, np.ndarray]) -> Batch:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _errors_in_one_line(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Remove the traceback that torch adds to a worker's SonorantError."""
    try:
        yield from batches
    except SonorantError as error:
        raise type(error)(str(error).splitlines()[-1].split("Error: ", 1)[-1]) from None
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker") and "shared memory" not in str(error):
            raise
        raise SonorantError(
            "a loader process failed; if memory or /dev/shm is full, lower data.workers; run the same command to "
            "resume from the last checkpoint"
        ) from None


def round_up(length: int, multiple: int) -> int:
    return int(-(-length // multiple) * multiple)
