"""EMA of weights, and checkpoints written atomically: the bytes of `torch.save`, a magic word and their SHA-256."""

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
"""Number of newest checkpoints kept in addition to the best."""


class Ema(AveragedModel):
    """Exponential moving average of parameters, with a maximum decay of (n + 1) / (n + 10) at step n."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Add `model` to the average. The counter is on the CPU, to avoid waiting for the GPU."""
        number = int(self.n_averaged)
        averages: list[torch.Tensor] = list(self.module.parameters())
        current: list[torch.Tensor] = list(model.parameters())
        if number == 0:
            torch._foreach_copy_(averages, current)
        else:
            torch._foreach_lerp_(averages, current, 1.0 - min(self.decay, (number + 1) / (number + 10)))
        self.n_averaged += 1


class DamagedCheckpoint(Exception):
    """The file is truncated, altered or not a checkpoint."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` to `path` atomically. Raises SonorantError if the disk is full or not writable."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getbuffer()
    try:
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            file.write(payload)
            file.write(MAGIC + hashlib.sha256(payload).digest())
            file.flush()  # a full disk raises here
    except OSError as error:
        raise SonorantError(
            f"{path}: checkpoint not written ({error.strerror}); the previous one is intact: "
            "free disk space or make the folder writable, then run the same command to resume"
        ) from None


def load(path: Path) -> dict[str, Any]:
    return parse(read(path))


def read(path: Path) -> bytes:
    """Read and verify the bytes of a checkpoint. Raises DamagedCheckpoint."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedCheckpoint(f"cannot read {path} ({error.strerror})") from None
    payload, trailer = memoryview(data)[:-TRAILER], data[-TRAILER:]
    if trailer != MAGIC + hashlib.sha256(payload).digest():
        raise DamagedCheckpoint(f"{path} is damaged (checksum does not match)")
    return bytes(payload)


def parse(payload: bytes) -> dict[str, Any]:
    return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)


def path_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}.ckpt"


def existing(folder: Path) -> list[Path]:
    """List checkpoints, newest first."""
    found = (path for path in folder.glob("step-*.ckpt") if re.fullmatch(r"step-\d{8}\.ckpt", path.name))
    return sorted(found, reverse=True)


def read_newest(folder: Path, say: Callable[[str], None]) -> bytes | None:
    """Return the bytes of the newest intact checkpoint, or None if there is none. Raises SonorantError if all are
    damaged."""
    paths = existing(folder)
    for path in paths:
        try:
            return read(path)
        except DamagedCheckpoint as error:
            say(f"{error}; using the previous checkpoint")
    if paths:
        raise SonorantError(
            f"{folder}: all {len(paths)} checkpoints are damaged; remove the folder to train from the start"
        )
    return None


def prune(folder: Path, saved: Path) -> None:
    """Delete all but the `KEEP` newest checkpoints up to `saved`; later ones are damaged."""
    paths = existing(folder)
    keep = [path for path in paths if path <= saved][:KEEP]
    for path in [*(path for path in paths if path not in keep), *folder.glob(".*.ckpt.*.tmp")]:
        path.unlink(missing_ok=True)
