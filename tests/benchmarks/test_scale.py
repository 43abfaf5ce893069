"""A step whose cost grows with the square of the corpus is found; fixed costs and noise below the floor are not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.scale import SIZES, Costs, judged, table
from benchmarks.scale_rows import ON_ROWS, index_rows, prepared
from benchmarks.scale_worker import Job, measured
from sonorant.corpus.manifest import read_manifest


def costs(cpu_us: Callable[[int], float], memory: Callable[[int], float]) -> dict[int, Costs]:
    return {size: {"cpu_us": cpu_us(size), "bytes": memory(size), "files": 1.0} for size in SIZES}


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (costs(lambda _: 50.0, lambda _: 3000.0), True),
        (costs(lambda size: 50.0 + 1e6 / size, lambda size: 3000.0 + 1e8 / size), True),  # fixed costs
        (costs(lambda size: 50.0 * 1.15 ** (size > 10_000), lambda _: 3000.0), True),
        (costs(lambda size: 0.1 * size**0.1, lambda size: 0.01 * size**0.5), True),  # below the floor
        (costs(lambda size: size / 1000, lambda _: 3000.0), False),  # the square
        (costs(lambda _: 50.0, lambda size: 3000.0 + size / 100), False),
        (costs(lambda size: 50.0 * 1.3 ** (size > 10_000), lambda _: 3000.0), False),
    ],
)
def test_a_cost_that_grows_with_the_corpus_is_found(found: dict[int, Costs], holds: bool) -> None:
    _, claims = judged({"plan": found})
    assert list(claims.values()) == [holds]


def test_what_was_not_measured_is_called_extrapolated() -> None:
    steps = {"plan": costs(lambda _: 36.0, lambda _: 1024.0)}
    result, _ = judged(steps)
    far = result["plan"]["extrapolated_to_45000000"]
    assert far == {"from": 1_000_000, "cpu_hours": 0.45, "gib": 42.92, "files": 45_000_000}
    assert [line for line in table(steps).splitlines() if "45,000,000" in line and "extrapolated" in line]


def test_steps_leave_what_the_next_ones_take(tmp_path: Path) -> None:
    for name, step in ON_ROWS.items():
        found = measured(step, Job(utterances=120, folder=str(tmp_path)))
        assert found["cpu_seconds"] is not None and found["cpu_seconds"] >= 0.0, name
    assert read_manifest(tmp_path / "rows.jsonl") == list(prepared(120))
    assert set(index_rows(120).speaker.tolist()) == {0, 1}
