"""What benchmarks claim: only what the whole interval says, and of any variant that a voice ships."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import alignment, audit_worth, quantization, streaming, training
from benchmarks.alignment import AS_IT_IS, NEEDED, PREFIX, UNCORRUPTED
from benchmarks.latency import PRECISIONS
from benchmarks.quantization import System, race
from benchmarks.streaming import FIRST_AUDIO_MS
from benchmarks.training_cases import PLAIN, Case
from sonorant.errors import SonorantError
from tests.registry.planted import slowed


def broken(claims: dict[str, bool]) -> list[str]:
    return [claim for claim, holds in claims.items() if not holds]


@pytest.mark.parametrize(
    ("prefix", "uncorrupted", "expected"),
    [
        ([20.0, 40.0], [-1.0, 3.0], []),
        ([20.0, 40.0], [-5.0, -1.0], [f"{UNCORRUPTED} has not certainly fewer words wrong"]),
        ([-1.0, 40.0], [-1.0, 3.0], ["a prefix alone has certainly more words wrong than the pointer"]),
    ],
)
def test_words_are_more_or_fewer_where_the_whole_interval_says_so(
    prefix: list[float], uncorrupted: list[float], expected: list[str]
) -> None:
    speech = {
        AS_IT_IS: {"wer": 14.0},
        PREFIX: {"above_as_it_is": {"wer_ci95": prefix}},
        UNCORRUPTED: {"above_as_it_is": {"wer_ci95": uncorrupted}},
    }
    assert broken(alignment.claims_of(speech)) == expected


def test_alignment_is_measured_on_the_first_project_that_holds_a_language_model(tmp_path: Path) -> None:
    for kind in ("acoustic", "language_model"):
        for folder in NEEDED:
            (tmp_path / kind / folder).mkdir(parents=True)
        (tmp_path / kind / "models/predictor/model.json").write_text(f'{{"kind": "{kind}"}}')
    projects = [tmp_path / name for name in ("nothing", "acoustic", "language_model")]
    assert alignment.project_of(projects) == projects[2]
    with pytest.raises(SonorantError, match="no codec language model with its data; run `make demo FAMILY=codec_lm`"):
        alignment.project_of(projects[:2])


@pytest.mark.parametrize(("interval", "expected"), [([-3.0, 1.0], []), ([0.5, 3.0], [audit_worth.CLAIM])])
def test_an_audited_voice_is_worse_where_the_whole_interval_says_so(interval: list[float], expected: list[str]) -> None:
    speech = {"audited": {"above_faulty": {"wer_ci95": interval}}}
    assert broken(audit_worth.claims_of(speech)) == expected


FASTER = "int8 as shipped: certainly faster than float on one thread"


def claims_of_int8(speed: dict[str, Any]) -> dict[str, bool]:
    wer = {"shipped": {"above_float": {"wer": 0.0}}}
    return quantization.claims_of({"wer": wer, "size_over_float": 0.3, "speed": {"shipped": speed}})


@pytest.mark.parametrize(("low", "expected"), [(1.01, []), (0.98, [FASTER])])
def test_int8_is_faster_where_the_whole_interval_says_so(low: float, expected: list[str]) -> None:
    claims = claims_of_int8({"ms": 9.0, "speedup": 1.1, "speedup_ci95": [low, 1.3]})
    assert FASTER in claims and broken(claims) == expected


def test_every_int8_system_is_timed_beside_float(voice_bundle: Path, tmp_path: Path) -> None:
    slow = System(slowed(voice_bundle, tmp_path / "slow", operations=200), "fp32")
    as_float = System(voice_bundle, "fp32")
    found = race({"float": as_float, "control": as_float, "ptq": slow, "qat": slow, "shipped": slow}, repeats=8)
    assert list(found) == ["float", "control", "ptq", "qat", "shipped"]
    assert found["float"]["speedup_ci95"] == found["control"]["speedup_ci95"] == [1.0, 1.0]
    assert found["shipped"] == found["ptq"] and found["ptq"]["speedup_ci95"][1] < 1
    assert FASTER in broken(claims_of_int8(found["shipped"]))


def claims_of_streaming(family: str, variant: str, **changes: Any) -> dict[str, bool]:
    """Of a result of which every claim holds, but for the changes."""
    first = {"words_over_sentence": 1.0, "paragraph_over_sentence": 1.0, "long_over_whole": 0.2}
    memory = {"words_1000": {"peak_mib": 100.0}, "words_10000": {"peak_mib": 101.0}}
    sound = {"family": family, "variant": variant, "first_speech": first, "memory": memory, "largest_difference": 0.0}
    return streaming._claims(sound | changes, 10_000)


@pytest.mark.parametrize("variant", PRECISIONS)
def test_streaming_of_every_variant_is_judged(variant: str) -> None:
    assert broken(claims_of_streaming("parallel", variant)) == []
    assert broken(claims_of_streaming("parallel", variant, largest_difference=0.1)) != []


def test_a_voice_that_decodes_is_judged_by_its_first_audio_alone_on_the_machine() -> None:
    heard = f"a sentence is first heard within {FIRST_AUDIO_MS:g} ms (p95)"
    for first, expected in ((FIRST_AUDIO_MS, []), (FIRST_AUDIO_MS + 1, [heard])):
        listeners = {"1": {"first_p95_ms": first}, "8": {"first_p95_ms": 999.0}}
        assert broken(claims_of_streaming("codec_lm", "int8", listeners=listeners)) == expected


def test_training_is_compared_round_by_round_and_a_missed_aim_is_told() -> None:
    def speeds(*each: float) -> list[dict[str, Any]]:
        return [{"audio_seconds_per_second": 7.0, "audio_seconds_per_cpu_second": speed} for speed in each]

    rows = {
        Case(model="vocoder"): speeds(30.0, 60.0, 45.0),
        Case(model="vocoder", by=PLAIN): speeds(20.0, 40.0, 15.0),
        Case(model="adversarial"): speeds(10.0, 20.0),  # a round fewer
    }
    found = training.compared(rows, ["vocoder", "adversarial"], 2)
    assert found["vocoder"] == {"equal terms, fp32": {"ratio": 1.5, "rounds": [1.5, 1.5, 3.0]}}
    aims = training.beside_aims(found)
    assert aims["vocoder: equal terms, fp32"] == {"aim": "at least 2", "reached": 1.5, "met": False}
    assert aims["an adversarial step in plain ones, fp32"] == {"aim": "at most 3", "reached": 3.0, "met": True}
    assert aims["flow: Matcha of equal size, fp32"]["reached"] == "not run"
