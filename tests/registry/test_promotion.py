"""Challenger against champion: faults, noise, missing figures."""

import dataclasses
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow.tracking import MlflowClient

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.plugins import family_names
from sonorant.registry import Verdict, promote, register
from sonorant.registry.champion_gates import judge_beside
from sonorant.registry.gates import Gate, judge_alone
from sonorant.registry.limits import NaturalnessLimits
from sonorant.registry.tracking import TrackingUnavailable, open_store
from sonorant.registry.verdict_evidence import Evidence
from sonorant.speech.bundle import read_bundle
from sonorant.training.intervals import wilson_interval
from tests.registry import planted
from tests.registry.conftest import aliases, crown, tags
from tests.registry.planted import (
    CONFIG,
    FIGURES,
    GATES,
    OPINIONS,
    RECORDINGS,
    figures,
    more_errors,
    naturalness,
    words_lost,
    write_report,
)
from tests.support.command import run_command
from tests.support.edited import edited

ALONE = {
    "wer_above_recordings",
    "wer_above_recordings_of_a_speaker",
    "naturalness_below_recordings_of_a_speaker",
    "naturalness_below_recordings",
    "rtf",
    "parity",
    "faulty_short_texts",
    "faulty_sentences",
}
BESIDE = {"wer_above_champion", "latency_over_champion", "dnsmos_below_champion", "size_over_champion"}
UNHEARD = "not run: the recogniser hears English only"
LENIENT = dict.fromkeys(family_names(), 20.0)


def challenge(
    bundle: Path, errors: np.ndarray = RECORDINGS, metrics: Any = None, opinions: np.ndarray = OPINIONS, **limits: Any
) -> Verdict:
    """Register a challenger and check the gates."""
    report = write_report(bundle.parent / f"report of {bundle.name}", errors, opinions=opinions)
    register(bundle, metrics or figures(errors), report, CONFIG, {})
    return promote("test-voice", dataclasses.replace(GATES, **limits))


def refused_by(verdict: Verdict) -> set[str]:
    return {gate.name for gate in verdict.gates if not gate.passed}


def gate(verdict: Verdict, name: str) -> Any:
    return next(gate for gate in verdict.gates if gate.name == name)


def evidence(bundle: Path, metrics: dict[str, Any], **more: Any) -> Evidence:
    return Evidence(**{"version": 1, "metrics": metrics, "sentences": (), "bundle": read_bundle(bundle)} | more)


def test_a_first_version_meets_the_gates_alone(champion: Path) -> None:
    assert aliases() == {"challenger": 1, "champion": 1}
    assert {key.removeprefix("gate.") for key in tags(1) if key.startswith("gate.")} == ALONE


def test_an_equal_voice_takes_the_place_and_the_verdict_is_kept_with_all_figures(second: Path, project: Path) -> None:
    verdict = challenge(second, more_errors(0.3))
    assert verdict.passed and {gate.name for gate in verdict.gates} == ALONE | BESIDE
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    version = open_store().client.get_model_version("test-voice", "2")
    assert version.tags["gate.wer_above_champion"].startswith("passed: ")
    assert version.tags["verdict"].endswith("is champion; version 1 is previous")
    kept = read_json(Path(open_store().client.download_artifacts(version.run_id, "verdict.json", str(project))))
    assert (kept["passed"], kept["version"], kept["champion"]) == (True, 2, 1)
    figure = next(gate for gate in kept["gates"] if gate["name"] == "wer_above_champion")
    assert figure["limit"] == 4.0 and figure["interval"][0] <= figure["value"] <= figure["interval"][1]
    assert figure["value"] == pytest.approx(0.3, abs=0.1)


def test_a_voice_that_is_understood_worse_is_refused(second: Path) -> None:
    verdict = challenge(second, more_errors(5.0), max_wer_above_recordings=LENIENT)
    assert refused_by(verdict) == {"wer_above_champion"}
    assert "; worse)" in gate(verdict, "wer_above_champion").reason
    assert "is refused by wer_above_champion; champion does not move" in verdict.says()[-1]
    assert aliases() == {"challenger": 2, "champion": 1}


def test_a_mean_within_the_limit_is_not_enough_where_the_interval_reaches_beyond(second: Path) -> None:
    errors = more_errors(3.5, scatter=60)
    verdict = challenge(second, errors, max_wer_above_recordings=LENIENT)
    found = gate(verdict, "wer_above_champion")
    assert found.value < found.limit < found.interval[1]
    assert refused_by(verdict) == {"wer_above_champion"}


def test_better_by_noise_alone_passes_and_says_so(second: Path) -> None:
    better = more_errors(0.0, scatter=30)
    better[np.flatnonzero(better)[:3]] -= 1
    verdict = challenge(second, better)
    found = gate(verdict, "wer_above_champion")
    assert verdict.passed and found.value < 0
    assert "no difference beyond noise" in found.reason


def test_better_beyond_noise_says_so(second: Path) -> None:
    found = gate(challenge(second, np.maximum(RECORDINGS - 1, 0)), "wer_above_champion")
    assert found.passed and "; better)" in found.reason


@pytest.mark.parametrize(
    ("change", "opinions", "by"),
    [
        (partial(planted.slowed, operations=800), OPINIONS, "latency_over_champion"),
        (partial(planted.padded, megabytes=5.0), OPINIONS, "size_over_champion"),
        (planted.renamed, OPINIONS - 0.15, "dnsmos_below_champion"),
    ],
    ids=["slower", "bigger", "rougher"],
)
def test_a_voice_that_is_certainly_worse_is_refused_by_that_gate_alone(
    champion: Path, project: Path, change: Callable[[Path, Path], Path], opinions: np.ndarray, by: str
) -> None:
    verdict = challenge(change(champion, project / "second"), opinions=opinions)
    assert refused_by(verdict) == {by}
    found = gate(verdict, by)
    assert (found.interval[0] if found.interval else found.value) > found.limit


def test_opinions_are_compared_sentence_by_sentence(second: Path) -> None:
    scattered = OPINIONS + np.random.default_rng(3).normal(0.0, 0.05, len(OPINIONS))
    found = gate(challenge(second, opinions=scattered), "dnsmos_below_champion")
    assert found.passed and "no difference beyond noise" in found.reason
    assert found.interval[1] - found.interval[0] < 0.05, "unpaired it would be 0.2"


@pytest.mark.parametrize(("count", "refused"), [(1, True), (19, True), (20, False)])
def test_a_few_sentences_have_no_interval(voice_bundle: Path, project: Path, count: int, refused: bool) -> None:
    file = write_report(project / "report") / "evaluation" / "sentences.jsonl"
    rows = tuple(json.loads(line) for line in file.read_text().splitlines()[:count])
    metrics = figures()
    metrics["intelligibility"] = planted.intelligibility(RECORDINGS, slice(count), "fp32")
    metrics["naturalness"]["fp32"] = naturalness(count)
    voice = evidence(voice_bundle, metrics, version=2, sentences=rows)
    gates = (*judge_alone(voice, GATES), *judge_beside(voice, dataclasses.replace(voice, version=1), GATES))
    found = {gate.name for gate in gates if f"not compared: only {count} sentences" in gate.reason}
    by_interval = {"wer_above_recordings", "wer_above_champion", "latency_over_champion", "dnsmos_below_champion"}
    by_interval.add("naturalness_below_recordings")
    assert found == {gate.name for gate in gates if not gate.passed} == (by_interval if refused else set())


def test_dnsmos_is_an_extra_that_may_be_absent(second: Path) -> None:
    metrics = figures()
    absent = "not run: speechmos is not installed"
    metrics["naturalness"]["fp32"] |= {"dnsmos": absent, "dnsmos_below_recordings": absent}
    verdict = challenge(second, metrics=metrics, opinions=np.array([]))
    assert verdict.passed
    assert gate(verdict, "dnsmos_below_champion").says() == "passed: not run: version 2: speechmos is not installed"
    reason = gate(verdict, "naturalness_below_recordings").reason
    assert reason.endswith(f"; decided without dnsmos_below_recordings ({absent})")


def of_fp32(section: str, value: Any) -> dict[str, Any]:
    return {section: {"onnxruntime/fp32": value}}


@pytest.mark.parametrize(
    ("change", "failing", "says"),
    [
        (of_fp32("speed", "not run: no cores"), "rtf", "not measured for onnxruntime/fp32: not run: no cores"),
        ({"speed": {}}, "rtf", "not measured"),
        ({"speed": figures(rtf=0.06)["speed"]}, "rtf", "real-time factor 0.0600, at most 0.05"),
        ({"parity": {}}, "parity", "not measured"),
        (
            {"short_texts": {"fp32": {"short": words_lost(0)["short"]}}},
            "faulty_sentences",
            "not measured for fp32; run",
        ),
        (of_fp32("parity", {"passed": False, "failed": "values: mel"}), "parity", "failed the stage verify: values"),
        (of_fp32("parity", {"passed": True, "max_abs_diff": {"encoder": None}}), "parity", "was not measured"),
        ({"intelligibility": {}}, "wer_above_recordings", "not measured"),
        (
            {"intelligibility": dict.fromkeys(("recordings", "vocoder", "fp32"), UNHEARD)},
            "wer_above_recordings",
            f"not measured for fp32: {UNHEARD}",
        ),
        ({"intelligibility": figures(more_errors(9.0))["intelligibility"]}, "wer_above_recordings", "; worse)"),
    ],
)
def test_what_was_not_measured_or_misses_its_limit_does_not_pass(
    voice_bundle: Path, change: dict[str, Any], failing: str, says: str
) -> None:
    [refused] = [gate for gate in judge_alone(evidence(voice_bundle, figures() | change), GATES) if not gate.passed]
    assert refused.name == failing and says in refused.reason


LIMITS = GATES.naturalness_below_recordings["parallel"].ranges()


def naturalness_gate(bundle: Path, sound: Any) -> Gate:
    metrics = figures() | {"naturalness": {"fp32": sound}}
    return next(g for g in judge_alone(evidence(bundle, metrics), GATES) if g.name == "naturalness_below_recordings")


@pytest.mark.parametrize(
    ("name", "limit", "outwards"),
    [
        (name, limit, sign)
        for name in FIGURES
        for limit, sign in zip(LIMITS[name], (-1, 1), strict=True)
        if limit is not None
    ],
)
def test_a_voice_that_sounds_bad_in_one_way_alone_is_refused_and_the_reason_names_it(
    voice_bundle: Path, name: str, limit: float, outwards: int
) -> None:
    """The interval ends 0.01 from the figure."""
    inside = naturalness_gate(voice_bundle, naturalness(**{name: limit - 0.02 * outwards}))
    assert inside.passed and f"all {len(FIGURES)} figures are within their limits, such as " in inside.reason
    refused = naturalness_gate(voice_bundle, naturalness(**{name: limit - 0.005 * outwards}))
    assert not refused.passed and f"1 of {len(FIGURES)} figures are beyond their limits: {name} " in refused.reason


def test_no_number_of_sentences_makes_up_for_the_sound(voice_bundle: Path) -> None:
    bad = {"dnsmos_below_recordings": 0.93, "voicing_error": 0.5}
    reason = naturalness_gate(voice_bundle, naturalness(utterances=100_000, **bad)).reason
    assert all(name in reason for name in bad)


@pytest.mark.parametrize(
    ("sound", "says"),
    [
        ({"mcd_db": 3.9, "dnsmos": {"ovrl": 3.0}}, "fp32: not measured: dnsmos_below_recordings, "),
        ({"mcd_db": 3.9, "dnsmos": {"ovrl": 3.0}}, "; run evaluate again"),
        (None, "not measured"),
        ("failed: NaN in 3 of 3 sentences", "not measured: failed: NaN"),
        (
            naturalness() | {"pitch_range_ratio": "not run: only 3 of 160"},
            "not measured: pitch_range_ratio (not run: only 3",
        ),
        (naturalness(pitch_range_ratio=float("nan")), "not measured: pitch_range_ratio"),
    ],
)
def test_a_voice_whose_sound_was_not_measured_does_not_pass(voice_bundle: Path, sound: Any, says: str) -> None:
    refused = naturalness_gate(voice_bundle, sound)
    assert not refused.passed and says in refused.reason


def test_figures_without_a_limit_are_not_looked_at(voice_bundle: Path) -> None:
    anything = NaturalnessLimits(**dict.fromkeys(FIGURES, (None, None)))
    config = dataclasses.replace(GATES, naturalness_below_recordings=dict.fromkeys(family_names(), anything))
    voice = evidence(voice_bundle, figures() | {"naturalness": {"fp32": {"mcd_db": 3.9}}})
    assert judge_alone(voice, config)[1].says() == "passed: fp32: no figure has a limit"


def test_limits_that_exclude_everything_or_miss_a_family_are_refused() -> None:
    limits = GATES.naturalness_below_recordings
    with pytest.raises(ValueError, match=r"tempo_ratio must go from a lower to a higher value, not 1\.2 to 0\.9"):
        dataclasses.replace(limits["parallel"], tempo_ratio=(1.2, 0.9))
    with pytest.raises(
        ValueError, match="naturalness_below_recordings must have limits for each of parallel, codec_lm"
    ):
        dataclasses.replace(GATES, naturalness_below_recordings={"parallel": limits["parallel"]})


def test_words_that_nobody_heard_are_not_compared_even_with_a_champion_like_that(voice_bundle: Path) -> None:
    metrics = figures() | {"intelligibility": dict.fromkeys(("recordings", "vocoder", "fp32"), UNHEARD)}
    row = {"id": "a", "reference": "ja", "words": 1, "word_errors": {"fp32": UNHEARD}, "dnsmos": {}}
    voice = evidence(voice_bundle, metrics, sentences=(row,))
    found = next(gate for gate in judge_beside(voice, voice, GATES) if gate.name == "wer_above_champion")
    assert not found.passed and UNHEARD in found.reason


def test_figures_that_are_not_numbers_do_not_pass(voice_bundle: Path) -> None:
    metrics = figures(rtf=float("nan"))
    metrics["intelligibility"]["fp32"]["above_recordings"]["wer_ci95"] = [float("nan"), float("nan")]
    gates = judge_alone(evidence(voice_bundle, metrics), GATES)
    assert [gate.name for gate in gates if not gate.passed] == ["wer_above_recordings", "rtf"]


@pytest.mark.parametrize("seed", range(8))
def test_a_voice_that_skips_one_word_in_twenty_is_refused_and_one_that_skips_one_in_five_hundred_is_not(
    voice_bundle: Path, seed: int
) -> None:
    for share, passed in ((1 / 20, False), (1 / 500, True)):
        metrics = figures() | {"short_texts": {"fp32": words_lost(share, seed)}}
        gates = {gate.name: gate for gate in judge_alone(evidence(voice_bundle, metrics), GATES)}
        assert gates["faulty_sentences"].passed == passed, gates["faulty_sentences"].reason
        assert gates["faulty_short_texts"].passed or not passed, gates["faulty_short_texts"].reason


def test_a_few_good_texts_are_not_enough_to_show_that_words_are_kept(voice_bundle: Path) -> None:
    few = {kind: found | {"texts": 5, "faulty": 0, "faulty_rate_ci95": list(wilson_interval(0, 5))}
           for kind, found in words_lost(0).items()}  # fmt: skip
    gates = judge_alone(evidence(voice_bundle, figures() | {"short_texts": {"fp32": few}}), GATES)
    assert [gate.passed for gate in gates if gate.name.startswith("faulty")] == [False, False]


def test_a_language_without_short_texts_may_have_a_champion(voice_bundle: Path) -> None:
    why = "not run: there are no short texts in 'de-de', only in en"
    gates = judge_alone(evidence(voice_bundle, figures() | {"short_texts": {"fp32": why}}), GATES)
    assert [gate.says() for gate in gates if gate.name.startswith("faulty")] == [f"passed: {why}"] * 2


@pytest.mark.parametrize(
    ("runaways", "interval", "passed"),
    [(0, [0.0, 0.0234], True), (3, [0.0064, 0.0537], False), (0, [0.0, 0.49], False)],
)
def test_a_voice_that_can_run_away_must_show_on_enough_sentences_that_it_does_not(
    voice_bundle: Path, runaways: int, interval: list[float], passed: bool
) -> None:
    bundle = read_bundle(voice_bundle)
    bundle = dataclasses.replace(bundle, description=dataclasses.replace(bundle.description, family="codec_lm"))
    unmeasured = dataclasses.replace(evidence(voice_bundle, figures(rtf=0.2)), bundle=bundle)
    found = {"runaways": runaways, "sentences": 160, "runaway_rate": runaways / 160, "runaway_rate_ci95": interval}
    voice = dataclasses.replace(unmeasured, metrics=unmeasured.metrics | {"decoding": {"fp32": found}})
    gates = {gate.name: gate for gate in judge_alone(voice, GATES)}
    assert set(gates) == {name for name in ALONE if not name.endswith("_of_a_speaker")} | {"runaways"}
    assert gates["rtf"].passed, "its family's limit"
    assert gates["runaways"].passed == passed and f"{runaways} of 160 sentences ran away" in gates["runaways"].reason
    last = judge_alone(unmeasured, GATES)[-1]
    assert "not measured for fp32" in last.reason and not last.passed


@pytest.mark.parametrize(
    "name", ["max_rtf", "max_wer_above_recordings", "max_faulty_short_texts", "max_faulty_sentences"]
)
def test_every_family_needs_its_limit(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must have a limit above 0 for each of parallel, codec_lm"):
        dataclasses.replace(GATES, **{name: {"parallel": 0.05}})


@pytest.mark.parametrize("other", ["recogniser", "sentences", "none"])
def test_what_was_judged_otherwise_is_not_compared_and_says_what_to_do(second: Path, project: Path, other: str) -> None:
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
    assert tags(2)["without_champion"] == "another recogniser"


def test_a_version_judged_again_but_cut_off_midway_is_not_compared_until_it_is_whole(
    voice_bundle: Path, project: Path
) -> None:
    crown(voice_bundle, project)  # not copied: mlflow stores artifact paths
    again = figures(more_errors(2.0)), write_report(project / "again", more_errors(2.0)), CONFIG, {}

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MlflowClient, "log_artifacts", cut_off)
        register(voice_bundle, *again)
    found = gate(challenge(planted.renamed(voice_bundle, project / "second")), "wer_above_champion")
    says = r"version 1 was judged half: 13\.438 % .* sentences, 15\.469 % by its figures; .* python -m tasks\.register"
    assert not found.passed and re.search(says, found.reason)
    assert register(voice_bundle, *again).version == 1
    found = gate(promote("test-voice", GATES, 2), "wer_above_champion")
    assert found.passed and "13.4 %, version 1 15.5 %" in found.reason


def test_a_champion_that_cannot_be_read_refuses_its_challengers_by_name(second: Path, project: Path) -> None:
    for file in project.glob("mlartifacts/**/voice.json"):
        with edited(file) as description:
            description["schema_version"] = 2
    verdict = challenge(second)
    assert refused_by(verdict) == {"champion"}
    assert "version 1 cannot be read" in verdict.says()[-2] and "schema version 2" in verdict.says()[-2]


def test_the_champion_judged_again_stays_what_it_is(second: Path) -> None:
    assert challenge(second).passed
    before = tags(2)
    assert {gate.name for gate in promote("test-voice", GATES).gates} == ALONE
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    assert tags(2) == before
    strict = promote("test-voice", dataclasses.replace(GATES, max_rtf=dict.fromkeys(family_names(), 1e-6)))
    assert not strict.passed and "stays champion, though refused by rtf now" in strict.says()[-1]
    assert aliases()["champion"] == 2


@pytest.mark.parametrize("points", [0.3, 9.0], ids=["passed", "refused"])
def test_a_verdict_beside_a_champion_that_another_clone_has_moved_decides_nothing(
    second: Path, project: Path, monkeypatch: pytest.MonkeyPatch, points: float
) -> None:
    register(second, figures(), write_report(project / "report"), CONFIG, {})

    def while_another_clone_promotes(*given: Any) -> Any:
        monkeypatch.setattr("sonorant.registry.promotion.judge_beside", judge_beside)
        with pytest.MonkeyPatch.context() as elsewhere:
            (project / "clone").mkdir()
            elsewhere.chdir(project / "clone")
            assert promote("test-voice", GATES, 2).passed
        return judge_beside(*given)

    monkeypatch.setattr("sonorant.registry.promotion.judge_beside", while_another_clone_promotes)
    moved = "champion moved from version 1 to version 2 while 3 was judged; promote it again"
    with pytest.raises(TrackingUnavailable, match=moved):
        challenge(planted.renamed(second, project / "third"), more_errors(points))
    assert aliases() == {"challenger": 3, "champion": 2, "previous": 1}
    assert tags(3)["verdict"].endswith(moved)
    assert promote("test-voice", GATES).champion == 2


def test_unknown_versions_are_refused(project: Path, voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match="there are: none; register a voice first"):
        promote("test-voice", GATES)
    register(voice_bundle, figures(), project / "absent", CONFIG, {})
    for unknown in (7, 0):
        with pytest.raises(SonorantError, match=f"no version {unknown}; there are: 1"):
            promote("test-voice", GATES, unknown)


def test_the_command_says_every_gate_and_exits_by_the_verdict(second: Path, project: Path) -> None:
    settings = {"register": dataclasses.asdict(CONFIG), "promote": dataclasses.asdict(GATES)}
    (project / "params.yaml").write_text(json.dumps(settings))
    register(second, figures(more_errors(9.0)), project / "absent", CONFIG, {})
    done = run_command("tasks.promote", "--strict")
    assert done.returncode == 1 and done.stderr == ""
    assert all(f"gate {name} " in done.stdout for name in ALONE | BESIDE)
