"""Monotonic alignment search: which frames belong to which token. Knows nothing of networks."""

from __future__ import annotations

import torch


@torch.no_grad()
def monotonic_alignment(score_BNT: torch.Tensor, tokens_B: torch.Tensor, frames_B: torch.Tensor) -> torch.Tensor:
    """Durations of the best monotonic path in which every token owns at least one frame.

    The search of Kim et al. 2020, "Glow-TTS", section 3.2, rewritten as a running maximum. With P_j the prefix sums of token j's
    scores, the best score of giving the first t frames to tokens 0..j is V_j(t) = P_j(t) + max over s < t of (V_{j-1}(s) - P_j(s)), so
    the whole row of a token is one `cummax`: a loop over tokens, never over frames, the same code on CPU and GPU.

    Args:
        score_BNT: (B, N, T) float, log-likelihood of frame t under token n; padding is ignored.
        tokens_B: (B,) int64, number of real tokens.
        frames_B: (B,) int64, number of real frames; at least as many as tokens.

    Returns:
        (B, N) int64 durations in frames, zero at padded tokens, summing to `frames_B`.
    """
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


def diagonal_prior(tokens_B: torch.Tensor, frames_B: torch.Tensor, tokens: int, frames: int) -> torch.Tensor:
    """(B, N, T) float32, zero on the diagonal and falling with the square of the distance from it: a start for the alignment.

    The idea of the guided attention of Tachibana et al. 2017, section 3.1, used as a log prior of the search instead of a loss.
    """
    place_BN = (torch.arange(tokens, device=tokens_B.device)[None] + 0.5) / tokens_B[:, None]
    time_BT = (torch.arange(frames, device=tokens_B.device)[None] + 0.5) / frames_B[:, None]
    return -((place_BN[:, :, None] - time_BT[:, None, :]) ** 2)
