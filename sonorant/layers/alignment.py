"""Monotonic alignment search between tokens and frames, and losses and pointers computed from its durations."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor


@torch.no_grad()
def monotonic_alignment(score_BNT: Tensor, tokens_B: Tensor, frames_B: Tensor) -> Tensor:
    """Return the durations of the best monotonic path in which every token has at least one frame.

    Kim et al. 2020, "Glow-TTS", section 3.2, as a running maximum: with P_j the prefix sums of token j's scores, the
    best score of the first t frames over tokens 0..j is V_j(t) = P_j(t) + max over s < t of (V_{j-1}(s) - P_j(s)). CPUs
    use a compiled kernel if available, otherwise `batched_search`; both find the same path.

    Args:
        score_BNT: (B, N, T) float, log-likelihood of frame t under token n; padding is ignored.
        tokens_B, frames_B: (B,) int64, numbers of tokens and frames without padding; at least as many frames as tokens.

    Returns:
        (B, N) int64 durations in frames, zero at padding, summing to `frames_B`.
    """
    kernel = _kernel() if score_BNT.device.type == "cpu" else None
    if kernel is None:
        return batched_search(score_BNT, tokens_B, frames_B)
    exact_BNT = score_BNT if score_BNT.dtype == torch.float64 else score_BNT.float()
    durations_BN = torch.zeros(score_BNT.shape[:2], dtype=torch.int64)
    kernel(exact_BNT.contiguous().numpy(), tokens_B.numpy(), frames_B.numpy(), durations_BN.numpy())
    return durations_BN


def batched_search(score_BNT: Tensor, tokens_B: Tensor, frames_B: Tensor) -> Tensor:
    """Compute `monotonic_alignment` in torch with one `cummax` per token: the loop is over tokens, not frames."""
    # Outputs are preallocated and operators few, because on a GPU launching an operator takes longer than running it.
    batch, tokens, frames = score_BNT.shape
    prefix_BNT = torch.zeros(batch, tokens, frames + 1, dtype=torch.float64, device=score_BNT.device)
    torch.cumsum(score_BNT.double(), dim=2, out=prefix_BNT[:, :, 1:])
    best_BT = torch.full((batch, frames + 1), -torch.inf, dtype=torch.float64, device=score_BNT.device)
    best_BT[:, 0] = 0.0
    gain_BT, running_BT = torch.empty_like(best_BT), torch.empty_like(best_BT)
    start_NBT = torch.empty(tokens, batch, frames + 1, dtype=torch.int64, device=score_BNT.device)
    for token in range(tokens):
        torch.sub(best_BT, prefix_BNT[:, token], out=gain_BT)
        torch.cummax(gain_BT, dim=1, out=(running_BT, start_NBT[token]))
        torch.add(prefix_BNT[:, token, 1:], running_BT[:, :-1], out=best_BT[:, 1:])
        if token == 0:
            best_BT[:, 0] = -torch.inf

    end_B1, ends = frames_B[:, None], []
    real_NB1 = (torch.arange(tokens, device=tokens_B.device)[:, None] < tokens_B)[:, :, None]
    for token in range(tokens - 1, -1, -1):
        ends.append(end_B1)
        end_B1 = torch.where(real_NB1[token], start_NBT[token].gather(1, end_B1 - 1), end_B1)
    end_BN = torch.cat([end_B1, *reversed(ends)], dim=1)
    return end_BN.diff(dim=1)


@cache
def _kernel() -> Callable[..., Any] | None:
    try:
        from sonorant.layers.alignment_kernel import search
    except ImportError as error:
        warnings.warn(
            f"{error.name} is not installed: the alignment search runs in torch, about 30 times slower", stacklevel=2
        )
        return None
    return search


def diagonal_prior(tokens_B: Tensor, frames_B: Tensor, tokens: int, frames: int) -> Tensor:
    """Return minus the squared distance from the diagonal, (B, N, T) float32: a log prior based on the guided attention
    of Tachibana et al. 2017, section 3.1."""
    place_BN = (torch.arange(tokens, device=tokens_B.device)[None] + 0.5) / tokens_B[:, None]
    time_BT = (torch.arange(frames, device=tokens_B.device)[None] + 0.5) / frames_B[:, None]
    return -((place_BN[:, :, None] - time_BT[:, None, :]) ** 2)


DIAGONAL_WEIGHT = 2000.0
"""Weight of the diagonal prior at step 0: penalty in nats of a frame a whole utterance from the diagonal."""


@torch.no_grad()
def align(
    prior_BNM: Tensor,
    mel_BTM: Tensor,
    token_lengths: Tensor,
    mel_lengths: Tensor,
    step: int = 0,
    diagonal_steps: int = 0,
) -> Tensor:
    """Return durations (B, N) int64 in mel frames under unit-variance Gaussians around each token's prior (normalised
    like the mel). The diagonal prior is faded out over `diagonal_steps`."""
    distance_BNT = torch.cdist(prior_BNM, mel_BTM.float(), compute_mode="use_mm_for_euclid_dist")
    score_BNT = -0.5 * distance_BNT.square()
    fade = max(0.0, 1.0 - step / diagonal_steps) if diagonal_steps else 0.0
    if fade:
        score_BNT = score_BNT + fade * DIAGONAL_WEIGHT * diagonal_prior(
            token_lengths, mel_lengths, *score_BNT.shape[1:]
        )
    return monotonic_alignment(score_BNT, token_lengths, mel_lengths)


def owners(durations_BN: Tensor, time_BT: Tensor, token_lengths: Tensor) -> Tensor:
    """Return the index of the phoneme, (B, T) int64, of each mel frame in `time_BT` (int64); after the end of an
    utterance, its last phoneme."""
    owner_BT = torch.searchsorted(durations_BN.cumsum(1), time_BT, right=True)
    return torch.minimum(owner_BT, token_lengths[:, None] - 1)


def prior_loss(
    prior_BNM: Tensor, mel_BTM: Tensor, durations_BN: Tensor, token_lengths: Tensor, mel_lengths: Tensor
) -> Tensor:
    """Return half the squared distance between prior and normalised mel: mean over bins, sum over frames without
    padding."""
    time_T = torch.arange(mel_BTM.shape[1], device=mel_BTM.device)
    owner_BT = owners(durations_BN, time_T.expand(len(mel_BTM), -1).contiguous(), token_lengths)
    aligned_BTM = prior_BNM.gather(1, owner_BT[..., None].expand(-1, -1, mel_BTM.shape[2]))
    return (0.5 * ((aligned_BTM - mel_BTM) ** 2).mean(2) * (time_T < mel_lengths[:, None])).sum()


def pointers(
    durations_BN: Tensor, token_lengths: Tensor, code_frames: Tensor, stride: int, most_advance: int, steps: int
) -> Tensor:
    """Return the position (B, steps + 1) int64 of a language model's phoneme pointer before each step and after the
    last one.

    `stride`: mel frames per code frame; the middle one decides. The pointer starts at 0, advances by 0 to
    `most_advance` per step, and is N after a row's last code frame.
    """
    time_T = torch.arange(steps + 1, device=durations_BN.device)
    owner_BT = owners(
        durations_BN, (time_T * stride + stride // 2).expand(len(durations_BN), -1).contiguous(), token_lengths
    )
    owner_BT[:, 0] = 0
    reach_T = time_T * most_advance
    reachable_BT = reach_T + (owner_BT - reach_T).cummin(1).values
    latest_BT = (
        token_lengths[:, None] - (code_frames[:, None] - time_T) * most_advance
    )  # last position from which the end is reachable
    pointer_BT = torch.maximum(reachable_BT, latest_BT).clamp(min=0)
    return torch.where(time_T < code_frames[:, None], pointer_BT, token_lengths[:, None])


def stay_at_end(pointer_BT: Tensor, code_frames: Tensor) -> Tensor:
    """Keep pointers (B, T) int64 at the last code frame during the remaining steps of the delayed codebooks."""
    time_BT = torch.arange(pointer_BT.shape[1], device=pointer_BT.device).expand_as(pointer_BT)
    return pointer_BT.gather(1, torch.minimum(time_BT, code_frames[:, None] - 1))


def ages(pointer_BT: Tensor) -> Tensor:
    """Return the number of steps that each pointer (B, T) int64 has been at its position, 0 on arrival."""
    time_T = torch.arange(pointer_BT.shape[1], device=pointer_BT.device)
    moved_BT = torch.cat([torch.ones_like(pointer_BT[:, :1]), pointer_BT.diff(dim=1)], dim=1) != 0
    return time_T - torch.where(moved_BT, time_T, 0).cummax(1).values
