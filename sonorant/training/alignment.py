"""Which frame belongs to which phoneme while a model learns it. Knows nothing of what is learned from the answer."""

from __future__ import annotations

import torch

from sonorant.models.alignment import diagonal_prior, monotonic_alignment

DIAGONAL_WEIGHT = 2000.0
"""Strength of the diagonal prior at step 0, in nats of a frame's log-likelihood at a distance of the whole utterance."""


@torch.no_grad()
def align(
    prior_BNM: torch.Tensor,
    mel_BTM: torch.Tensor,
    token_lengths: torch.Tensor,
    mel_lengths: torch.Tensor,
    step: int = 0,
    diagonal_steps: int = 0,
) -> torch.Tensor:
    """(B, N) int64 durations in mel frames by alignment search under unit-variance Gaussians around each token's prior.

    Both the prior (B, N, M) and the mel (B, T, M) are normalised. A pull to the diagonal fades out over `diagonal_steps`.
    """
    distance_BNT = torch.cdist(prior_BNM, mel_BTM.float(), compute_mode="use_mm_for_euclid_dist")
    score_BNT = -0.5 * distance_BNT.square()
    fade = max(0.0, 1.0 - step / diagonal_steps) if diagonal_steps else 0.0
    if fade:
        score_BNT = score_BNT + fade * DIAGONAL_WEIGHT * diagonal_prior(token_lengths, mel_lengths, *score_BNT.shape[1:])
    return monotonic_alignment(score_BNT, token_lengths, mel_lengths)


def owners(durations_BN: torch.Tensor, time_BT: torch.Tensor, token_lengths: torch.Tensor) -> torch.Tensor:
    """The phoneme (B, T) int64 that each mel frame of `time_BT`, int64, belongs to; the last one past the end."""
    owner_BT = torch.searchsorted(durations_BN.cumsum(1), time_BT, right=True)
    return torch.minimum(owner_BT, token_lengths[:, None] - 1)


def prior_loss(
    prior_BNM: torch.Tensor,
    mel_BTM: torch.Tensor,
    durations_BN: torch.Tensor,
    token_lengths: torch.Tensor,
    mel_lengths: torch.Tensor,
) -> torch.Tensor:
    """Half the squared distance of each frame's phoneme's prior from the normalised mel, mean over bins, summed over real frames."""
    time_T = torch.arange(mel_BTM.shape[1], device=mel_BTM.device)
    owner_BT = owners(durations_BN, time_T.expand(len(mel_BTM), -1).contiguous(), token_lengths)
    aligned_BTM = prior_BNM.gather(1, owner_BT[..., None].expand(-1, -1, mel_BTM.shape[2]))
    return (0.5 * ((aligned_BTM - mel_BTM) ** 2).mean(2) * (time_T < mel_lengths[:, None])).sum()


def pointers(
    durations_BN: torch.Tensor, token_lengths: torch.Tensor, code_frames: torch.Tensor, stride: int, most_advance: int, steps: int
) -> torch.Tensor:
    """The phoneme that a language model's pointer stands on at each step, from durations in mel frames.

    It starts on the first phoneme, never goes back nor further than `most_advance` in a step, and has passed the last one (stands on N)
    right after a row's last code frame.

    Args:
        durations_BN: (B, N) int64 mel frames of each phoneme.
        token_lengths, code_frames: (B,) int64.
        stride: mel frames a code frame; the one in the middle decides.

    Returns:
        (B, steps + 1) int64; the last place says where the last step's advance leads.
    """
    time_T = torch.arange(steps + 1, device=durations_BN.device)
    owner_BT = owners(durations_BN, (time_T * stride + stride // 2).expand(len(durations_BN), -1).contiguous(), token_lengths)
    owner_BT[:, 0] = 0
    reach_T = time_T * most_advance
    reachable_BT = reach_T + (owner_BT - reach_T).cummin(1).values
    latest_BT = token_lengths[:, None] - (code_frames[:, None] - time_T) * most_advance  # whoever is behind it comes too late
    pointer_BT = torch.maximum(reachable_BT, latest_BT).clamp(min=0)
    return torch.where(time_T < code_frames[:, None], pointer_BT, token_lengths[:, None])


def stay_at_end(pointer_BT: torch.Tensor, code_frames: torch.Tensor) -> torch.Tensor:
    """Pointers (B, T) int64 that stay where they stood at the last code frame, while the streams that are delayed catch up."""
    time_BT = torch.arange(pointer_BT.shape[1], device=pointer_BT.device).expand_as(pointer_BT)
    return pointer_BT.gather(1, torch.minimum(time_BT, code_frames[:, None] - 1))


def ages(pointer_BT: torch.Tensor) -> torch.Tensor:
    """For how many steps each pointer (B, T) int64 has stood where it stands, 0 on arrival."""
    time_T = torch.arange(pointer_BT.shape[1], device=pointer_BT.device)
    moved_BT = torch.cat([torch.ones_like(pointer_BT[:, :1]), pointer_BT.diff(dim=1)], dim=1) != 0
    return time_T - torch.where(moved_BT, time_T, 0).cummax(1).values
