from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.evaluation.latency import measure, over_baseline, sentence_classes, take_turns
from sonorant.evaluation.measured_candidates import measure_memory
from tests.evaluation.variants import with_copies


def tokens_of(length: int) -> np.ndarray:
    tokens = np.zeros((length, 3), np.int64)
    tokens[:, 0] = np.arange(length) % 20 + 3
    return tokens


def test_classes_are_the_shortest_the_median_and_the_longest() -> None:
    classes = sentence_classes([tokens_of(length) for length in (9, 3, 50, 4, 20)])
    assert {name: len(tokens) for name, tokens in classes.items()} == {"short": 3, "medium": 9, "long": 50}


def test_a_required_runtime_that_cannot_run_stops_the_measurement(voice_bundle: Path, tmp_path: Path) -> None:
    absent = (tmp_path / "acoustic", tmp_path / "vocoder")
    with pytest.raises(SonorantError, match="acoustic"):
        measure(voice_bundle, absent, {"torch/fp32": None}, {"short": tokens_of(4)}, 3)


def test_one_that_cannot_run_stops_no_other(voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    bundle = with_copies(voice_bundle, tmp_path / "variants", "fp16", "int8")
    (bundle / "decoder.int8.onnx").write_bytes(b"damaged")
    candidates = dict.fromkeys(("onnxruntime/fp32", "onnxruntime/fp16", "onnxruntime/int8"))
    candidates["tensorrt/fp32"] = "it is absent"
    speed = measure(bundle, trained, candidates, {"short": tokens_of(4)}, 3)
    assert list(speed) == list(candidates)
    assert speed["tensorrt/fp32"] == "not run: it is absent"
    assert speed["onnxruntime/int8"].startswith("not run: ") and "damaged" in speed["onnxruntime/int8"]
    for threads in ("threads_1", "threads_all"):
        figures = speed["onnxruntime/fp16"]["short"][threads]
        low, high = figures["over_fp32_ci95"]
        assert 0 < low <= figures["over_fp32"] <= high
        assert "over_fp32" not in speed["onnxruntime/fp32"]["short"][threads]


@pytest.mark.parametrize(("longest", "rounds"), [(1e9, 10), (0.0, 4)], ids=["fast", "slow"])
def test_runs_alternate_and_end_early_on_a_busy_machine(longest: float, rounds: int) -> None:
    called: list[str] = []
    took = take_turns({name: partial(called.append, name) for name in "ab"}, 10, longest, 4)
    assert len(took["a"]) == len(took["b"]) == rounds
    assert "".join(called[-8:]) == "abbaabba", "who goes first alternates"


def test_the_ratio_is_above_one_for_what_is_faster_whatever_else_the_machine_did() -> None:
    busy = np.random.default_rng(0).uniform(1, 5, 60)  # the same drift for both
    noise = np.random.default_rng(1).normal(1, 0.02, 60)
    found = over_baseline(2 * busy / (busy * noise))
    low, high = found["over_fp32_ci95"]
    assert 1.9 < low < found["over_fp32"] < high < 2.1


def test_memory_is_that_of_a_process_with_this_candidate_alone(voice_bundle: Path, trained: tuple[Path, Path]) -> None:
    """The parent's memory must not show in the peak."""
    held = np.ones(80_000_000)
    candidates = {"onnxruntime/fp32": None, "onnxruntime/int8": None, "onnxruntime/bf16": "no kernels"}
    found = measure_memory(voice_bundle, trained, candidates, tokens_of(40))
    assert 20 < found["onnxruntime/fp32"]["loaded_mib"] <= found["onnxruntime/fp32"]["peak_mib"] < held.nbytes / 2**20
    assert found["onnxruntime/int8"].startswith("not run: ") and "no variant 'int8'" in found["onnxruntime/int8"]
    assert found["onnxruntime/bf16"] == "not run: no kernels"
