from pathlib import Path

import pytest

from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory
from tests.training.world_sizes import CASES, FIRST_BOUND, FIRST_STEPS, curves, difference

LONG = ("vocoder, adversarial", "codec", "acoustic, flow", "language model")


@pytest.mark.parametrize(
    "case", ["acoustic, regression", *(pytest.param(case, marks=pytest.mark.long) for case in LONG)]
)
def test_two_ranks_follow_the_curve_of_one(case: str, features: Path, tmp_path: Path) -> None:
    """Dropped codebooks depend on the micro-batch's seed."""
    kind, changes = CASES[case]
    alone, together = (curves(kind, features, tmp_path / str(n), n, FIRST_STEPS, **changes) for n in (1, 2))
    assert all(len(losses) == FIRST_STEPS for losses in (*alone.values(), *together.values()))
    assert difference(alone, together) < FIRST_BOUND


@pytest.mark.long
@pytest.mark.parametrize("processes", [2, 4])
def test_ranks_that_resume_from_one_process_follow_its_curve(processes: int, features: Path, tmp_path: Path) -> None:
    kind, changes = CASES["acoustic, regression"]
    alone = curves(kind, features, tmp_path / "1", 1, 2 * FIRST_STEPS, **changes)
    state = checkpoint.path_of(RunDirectory(tmp_path / "1" / "run").checkpoints, FIRST_STEPS)
    resumed = curves(kind, features, tmp_path / "resumed", processes, 2 * FIRST_STEPS, state, **changes)
    assert difference({name: losses[-FIRST_STEPS:] for name, losses in alone.items()}, resumed) < FIRST_BOUND
