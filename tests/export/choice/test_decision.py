from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.export.choice import ChooseConfig, choose, shipped_variants
from tests.export.choice.figures import figures, variant

FP32, FP16, INT8 = "onnxruntime/fp32", "onnxruntime/fp16", "onnxruntime/int8"
CONFIG = ChooseConfig(target="latency", max_wer_above_fp32=2.0, min_speedup=1.05)


def chosen(*candidates: dict[str, Any], config: ChooseConfig = CONFIG) -> str:
    found = choose(figures(*candidates), config)
    return f"{found['runtime']}/{found['variant']}"


def reason(candidate: str, *candidates: dict[str, Any]) -> tuple[bool, str]:
    [row] = [row for row in choose(figures(*candidates), CONFIG)["table"] if row["candidate"] == candidate]
    return row["passed"], row["reason"]


def test_the_fastest_that_passed_ships() -> None:
    found = choose(figures(variant(FP16, 1.2), variant(INT8, 1.6, wer=12.5)), CONFIG)
    assert (found["runtime"], found["variant"]) == ("onnxruntime", "int8")
    assert found["sentence"] == (
        "onnxruntime/int8 ships (latency): 1.60 times fp32's speed, "
        "WER +0.5 points (95 % interval -0.5 to +1.5), 0.31 of its size"
    )
    assert shipped_variants(found) == ["fp32", "fp16", "int8"]


def test_one_that_the_gates_refuse_leaves_its_place_where_they_let_fp32_pass() -> None:
    given = figures(variant(FP16, 1.2), variant(INT8, 1.6))
    refused = {INT8: "faulty_short_texts: in 10 of 133"}
    found = choose(given, CONFIG, lambda candidate: refused.get(candidate, ""))
    assert found["variant"] == "fp16"
    [row] = [row for row in found["table"] if row["candidate"] == INT8]
    assert row["reason"] == "refused by gates that fp32 passes: faulty_short_texts: in 10 of 133"
    assert shipped_variants(found) == ["fp32", "fp16", "int8"], "whoever wants it by name has it"
    both = refused | {FP32: "rtf: 0.03"}
    assert choose(given, CONFIG, lambda candidate: both.get(candidate, ""))["variant"] == "int8", "no one is better off"


@pytest.mark.parametrize(
    ("speedup", "spread", "says"),
    [
        (0.8, 0.02, "passed, but slower: 0.80 times fp32's speed (95 % interval 0.78 - 0.82)"),
        (1.5, 0.6, "passed, but not significantly faster: 1.50 times fp32's speed (95 % interval 0.90 - 2.10)"),
        (1.04, 0.001, "passed, but not significantly faster: 1.04"),
    ],
)
def test_what_is_not_certainly_faster_stays_behind_fp32(speedup: float, spread: float, says: str) -> None:
    found = choose(figures(variant(INT8, speedup, spread)), CONFIG)
    assert found["variant"] == "fp32" and found["table"][1]["passed"]
    assert found["table"][1]["reason"].startswith(says)
    assert f"onnxruntime/int8 {says}" in found["sentence"]


def test_a_faster_one_that_is_understood_worse_does_not_ship_at_all() -> None:
    worse = variant(INT8, 1.6, wer=14.1)
    assert chosen(worse, variant(FP16, 1.1)) == FP16
    passed, why = reason(INT8, worse)
    assert not passed
    assert "WER +2.1 points above fp32 (95 % interval +1.1 to +3.1; choose.max_wer_above_fp32 is 2)" in why
    assert shipped_variants(choose(figures(worse), CONFIG)) == ["fp32"]
    assert chosen(worse, config=replace(CONFIG, max_wer_above_fp32=2.2)) == INT8


def test_what_failed_a_rung_or_did_not_run_says_so_and_does_not_ship() -> None:
    failed, absent, unheard = (variant(f"onnxruntime/{name}", 1.6) for name in ("int8", "fp16", "bf16"))
    failed["parity"][INT8] = {"passed": False, "failed": "values: graph decoder: NaN"}
    absent["parity"][FP16] = absent["speed"][FP16] = "not run: no kernel"
    unheard["intelligibility"]["bf16"] = "failed: NaN or infinity in 1 of 160 sentences"
    assert chosen(failed, absent, unheard) == FP32
    assert reason(INT8, failed) == (False, "failed verify: values: graph decoder: NaN")
    assert reason(FP16, absent) == (False, "not run: no kernel")
    assert reason("onnxruntime/bf16", unheard) == (False, "failed: NaN or infinity in 1 of 160 sentences")


def test_torch_is_shown_and_never_chosen() -> None:
    fast = variant("torch/fp32", 3.0)
    del fast["parity"]
    assert chosen(fast) == FP32
    [row] = [row for row in choose(figures(fast), CONFIG)["table"] if row["candidate"] == "torch/fp32"]
    assert row["passed"] and row["reason"].startswith("for comparison")
    assert row["wer"] is row["bytes"] is None, "of the bundle, not of the trained models"


def test_an_engine_ships_where_it_ran_and_its_precision_was_heard() -> None:
    engine = variant("tensorrt/fp16", 4.0)
    slower = variant(FP16, 1.2)
    assert chosen(engine, slower) == "tensorrt/fp16"
    assert reason("tensorrt/fp16", engine, slower)[1].endswith("; WER as measured under onnxruntime")
    assert "under onnxruntime" not in reason(FP16, engine, slower)[1]
    worse = variant(FP16, 1.2, wer=20.0)
    assert reason("tensorrt/fp16", engine, worse)[1].endswith("max_wer_above_fp32 is 2) as measured under onnxruntime")
    del engine["intelligibility"]["fp16"]
    assert chosen(engine) == FP32


def test_the_target_decides_which_figures_count() -> None:
    wide = variant(INT8, 1.6)
    wide["speed"][INT8]["medium"] = {
        "threads_1": {"p50_ms": 20.0, "rtf": 0.005, "over_fp32": 2.0, "over_fp32_ci95": [1.9, 2.1]},
        "threads_all": {"p50_ms": 50.0, "rtf": 0.02, "over_fp32": 0.8, "over_fp32_ci95": [0.7, 0.9]},
    }
    assert chosen(wide) == FP32
    assert chosen(wide, config=replace(CONFIG, target="throughput")) == INT8


def test_without_fp32_there_is_no_voice() -> None:
    broken = figures()
    broken["parity"][FP32] = {"passed": False, "failed": "values: NaN"}
    with pytest.raises(SonorantError, match="onnxruntime/fp32: failed verify: values: NaN; fix this first"):
        choose(broken, CONFIG)


@pytest.mark.parametrize("metrics", [{}, {"parity": [], "speed": {}}, figures() | {"speed": {FP32: {}}}])
def test_figures_of_another_shape_are_refused(metrics: dict[str, Any]) -> None:
    with pytest.raises(SonorantError, match="incomplete figures"):
        choose(metrics, CONFIG)


CANDIDATES = st.sampled_from([FP16, INT8, "tensorrt/int8", "torch/int8"])


@given(
    st.lists(
        st.tuples(CANDIDATES, st.floats(0.2, 4.0), st.floats(0.0, 1.0), st.floats(5.0, 20.0)),
        unique_by=lambda row: row[0].split("/")[1],
    )
)
def test_whatever_was_measured_no_slower_and_no_worse_one_ships(rows: list[tuple[str, float, float, float]]) -> None:
    measured = {candidate: (speedup, spread, wer) for candidate, speedup, spread, wer in rows}
    best = chosen(*(variant(candidate, *found) for candidate, found in measured.items()))
    if best != FP32:
        speedup, spread, wer = measured[best]
        assert speedup - spread >= 1.05 and wer <= 14.0 and not best.startswith("torch")


def test_where_nobody_could_listen_fp32_ships_and_says_so() -> None:
    why = "not run: the recogniser hears English only"
    metrics = figures(variant("onnxruntime/int8", speedup=2.0), variant("onnxruntime/fp16", speedup=1.5))
    heard = dict.fromkeys(("recordings", "vocoder", "fp32", "fp16"), why)
    found = choose(metrics | {"intelligibility": heard | {"int8": "failed: NaN in 3 of 3 sentences"}}, CONFIG)
    rows = {row["candidate"]: row for row in found["table"]}
    assert found["variant"] == "fp32" and rows["onnxruntime/fp32"]["reason"].endswith(f"; words {why}")
    assert (rows["onnxruntime/fp16"]["passed"], rows["onnxruntime/fp16"]["reason"]) == (False, why)
    assert rows["onnxruntime/int8"]["reason"].startswith("failed: NaN")
