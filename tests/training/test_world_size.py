"""One loss curve, whatever the number of ranks; the short form of `benchmarks.world_size`."""

from pathlib import Path

import pytest

from benchmarks.world_size import CASES, FIRST_BOUND, FIRST_STEPS, curves, difference

LONG = ("vocoder, adversarial", "acoustic, flow", "language model")


@pytest.mark.parametrize(
    "case", ["acoustic, regression", "codec", *(pytest.param(case, marks=pytest.mark.long) for case in LONG)]
)
def test_two_ranks_follow_the_curve_of_one(case: str, features: Path, tmp_path: Path) -> None:
    """What a row loses, as a codec's codebooks, is drawn from the micro-batch's seed: it is the same on any rank."""
    kind, changes = CASES[case]
    alone, together = (curves(kind, features, tmp_path / str(n), n, FIRST_STEPS, **changes) for n in (1, 2))
    assert all(len(losses) == FIRST_STEPS for losses in (*alone.values(), *together.values()))
    assert difference(alone, together) < FIRST_BOUND
