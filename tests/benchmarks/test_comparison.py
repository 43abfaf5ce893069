"""Two runs of a benchmark: a planted slow-down is found, noise and a slower machine are not taken for one."""

from typing import Any

import numpy as np
import pytest

from benchmarks.comparison import compare
from benchmarks.turns import CONTROL, figures, ratio, take_turns

MACHINE = {"cpu": "one", "cores": 2, "system": "Linux", "torch": "2.13.0"}
NAMES = [f"runtime{number}/fp32" for number in range(30)]


def verdict(seed: int, slower: dict | None = None, all_slower: float = 1.0, **machine: Any) -> dict[str, Any]:
    """A result of 60 noisy rounds for each name; `slower` are factors on some of them."""
    rng = np.random.default_rng(seed)
    row = {}
    for name in [*NAMES, CONTROL]:
        took = 0.02 * all_slower * (slower or {}).get(name, 1.0) * rng.lognormal(0.0, 0.05, 60)
        took[rng.integers(0, 60, 5)] *= 3  # somebody else wanted the processor
        row[name] = figures(took)
    return {"machine": MACHINE | machine, "result": {"warm": {"medium": row}}}


@pytest.mark.parametrize("seed", range(5))
def test_equal_runs_have_not_moved(seed: int) -> None:
    found = compare(verdict(seed), verdict(seed + 100))
    assert found["compared"] == len(NAMES)
    assert (found["slower"], found["faster"]) == ([], [])


@pytest.mark.parametrize("seed", range(5))
def test_what_moved_is_named_with_how_far(seed: int) -> None:
    found = compare(verdict(seed), verdict(seed + 100, {NAMES[3]: 1.2, NAMES[7]: 0.5}))
    assert [row["what"] for row in found["slower"]] == ["warm/medium/runtime3:fp32"]
    assert [row["what"] for row in found["faster"]] == ["warm/medium/runtime7:fp32"]
    assert found["slower"][0]["ratio"] == pytest.approx(1.2, rel=0.07)
    low, high = found["slower"][0]["ci99"]
    assert 1.0 < low < 1.2 < high < 1.4


def test_a_machine_that_is_slower_itself_is_no_change() -> None:
    found = compare(verdict(0), verdict(1, all_slower=1.5))
    assert (found["slower"], found["faster"]) == ([], [])


def test_another_machine_is_not_compared_and_other_versions_are_named() -> None:
    assert compare(verdict(0), verdict(0, cpu="two")) == {"not comparable": "another machine: cpu was one, is two"}
    assert compare(verdict(0, gpu="A"), verdict(0)) == {"not comparable": "another machine: gpu was A, is None"}
    assert compare(verdict(0), verdict(0, torch="2.14.0"))["versions_changed"] == {"torch": ["2.13.0", "2.14.0"]}


def test_another_voice_or_other_speech_is_not_compared() -> None:
    before, after = verdict(0), verdict(0)
    before["result"]["voice_sha256"], after["result"]["voice_sha256"] = "random", "trained"
    assert compare(before, after) == {"not comparable": "another voice: voice_sha256 was random, is trained"}
    assert compare(verdict(0), after) == {"not comparable": "another voice: voice_sha256 was None, is trained"}
    before["result"]["voice_sha256"] = "trained"
    assert compare(before, after)["compared"] == len(NAMES)
    for result, seconds in ((before, 3.2), (after, 4.1)):
        result["result"]["warm"]["medium"][NAMES[3]]["audio_s"] = seconds
    line = "another speech: warm/medium/runtime3:fp32 was 3.2 seconds of audio, is 4.1"
    assert compare(before, after) == {"not comparable": line}


def test_what_only_one_run_has_is_named() -> None:
    now = verdict(1)
    now["result"]["warm"]["medium"]["new/int8"] = now["result"]["warm"]["medium"].pop(NAMES[0])
    found = compare(verdict(0), now)
    assert found["only_now"] == ["warm/medium/new:int8"]
    assert found["only_then"] == ["warm/medium/runtime0:fp32"]


def test_turns_are_taken_and_the_slower_one_has_the_smaller_speedup() -> None:
    order: list[str] = []

    def work(name: str, size: int) -> None:
        order.append(name)
        np.sort(np.random.default_rng(0).random(size))

    works = {"quick": lambda: work("quick", 2_000), "slow": lambda: work("slow", 400_000)}
    took = take_turns(works, seconds=0.0, least=9)
    assert {name: len(times) for name, times in took.items()} == {"quick": 9, "slow": 9, CONTROL: 9}
    assert order.count("quick") == order.count("slow")
    assert {order[number] for number in range(0, len(order), 2)} == {"quick", "slow"}, "each begins in its turn"
    assert ratio(took["slow"], took["quick"])["speedup"] > 1 > ratio(took["quick"], took["slow"])["speedup"]
