import json
from pathlib import Path

import pytest

from sonorant.plugins import model_kind
from tests.training.golden_losses import CASES, KEPT, TOLERANCE, differ, losses_of

GOLDEN = json.loads(KEPT.read_text())


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("case", CASES)
def test_the_first_losses_are_those_that_were_kept(case: str, precision: str, features: Path, alone: None) -> None:
    kind, _ = CASES[case]
    renew = "run: python -m tests.training.golden_losses --write"
    assert GOLDEN[case]["version"] == model_kind(kind).VERSION, f"{case} has another VERSION; {renew}"
    found = losses_of(case, precision, features)
    assert not differ(GOLDEN[case][precision], found, TOLERANCE[precision]), (
        f"the mathematics of {case} in {precision} moved: {found}, not {GOLDEN[case][precision]}. If that is meant, "
        f"raise VERSION of its recipe, so that no training begun before goes on with it, and {renew}"
    )


def test_a_loss_that_moved_by_a_percent_is_seen() -> None:
    kept = GOLDEN["vocoder"]["fp32"]
    moved = [{name: value * (1.01 if name == "mel" else 1.0) for name, value in row.items()} for row in kept]
    assert differ(kept, moved, TOLERANCE["fp32"]) and not differ(kept, kept, 0.0)
    assert differ(kept, [{**row, "another": 1.0} for row in kept], TOLERANCE["fp32"])
