"""Challenger against champion: planted faults are refused, noise is called noise, and what was not measured does not
pass."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.families import family_names
from sonorant.registry import Verdict, promote, register
from sonorant.registry.evidence import Evidence
from sonorant.registry.gates import judge_alone, judge_beside
from sonorant.runtime.bundle import read_bundle
from sonorant.tracking import open_store
from tests.registry.planted import (
    CONFIG,
    GATES,
    OPINIONS,
    RECORDINGS,
    figures,
    more_errors,
    padded,
    renamed,
    slowed,
    write_report,
)
from tests.support.command import run_command

ALONE = {"wer_above_recordings", "rtf", "parity"}
BESIDE = {"wer_above_champion", "latency_over_champion", "dnsmos_below_champion", "size_over_champion"}


LENIENT = dict.fromkeys(family_names(), 20.0)


def challenge(
    bundle: Path,
    errors: np.ndarray = RECORDINGS,
    metrics: dict[str, Any] | None = None,
    opinions: np.ndarray = OPINIONS,
    **limits: Any,
) -> Verdict:
    """Register a challenger with these word errors and opinions and let the gates decide."""
    report = write_report(bundle.parent / f"report of {bundle.name}", errors, opinions=opinions)
    register(bundle, metrics or figures(errors), report, CONFIG, {})
    return promote("test-voice", dataclasses.replace(GATES, **limits))


def refused_by(verdict: Verdict) -> set[str]:
    return {gate.name for gate in verdict.gates if not gate.passed}


def gate(verdict: Verdict, name: str) -> Any:
    return next(gate for gate in verdict.gates if gate.name == name)


def aliases() -> dict[str, int]:
    return {
        name: int(version) for name, version in open_store().client.get_registered_model("test-voice").aliases.items()
    }


def test_a_first_version_meets_the_gates_alone(champion: Path) -> None:
    assert aliases() == {"challenger": 1, "champion": 1}
    tags = open_store().client.get_model_version("test-voice", "1").tags
    assert {key.removeprefix("gate.") for key in tags if key.startswith("gate.")} == ALONE


def test_an_equal_voice_takes_the_place_and_the_verdict_is_kept_with_all_figures(champion: Path, project: Path) -> None:
    verdict = challenge(renamed(champion, project / "second"), more_errors(0.3))
    assert verdict.passed and {gate.name for gate in verdict.gates} == ALONE | BESIDE
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    version = open_store().client.get_model_version("test-voice", "2")
    assert version.tags["gate.wer_above_champion"].startswith("passed: ")
    assert version.tags["verdict"].endswith("is champion; version 1 is previous")
    kept = json.loads(
        Path(open_store().client.download_artifacts(version.run_id, "verdict.json", str(project))).read_text()
    )
    assert (kept["passed"], kept["version"], kept["champion"]) == (True, 2, 1)
    figure = next(gate for gate in kept["gates"] if gate["name"] == "wer_above_champion")
    assert figure["limit"] == 4.0 and figure["interval"][0] <= figure["value"] <= figure["interval"][1]
    assert figure["value"] == pytest.approx(0.3, abs=0.1)


def test_a_voice_that_is_understood_worse_is_refused(champion: Path, project: Path) -> None:
    verdict = challenge(renamed(champion, project / "worse"), more_errors(5.0), max_wer_above_recordings=LENIENT)
    assert refused_by(verdict) == {"wer_above_champion"}
    assert "; worse)" in gate(verdict, "wer_above_champion").reason
    assert "is refused by wer_above_champion; champion does not move" in verdict.says()[-1]
    assert aliases() == {"challenger": 2, "champion": 1}


def test_a_mean_within_the_limit_is_not_enough_where_the_interval_reaches_beyond(champion: Path, project: Path) -> None:
    errors = more_errors(3.5, scatter=60)
    verdict = challenge(renamed(champion, project / "unsure"), errors, max_wer_above_recordings=LENIENT)
    found = gate(verdict, "wer_above_champion")
    assert found.value < found.limit < found.interval[1]
    assert refused_by(verdict) == {"wer_above_champion"}


def test_better_by_noise_alone_passes_and_says_so(champion: Path, project: Path) -> None:
    better = more_errors(0.0, scatter=30)
    better[np.flatnonzero(better)[:3]] -= 1
    verdict = challenge(renamed(champion, project / "lucky"), better)
    found = gate(verdict, "wer_above_champion")
    assert verdict.passed and found.value < 0
    assert "no difference beyond noise" in found.reason


def test_better_beyond_noise_says_so(champion: Path, project: Path) -> None:
    found = gate(challenge(renamed(champion, project / "better"), np.maximum(RECORDINGS - 1, 0)), "wer_above_champion")
    assert found.passed and "; better)" in found.reason


def test_a_slower_voice_is_refused(champion: Path, project: Path) -> None:
    verdict = challenge(slowed(champion, project / "slow", operations=400))
    assert refused_by(verdict) == {"latency_over_champion"}
    assert gate(verdict, "latency_over_champion").interval[0] > 8.0


def test_a_bigger_voice_is_refused(champion: Path, project: Path) -> None:
    verdict = challenge(padded(champion, project / "big", megabytes=5.0))
    assert refused_by(verdict) == {"size_over_champion"}


def test_a_voice_that_sounds_worse_is_refused(champion: Path, project: Path) -> None:
    verdict = challenge(renamed(champion, project / "rough"), opinions=OPINIONS - 0.15)
    assert refused_by(verdict) == {"dnsmos_below_champion"}


def test_opinions_are_compared_sentence_by_sentence(champion: Path, project: Path) -> None:
    scattered = OPINIONS + np.random.default_rng(3).normal(0.0, 0.05, len(OPINIONS))
    found = gate(challenge(renamed(champion, project / "other"), opinions=scattered), "dnsmos_below_champion")
    assert found.passed and "no difference beyond noise" in found.reason
    assert found.interval[1] - found.interval[0] < 0.05, "unpaired it would be 0.2"


@pytest.mark.parametrize(("count", "refused"), [(1, True), (19, True), (20, False)])
def test_a_few_sentences_have_no_interval(voice_bundle: Path, project: Path, count: int, refused: bool) -> None:
    file = write_report(project / "report") / "evaluation" / "sentences.jsonl"
    rows = tuple(json.loads(line) for line in file.read_text().splitlines()[:count])
    metrics = figures()
    metrics["intelligibility"]["fp32"]["utterances"] = count
    voice = Evidence(version=2, metrics=metrics, sentences=rows, bundle=read_bundle(voice_bundle))
    gates = (*judge_alone(voice, GATES), *judge_beside(voice, dataclasses.replace(voice, version=1), GATES))
    found = {gate.name for gate in gates if f"not compared: only {count} sentences" in gate.reason}
    by_interval = {"wer_above_recordings", "wer_above_champion", "latency_over_champion", "dnsmos_below_champion"}
    assert found == {gate.name for gate in gates if not gate.passed} == (by_interval if refused else set())


def test_dnsmos_is_an_extra_that_may_be_absent(champion: Path, project: Path) -> None:
    metrics = figures()
    metrics["naturalness"]["fp32"]["dnsmos"] = "not run: speechmos is not installed"
    verdict = challenge(renamed(champion, project / "plain"), metrics=metrics, opinions=np.array([]))
    assert verdict.passed
    assert gate(verdict, "dnsmos_below_champion").says() == "passed: not run: version 2: speechmos is not installed"


@pytest.mark.parametrize(
    ("change", "failing", "says"),
    [
        (
            {"speed": {"onnxruntime/fp32": "not run: no cores"}},
            "rtf",
            "not measured for onnxruntime/fp32: not run: no cores",
        ),
        ({"speed": {}}, "rtf", "not measured"),
        ({"speed": figures(rtf=0.06)["speed"]}, "rtf", "real-time factor 0.0600, at most 0.05"),
        ({"parity": {}}, "parity", "not measured"),
        (
            {"parity": {"onnxruntime/fp32": {"passed": False, "failed": "values: mel 0.2"}}},
            "parity",
            "failed the stage verify: values",
        ),
        (
            {"parity": {"onnxruntime/fp32": {"passed": True, "max_abs_diff": {"encoder": None}}}},
            "parity",
            "was not measured",
        ),
        ({"intelligibility": {}}, "wer_above_recordings", "not measured"),
        ({"intelligibility": figures(more_errors(9.0))["intelligibility"]}, "wer_above_recordings", "; worse)"),
    ],
)
def test_what_was_not_measured_or_misses_its_limit_does_not_pass(
    voice_bundle: Path, change: dict[str, Any], failing: str, says: str
) -> None:
    voice = Evidence(version=1, metrics=figures() | change, sentences=(), bundle=read_bundle(voice_bundle))
    refused = [gate for gate in judge_alone(voice, GATES) if not gate.passed]
    assert [gate.name for gate in refused] == [failing]
    assert says in refused[0].reason


def test_figures_that_are_not_numbers_do_not_pass(voice_bundle: Path) -> None:
    metrics = figures(rtf=float("nan"))
    metrics["intelligibility"]["fp32"]["above_recordings"]["wer_ci95"] = [float("nan"), float("nan")]
    voice = Evidence(version=1, metrics=metrics, sentences=(), bundle=read_bundle(voice_bundle))
    assert [gate.passed for gate in judge_alone(voice, GATES)] == [False, False, True]


@pytest.mark.parametrize(
    ("runaways", "interval", "passed"),
    [(0, [0.0, 0.0234], True), (3, [0.0064, 0.0537], False), (0, [0.0, 0.49], False)],
)
def test_a_voice_that_can_run_away_must_show_on_enough_sentences_that_it_does_not(
    voice_bundle: Path, runaways: int, interval: list[float], passed: bool
) -> None:
    bundle = read_bundle(voice_bundle)
    bundle = dataclasses.replace(bundle, description=dataclasses.replace(bundle.description, family="codec_lm"))
    found = {"runaways": runaways, "sentences": 160, "runaway_rate": runaways / 160, "runaway_rate_ci95": interval}
    metrics = figures(rtf=0.2) | {"decoding": {"fp32": found}}
    gates = {
        gate.name: gate
        for gate in judge_alone(Evidence(version=1, metrics=metrics, sentences=(), bundle=bundle), GATES)
    }
    assert set(gates) == ALONE | {"runaways"}
    assert gates["rtf"].passed, "its family's limit"
    assert gates["runaways"].passed == passed and f"{runaways} of 160 sentences ran away" in gates["runaways"].reason
    unmeasured = Evidence(version=1, metrics=figures(), sentences=(), bundle=bundle)
    assert (
        "not measured for fp32" in judge_alone(unmeasured, GATES)[-1].reason
        and not judge_alone(unmeasured, GATES)[-1].passed
    )


@pytest.mark.parametrize("name", ["max_rtf", "max_wer_above_recordings"])
def test_every_family_needs_its_limit(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must have a limit above 0 for each of parallel, codec_lm"):
        dataclasses.replace(GATES, **{name: {"parallel": 0.05}})


@pytest.mark.parametrize("other", ["recogniser", "sentences", "none"])
def test_what_was_judged_otherwise_is_not_compared_and_says_what_to_do(
    champion: Path, project: Path, other: str
) -> None:
    second = renamed(champion, project / "second")
    report = write_report(project / "report")
    sentences = report / "evaluation" / "sentences.jsonl"
    if other == "sentences":
        sentences.write_text(sentences.read_text().replace("This is", "That is"))
    if other == "none":
        sentences.unlink()
    register(second, figures(revision="pocketsphinx 6") if other == "recogniser" else figures(), report, CONFIG, {})
    verdict = promote("test-voice", GATES)
    found = gate(verdict, "wer_above_champion")
    assert not found.passed and found.reason.startswith("not compared: version ")
    assert "docs/deploy.md" in found.reason and "--without-champion" in found.reason
    assert aliases()["champion"] == 1
    verdict = promote("test-voice", GATES, without_champion="another recogniser")
    assert verdict.passed and aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    assert open_store().client.get_model_version("test-voice", "2").tags["without_champion"] == "another recogniser"


def test_a_champion_that_cannot_be_read_refuses_its_challengers_by_name(champion: Path, project: Path) -> None:
    for file in project.glob("mlartifacts/**/voice.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 1}))
    verdict = challenge(renamed(champion, project / "second"))
    assert refused_by(verdict) == {"champion"}
    assert "version 1 cannot be read" in verdict.says()[-2] and "schema version 1" in verdict.says()[-2]


def test_the_champion_judged_again_stays_what_it_is(champion: Path, project: Path) -> None:
    assert challenge(renamed(champion, project / "second")).passed
    before = open_store().client.get_model_version("test-voice", "2").tags
    assert {gate.name for gate in promote("test-voice", GATES).gates} == ALONE
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    assert open_store().client.get_model_version("test-voice", "2").tags == before
    strict = promote("test-voice", dataclasses.replace(GATES, max_rtf=dict.fromkeys(family_names(), 1e-6)))
    assert not strict.passed and "stays champion, though refused by rtf now" in strict.says()[-1]
    assert aliases()["champion"] == 2


def test_unknown_versions_are_refused(project: Path, voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match="there are: none; register a voice first"):
        promote("test-voice", GATES)
    register(voice_bundle, figures(), project / "absent", CONFIG, {})
    for unknown in (7, 0):
        with pytest.raises(SonorantError, match=f"no version {unknown}; there are: 1"):
            promote("test-voice", GATES, unknown)


def test_the_command_says_every_gate_and_exits_by_the_verdict(champion: Path, project: Path) -> None:
    settings = {"register": dataclasses.asdict(CONFIG), "promote": dataclasses.asdict(GATES)}
    (project / "params.yaml").write_text(json.dumps(settings))
    register(renamed(champion, project / "worse"), figures(more_errors(9.0)), project / "absent", CONFIG, {})
    done = run_command("tasks.promote", "--strict")
    assert done.returncode == 1 and done.stderr == ""
    assert all(f"gate {name} " in done.stdout for name in ALONE | BESIDE)
