"""The verdict on what speaks on a GPU: what did not run, computed something else or is slow fails by name."""

from typing import Any

import pytest

from benchmarks.gpu_engines import BASELINE, GRAPHS, _failures

GOOD = {"passed": True}


def found(ladder: dict[str, Any]) -> dict[str, Any]:
    rows = {BASELINE["cuda"]: GOOD, GRAPHS: GOOD} | ladder
    ran = {name: {"speedup_ci95": [1.2, 1.4]} for name, row in rows.items() if isinstance(row, dict)}
    return {"ladder": rows, "spoken": {"short": ran}}


@pytest.mark.parametrize(
    ("ladder", "failed"),
    [
        ({}, []),
        ({"onnxruntime-cuda/fp32": "not run: no such package"}, []),
        ({"torch-cuda-graphs/fp32": "not run: refused"}, [f"{GRAPHS}: not run: refused"]),
        ({"torch-cuda/fp32": "not run: refused"}, ["torch-cuda/fp32: not run: refused"]),
        ({"torch-cuda/bf16": {"passed": False, "failed": "values: far off"}}, ["torch-cuda/bf16: values: far off"]),
    ],
)
def test_what_did_not_run_or_failed_is_named(ladder: dict[str, Any], failed: list[str]) -> None:
    assert _failures(found(ladder), on_gpu=True) == failed


def test_graphs_that_are_no_faster_fail_on_a_gpu_alone() -> None:
    slow = found({})
    slow["spoken"]["short"][GRAPHS]["speedup_ci95"] = [0.9, 1.4]
    assert _failures(slow, on_gpu=True) == [f"{GRAPHS}: no faster than torch-cuda/fp32"]
    assert _failures(slow, on_gpu=False) == []


def test_nothing_that_ran_is_no_success() -> None:
    nothing = {"ladder": {"onnxruntime/fp32": "not run: x"}, "spoken": {"short": {}}}
    assert _failures(nothing, on_gpu=False) == ["no candidate ran"]
