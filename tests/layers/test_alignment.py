import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import torch

from sonorant.layers.alignment import batched_search, diagonal_prior, monotonic_alignment
from tests.support.imports import ROOT


def best_by_trying(score_NT: torch.Tensor) -> list[int]:
    tokens, frames = score_NT.shape
    paths = [(0, *cuts, frames) for cuts in combinations(range(1, frames), tokens - 1)]
    best = max(paths, key=lambda path: sum(float(score_NT[n, a:b].sum()) for n, (a, b) in enumerate(pairwise(path))))
    return [b - a for a, b in pairwise(best)]


@pytest.mark.parametrize("padding", [0.0, 1e6])
@pytest.mark.parametrize("search", [monotonic_alignment, batched_search])
def test_finds_the_best_path_whatever_the_padding(search: Callable[..., torch.Tensor], padding: float) -> None:
    torch.manual_seed(3)
    tokens, frames = torch.tensor([4, 3, 4, 2, 1, 4]), torch.tensor([9, 8, 4, 9, 7, 6])
    score = torch.randn(6, 4, 9) * 3
    real = (torch.arange(4)[:, None] < tokens[:, None, None]) & (torch.arange(9) < frames[:, None, None])
    durations = search(score.masked_fill(~real, padding), tokens, frames)
    for item in range(6):
        assert durations[item, : tokens[item]].tolist() == best_by_trying(score[item, : tokens[item], : frames[item]])
        assert durations[item, tokens[item] :].eq(0).all()


def test_large_scores_do_not_lose_the_differences_between_paths() -> None:
    torch.manual_seed(5)
    score = torch.randn(1, 3, 8)
    shifted = monotonic_alignment(score - 1e5, torch.tensor([3]), torch.tensor([8]))
    assert torch.equal(shifted, monotonic_alignment((score - 1e5).double(), torch.tensor([3]), torch.tensor([8])))


def test_diagonal_prior_alone_spreads_tokens_evenly() -> None:
    prior = diagonal_prior(torch.tensor([4]), torch.tensor([20]), 4, 20)
    assert monotonic_alignment(prior, torch.tensor([4]), torch.tensor([20])).tolist() == [[5, 5, 5, 5]]


@pytest.mark.parametrize("tied", [False, True])
def test_the_compiled_search_finds_the_path_of_the_one_in_torch(tied: bool) -> None:
    """Also on ties, bit-identical: a resumed run may lack the kernel."""
    pytest.importorskip("numba")
    torch.manual_seed(6)
    for _ in range(200):
        batch, tokens, frames = (int(torch.randint(1, limit, ())) for limit in (5, 9, 40))
        tokens = min(tokens, frames)
        tokens_B = torch.randint(1, tokens + 1, (batch,))
        frames_B = torch.stack([torch.randint(int(least), frames + 1, ()) for least in tokens_B])
        score_BNT = torch.randn(batch, tokens, frames) * 3
        if tied:
            score_BNT = score_BNT.round()
        given = score_BNT, tokens_B, frames_B
        assert torch.equal(monotonic_alignment(*given), batched_search(*given))


def test_scores_that_are_no_numbers_stay_inside_the_utterance() -> None:
    given = torch.full((1, 3, 8), torch.nan), torch.tensor([3]), torch.tensor([8])
    assert torch.equal(monotonic_alignment(*given), batched_search(*given))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_path_of_the_cpu() -> None:
    torch.manual_seed(7)
    score, tokens, frames = torch.randn(4, 30, 200), torch.tensor([30, 20, 30, 7]), torch.tensor([200, 150, 199, 50])
    found = monotonic_alignment(score.cuda(), tokens.cuda(), frames.cuda())
    assert torch.equal(found.cpu(), monotonic_alignment(score, tokens, frames))


CODE = """
import sys, torch
if sys.argv[1] == "absent":
    sys.modules["numba"] = None
from sonorant.layers.alignment import monotonic_alignment
print(monotonic_alignment(torch.eye(3)[None], torch.tensor([3]), torch.tensor([3])).tolist())
"""


@pytest.mark.parametrize("numba", ["absent", "without a folder for its cache"])
def test_the_search_works_without_numba_and_without_a_folder_for_its_machine_code(numba: str, tmp_path: Path) -> None:
    layers = tmp_path / "sonorant" / "layers"
    layers.mkdir(parents=True)
    for file in ("__init__.py", "alignment.py", "alignment_kernel.py"):
        shutil.copy(ROOT / "sonorant" / "layers" / file, layers)
    (layers / "__pycache__").write_text("a file, so that no folder can be made here")
    (tmp_path / "home").write_text("no folder either")
    env = {**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    env = {name: value for name, value in env.items() if not name.startswith(("NUMBA_", "XDG_"))}
    done = subprocess.run([sys.executable, "-c", CODE, numba], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[[1, 1, 1]]", done.stderr
    assert ("numba is not installed" in done.stderr) == (numba == "absent")
