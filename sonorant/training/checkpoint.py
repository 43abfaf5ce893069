"""The moving average of a model's weights (EMA), and checkpoints: whole, or not there at all.

A checkpoint is one file: the bytes of `torch.save`, then a magic word and their SHA-256. It is written under a
temporary name, flushed to disk and renamed. A damaged one is named, and the one before it is used.
"""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from sonorant.errors import SonorantError
from sonorant.files import atomic_file

MAGIC = b"SONORANT"
TRAILER = len(MAGIC) + hashlib.sha256().digest_size
BEST = "best.ckpt"
KEEP = 2
"""How many of the newest checkpoints stay, besides the best by validation."""


class Ema(AveragedModel):
    """An exponential moving average of a model's weights; buffers are constants and stay as they were copied.

    The first steps count less: the decay at step n is at most (n + 1) / (n + 10).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take in the weights of `model`, without waiting for the step: torch's own moves its counter to the GPU."""
        number = int(self.n_averaged)
        averages: list[torch.Tensor] = list(self.module.parameters())
        current: list[torch.Tensor] = list(model.parameters())
        if number == 0:
            torch._foreach_copy_(averages, current)
        else:
            torch._foreach_lerp_(averages, current, 1.0 - min(self.decay, (number + 1) / (number + 10)))
        self.n_averaged += 1


class DamagedCheckpoint(Exception):
    """The file is truncated, altered or not a checkpoint; the message names it."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` (tensors, numbers, strings, lists, dicts), or leave the older file and raise SonorantError."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getbuffer()
    try:
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            file.write(payload)
            file.write(MAGIC + hashlib.sha256(payload).digest())
            file.flush()  # a full disk says so here, before `atomic_file` goes on
    except OSError as error:
        raise SonorantError(
            f"{path}: checkpoint not written ({error.strerror}); the one before it is untouched: "
            "make room or the folder writable, and the same command resumes"
        ) from None


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU. Raises DamagedCheckpoint."""
    return parse(read(path))


def read(path: Path) -> bytes:
    """The bytes of a whole checkpoint, for `parse`. Raises DamagedCheckpoint, also if the disk cannot read it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedCheckpoint(f"{path} cannot be read ({error.strerror})") from None
    payload, trailer = memoryview(data)[:-TRAILER], data[-TRAILER:]
    if trailer != MAGIC + hashlib.sha256(payload).digest():
        raise DamagedCheckpoint(f"{path} is damaged (checksum does not match)")
    return bytes(payload)


def parse(payload: bytes) -> dict[str, Any]:
    """The state in a checkpoint's bytes, on the CPU."""
    return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)


def path_of(folder: Path, step: int) -> Path:
    """The name of the checkpoint taken after `step` steps."""
    return folder / f"step-{step:08d}.ckpt"


def existing(folder: Path) -> list[Path]:
    """Checkpoints by step, newest first."""
    found = (path for path in folder.glob("step-*.ckpt") if re.fullmatch(r"step-\d{8}\.ckpt", path.name))
    return sorted(found, reverse=True)


def read_newest(folder: Path, say: Callable[[str], None]) -> bytes | None:
    """The bytes of the newest whole checkpoint, or None where there is none yet; damaged ones are named and skipped.

    Raises SonorantError if no checkpoint is whole: training never starts over without being told to.
    """
    paths = existing(folder)
    for path in paths:
        try:
            return read(path)
        except DamagedCheckpoint as error:
            say(f"{error}: using the one before it")
    if paths:
        raise SonorantError(f"{folder}: none of the {len(paths)} checkpoints is whole; remove the folder to start anew")
    return None


def prune(folder: Path, saved: Path) -> None:
    """Keep `saved`, which was just written, and the newest before it, `KEEP` in all.

    Later steps can only be damaged ones that were skipped: they go, and so do the remains of interrupted writes.
    """
    paths = existing(folder)
    keep = [path for path in paths if path <= saved][:KEEP]
    for path in [*(path for path in paths if path not in keep), *folder.glob(".*.ckpt.*.tmp")]:
        path.unlink(missing_ok=True)
