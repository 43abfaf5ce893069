"""The alignment search against trying every path."""

from itertools import combinations, pairwise

import torch

from sonorant.models.alignment import diagonal_prior, monotonic_alignment


def best_by_trying(score_NT: torch.Tensor) -> list[int]:
    tokens, frames = score_NT.shape
    paths = [(0, *cuts, frames) for cuts in combinations(range(1, frames), tokens - 1)]
    best = max(paths, key=lambda path: sum(float(score_NT[n, a:b].sum()) for n, (a, b) in enumerate(pairwise(path))))
    return [b - a for a, b in pairwise(best)]


def test_finds_the_best_path_of_every_item_whatever_its_padding() -> None:
    torch.manual_seed(3)
    tokens, frames = torch.tensor([4, 3, 4, 2, 1, 4]), torch.tensor([9, 8, 4, 9, 7, 6])
    score = torch.randn(6, 4, 9) * 3
    durations = monotonic_alignment(score, tokens, frames)
    for item in range(6):
        assert durations[item, : tokens[item]].tolist() == best_by_trying(score[item, : tokens[item], : frames[item]])
        assert durations[item, tokens[item] :].eq(0).all()


def test_padding_values_do_not_matter() -> None:
    torch.manual_seed(4)
    score, tokens, frames = torch.randn(2, 5, 12), torch.tensor([5, 3]), torch.tensor([12, 7])
    other = score.clone()
    other[1, 3:] = 1e6
    other[1, :, 7:] = 1e6
    assert torch.equal(monotonic_alignment(score, tokens, frames), monotonic_alignment(other, tokens, frames))


def test_large_scores_do_not_lose_the_differences_between_paths() -> None:
    torch.manual_seed(5)
    score = torch.randn(1, 3, 8)
    shifted = monotonic_alignment(score - 1e5, torch.tensor([3]), torch.tensor([8]))
    assert torch.equal(shifted, monotonic_alignment((score - 1e5).double(), torch.tensor([3]), torch.tensor([8])))


def test_diagonal_prior_alone_spreads_tokens_evenly() -> None:
    prior = diagonal_prior(torch.tensor([4]), torch.tensor([20]), 4, 20)
    assert monotonic_alignment(prior, torch.tensor([4]), torch.tensor([20])).tolist() == [[5, 5, 5, 5]]
