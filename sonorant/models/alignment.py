"""Monotonic alignment search: which frames belong to which token. Knows nothing of networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch


@torch.no_grad()
def monotonic_alignment(score_BNT: torch.Tensor, tokens_B: torch.Tensor, frames_B: torch.Tensor) -> torch.Tensor:
    """Durations of the best monotonic path in which every token owns at least one frame.

    The search of Kim et al. 2020, "Glow-TTS", section 3.2, rewritten as a running maximum. With P_j the prefix sums of token j's
    scores, the best score of giving the first t frames to tokens 0..j is V_j(t) = P_j(t) + max over s < t of (V_{j-1}(s) - P_j(s)).
    On CPUs a compiled kernel; on GPUs, and where numba is not installed, `batched_search`. Both find the same path.

    Args:
        score_BNT: (B, N, T) float, log-likelihood of frame t under token n; padding is ignored.
        tokens_B: (B,) int64, number of real tokens.
        frames_B: (B,) int64, number of real frames; at least as many as tokens.

    Returns:
        (B, N) int64 durations in frames, zero at padded tokens, summing to `frames_B`.
    """
    kernel = _kernel() if score_BNT.device.type == "cpu" else None
    if kernel is None:
        return batched_search(score_BNT, tokens_B, frames_B)
    exact_BNT = score_BNT if score_BNT.dtype == torch.float64 else score_BNT.float()
    durations_BN = torch.zeros(score_BNT.shape[:2], dtype=torch.int64)
    kernel(exact_BNT.contiguous().numpy(), tokens_B.numpy(), frames_B.numpy(), durations_BN.numpy())
    return durations_BN


def batched_search(score_BNT: torch.Tensor, tokens_B: torch.Tensor, frames_B: torch.Tensor) -> torch.Tensor:
    """`monotonic_alignment` in torch: a token's whole row is one `cummax`, so the loop is over tokens and never over frames."""
    batch, tokens, frames = score_BNT.shape
    prefix_BNT = torch.zeros(batch, tokens, frames + 1, dtype=torch.float64, device=score_BNT.device)
    torch.cumsum(score_BNT.double(), dim=2, out=prefix_BNT[:, :, 1:])
    best_BT = torch.full((batch, frames + 1), -torch.inf, dtype=torch.float64, device=score_BNT.device)
    best_BT[:, 0] = 0.0
    starts = []
    for token in range(tokens):
        running_BT, start_BT = torch.cummax(best_BT - prefix_BNT[:, token], dim=1)
        starts.append(start_BT)
        best_BT = torch.cat([torch.full_like(best_BT[:, :1], -torch.inf), (prefix_BNT[:, token, 1:] + running_BT[:, :-1])], dim=1)

    durations_BN = torch.zeros(batch, tokens, dtype=torch.int64, device=score_BNT.device)
    end_B = frames_B.clone()
    for token in range(tokens - 1, -1, -1):
        start_B = starts[token].gather(1, (end_B - 1).clamp(min=0)[:, None])[:, 0]
        real_B = token < tokens_B
        durations_BN[:, token] = torch.where(real_B, end_B - start_B, 0)
        end_B = torch.where(real_B, start_B, end_B)
    return durations_BN


@cache
def _kernel() -> Callable[..., Any] | None:
    try:
        from sonorant.models.alignment_kernel import search
    except ImportError as error:
        warnings.warn(f"{error.name} is not installed: the alignment search runs in torch, some 30 times slower", stacklevel=2)
        return None
    return search


def diagonal_prior(tokens_B: torch.Tensor, frames_B: torch.Tensor, tokens: int, frames: int) -> torch.Tensor:
    """(B, N, T) float32, zero on the diagonal and falling with the square of the distance from it: a start for the alignment.

    The idea of the guided attention of Tachibana et al. 2017, section 3.1, used as a log prior of the search instead of a loss.
    """
    place_BN = (torch.arange(tokens, device=tokens_B.device)[None] + 0.5) / tokens_B[:, None]
    time_BT = (torch.arange(frames, device=tokens_B.device)[None] + 0.5) / frames_B[:, None]
    return -((place_BN[:, :, None] - time_BT[:, None, :]) ** 2)
