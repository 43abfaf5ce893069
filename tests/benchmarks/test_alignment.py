"""What the alignment benchmark claims: only what the whole interval says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.alignment import AS_IT_IS, NEEDED, PREFIX, UNCORRUPTED, claims_of, project_of
from sonorant.errors import SonorantError


@pytest.mark.parametrize(
    ("prefix", "uncorrupted", "broken"),
    [
        ([20.0, 40.0], [-1.0, 3.0], []),
        ([20.0, 40.0], [-5.0, -1.0], [f"{UNCORRUPTED} has not certainly fewer words wrong"]),
        ([-1.0, 40.0], [-1.0, 3.0], ["a prefix alone has certainly more words wrong than the pointer"]),
    ],
)
def test_a_claim_holds_if_its_interval_does(prefix: list[float], uncorrupted: list[float], broken: list[str]) -> None:
    speech = {
        AS_IT_IS: {"wer": 14.0},
        PREFIX: {"above_as_it_is": {"wer_ci95": prefix}},
        UNCORRUPTED: {"above_as_it_is": {"wer_ci95": uncorrupted}},
    }
    assert [claim for claim, holds in claims_of(speech).items() if not holds] == broken


def test_the_project_is_the_first_that_holds_a_language_model(tmp_path: Path) -> None:
    for kind in ("acoustic", "language_model"):
        for folder in NEEDED:
            (tmp_path / kind / folder).mkdir(parents=True)
        (tmp_path / kind / "models/predictor/model.json").write_text(f'{{"kind": "{kind}"}}')
    projects = [tmp_path / name for name in ("nothing", "acoustic", "language_model")]
    assert project_of(projects) == projects[2]
    with pytest.raises(SonorantError, match="no codec language model with its data; run `make demo FAMILY=codec_lm`"):
        project_of(projects[:2])
