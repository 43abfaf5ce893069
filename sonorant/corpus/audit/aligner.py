"""The aligner: a small network, trained on the corpus itself, that locates each phone in time, in any language.

A ConvNeXt stack over log-mels with the CTC loss (Graves et al. 2006, "Connectionist Temporal Classification"). Each
clip is judged by an aligner not trained on it. Shapes: T frames of 20 ms, L labels (blank, then phones).
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.mel import MelConfig, log_mel
from sonorant.layers.convnext import GELU, ConvNeXtStack

AUDIO = MelConfig(sample_rate=16000, n_fft=512, hop=160, n_mels=64, f_min=50.0, f_max=7600.0)
STRIDE = 2
SECONDS = AUDIO.hop * STRIDE / AUDIO.sample_rate
"""Seconds per frame of the aligner."""
CHANNELS, EXPANSION, KERNEL, BLOCKS, DROPOUT = 160, 2, 9, 5, 0.1
LEARNING_RATE, WARMUP_STEPS, CLIP_NORM = 2e-3, 100, 5.0
BATCH_FRAMES = 1500  # mel frames, padding included
_MASKED_BINS, _MASKED_FRAMES, _FRAMES_PER_MASK = 10, 16, 150


Lesson = tuple[NDArray[np.float16], Ints]
"""A training clip: log-mel (mel frames, 64) from `mel_of` and phone labels (N,) of its text, counted from 1."""


class Aligner(nn.Module):
    def __init__(self, labels: int) -> None:
        super().__init__()
        self.into = nn.Conv1d(AUDIO.n_mels, CHANNELS, 5, stride=STRIDE, padding=2)
        self.gelu = GELU()
        self.body = ConvNeXtStack(CHANNELS, EXPANSION, KERNEL, BLOCKS, DROPOUT)
        self.out = nn.Linear(CHANNELS, labels)

    def forward(self, mel_BTM: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Map log-mels (B, mel frames, 64) float32 and their lengths to log-probabilities (B, T, L) and lengths in
        frames."""
        frames_BTC = self.gelu(self.into(mel_BTM.transpose(1, 2))).transpose(1, 2)
        lengths_B = (lengths_B + STRIDE - 1) // STRIDE
        mask_BT1 = (torch.arange(frames_BTC.shape[1])[None] < lengths_B[:, None])[..., None].to(frames_BTC.dtype)
        return F.log_softmax(self.out(self.body(frames_BTC, mask_BT1)).float(), dim=-1), lengths_B

    @torch.no_grad()
    def log_probabilities(self, mel: NDArray[np.float16]) -> Floats:
        """Return the log-probabilities (T, L) float32 of labels for a log-mel (mel frames, 64)."""
        logs_BTL, _ = self(torch.from_numpy(mel.astype(np.float32))[None], torch.tensor([len(mel)]))
        return logs_BTL[0].numpy()


def mel_of(samples: Floats) -> tuple[NDArray[np.float16], Floats]:
    """Return the log-mel (ceil(S / 160), 64) of samples (S,) at 16 kHz, normalised to remove level and timbre, and the
    level of each frame."""
    mel = log_mel(torch.from_numpy(samples), AUDIO).T.numpy()
    return ((mel - mel.mean(axis=0)) / (mel.std() + 1e-3)).astype(np.float16), mel.mean(axis=1)


def train(lessons: Sequence[Lesson], labels: int, steps: int, seed: int, progress: str) -> Aligner:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    aligner = Aligner(labels).train()
    optimizer = torch.optim.AdamW(aligner.parameters(), lr=LEARNING_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    fall = [lambda step: min((step + 1) / WARMUP_STEPS, 1.0) * 0.5 * (1 + np.cos(np.pi * step / steps))]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, fall)
    with tqdm(total=steps, desc=progress, unit="step") as bar:
        while bar.n < steps:
            for batch in _batches(lessons, generator)[: steps - bar.n]:
                mel_BTM, lengths_B = _collate([_masked(lessons[place][0], generator) for place in batch])
                logs_BTL, frames_B = aligner(mel_BTM, lengths_B)
                texts = [torch.from_numpy(lessons[place][1]) for place in batch]
                tokens_B = torch.tensor([len(text) for text in texts])
                loss = F.ctc_loss(
                    logs_BTL.transpose(0, 1), torch.cat(texts), frames_B, tokens_B, reduction="sum", zero_infinity=True
                )
                optimizer.zero_grad()
                (loss / frames_B.sum()).backward()
                nn.utils.clip_grad_norm_(aligner.parameters(), CLIP_NORM)
                optimizer.step()
                schedule.step()
                bar.update()
                bar.set_postfix_str(f"loss {loss.item() / frames_B.sum().item():.3f}", refresh=False)
    return aligner.eval()


def save(aligner: Aligner, file: BinaryIO) -> None:
    torch.save(aligner.state_dict(), file)


@lru_cache(maxsize=4)
def load(path: Path) -> Aligner:
    weights = torch.load(path, weights_only=True)
    aligner = Aligner(len(weights["out.bias"]))
    aligner.load_state_dict(weights)
    return aligner.eval()


def _batches(lessons: Sequence[Lesson], generator: torch.Generator) -> list[list[int]]:
    """Group clips of similar length; return the groups in random order."""
    jitter = torch.rand(len(lessons), generator=generator).numpy() * 60
    batches: list[list[int]] = [[]]
    for place in np.argsort(np.array([len(mel) for mel, _ in lessons]) + jitter).tolist():
        if batches[-1] and (len(batches[-1]) + 1) * len(lessons[place][0]) > BATCH_FRAMES:
            batches.append([])
        batches[-1].append(place)
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def _masked(mel: NDArray[np.float16], generator: torch.Generator) -> Floats:
    """Mask random bands and frames as in SpecAugment (Park et al. 2019)."""

    def below(most: int) -> int:
        return int(torch.randint(0, max(1, most), (1,), generator=generator))

    masked = mel.astype(np.float32)
    for _ in range(2):
        width = below(_MASKED_BINS)
        start = below(AUDIO.n_mels - width)
        masked[:, start : start + width] = 0
    for _ in range(max(1, len(mel) // _FRAMES_PER_MASK)):
        width = below(_MASKED_FRAMES)
        start = below(len(mel) - width)
        masked[start : start + width] = 0
    return masked


def _collate(mels: list[Floats]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(mel) for mel in mels])
    padded = torch.zeros(len(mels), int(lengths.max()), AUDIO.n_mels)
    for row, mel in enumerate(mels):
        padded[row, : len(mel)] = torch.from_numpy(mel)
    return padded, lengths
