import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.plugins import family_names
from sonorant.registry.champion_gates import Evidence, judge_beside
from sonorant.registry.gates import Gate, judge_alone
from sonorant.registry.limits import NaturalnessLimits
from sonorant.speech.bundle import read_bundle
from sonorant.training.intervals import wilson_interval
from tests.registry import planted
from tests.registry.planted import (
    FIGURES,
    GATES,
    OPINIONS,
    RECORDINGS,
    WORDS,
    figures,
    more_errors,
    naturalness,
    sentences,
    speaker_row,
    words_lost,
)

UNHEARD = "not run: the recogniser hears English only"
LIMITS = GATES.naturalness_below_recordings["parallel"].ranges()
WORD, SOUND = "wer_above_recordings_of_a_speaker", "naturalness_below_recordings_of_a_speaker"
VOCODER_FAILED = {"onnxruntime/fp32": {"passed": False, "failed": "values: mel"}}


def alone(bundle: Path, metrics: dict[str, Any], config: Any = GATES, **changed: Any) -> dict[str, Gate]:
    description = dataclasses.replace(read_bundle(bundle).description, **changed)
    return {gate.name: gate for gate in judge_alone(metrics, description, "onnxruntime/fp32", config)}


def evidence(
    bundle: Path, errors: np.ndarray = RECORDINGS, version: int = 2, opinions: np.ndarray = OPINIONS
) -> Evidence:
    rows = sentences(errors, opinions=opinions)
    return Evidence(version=version, metrics=figures(errors), sentences=rows, bundle=read_bundle(bundle))


def beside(voice: Evidence, champion: Evidence) -> dict[str, Gate]:
    return {gate.name: gate for gate in judge_beside(voice, champion, GATES)}


def failing(gates: dict[str, Gate]) -> dict[str, str]:
    return {name: gate.reason for name, gate in gates.items() if not gate.passed}


@pytest.mark.parametrize(
    ("change", "failed", "says"),
    [
        ({"speed": {"onnxruntime/fp32": "not run: no cores"}}, "rtf", "not measured: speed.* not run: no cores"),
        ({"speed": figures(rtf=0.06)["speed"]}, "rtf", "real-time factor 0.0600, must be at most 0.05"),
        ({"speed": figures(rtf=float("nan"))["speed"]}, "rtf", "run evaluate again"),
        ({"parity": {}}, "parity", "not measured"),
        ({"parity": VOCODER_FAILED}, "parity", "failed the stage verify: values: mel"),
        ({"parity": {"onnxruntime/fp32": {"max_abs_diff": {"encoder": None}}}}, "parity", "max_abs_diff.encoder"),
        ({"short_texts": {"fp32": {"short": words_lost(0)["short"]}}}, "faulty_sentences", "run evaluate again"),
        ({"intelligibility": dict.fromkeys(("recordings", "fp32"), UNHEARD)}, "wer_above_recordings", UNHEARD),
        ({"intelligibility": figures(more_errors(9.0))["intelligibility"]}, "wer_above_recordings", "; worse"),
        ({"naturalness": {"fp32": "failed: NaN"}}, "naturalness_below_recordings", "failed: NaN"),
        ({"naturalness": {"fp32": {"mcd_db": 3.9}}}, "naturalness_below_recordings", "run evaluate again"),
        (
            {"naturalness": {"fp32": naturalness() | {"pitch_range_ratio": "not run: only 3 of 160"}}},
            "naturalness_below_recordings",
            "pitch_range_ratio: not run: only 3",
        ),
        (
            {"naturalness": {"fp32": naturalness(pitch_range_ratio=float("nan"))}},
            "naturalness_below_recordings",
            "pitch_range_ratio",
        ),
    ],
)
def test_a_figure_that_is_missing_or_beyond_its_limit_fails_that_gate_alone(
    voice_bundle: Path, change: dict[str, Any], failed: str, says: str
) -> None:
    [(name, reason)] = failing(alone(voice_bundle, figures() | change)).items()
    assert name == failed and all(part in reason for part in says.split("*"))


@pytest.mark.parametrize("name", FIGURES)
def test_a_voice_that_sounds_bad_in_one_way_alone_is_refused_and_the_reason_names_it(
    voice_bundle: Path, name: str
) -> None:
    """The interval ends 0.01 from the figure."""
    for limit, outwards in zip(LIMITS[name], (-1, 1), strict=True):
        for distance, passed in ((0.02, True), (0.005, False)) if limit is not None else ():
            sound = {"naturalness": {"fp32": naturalness(100_000, **{name: limit - distance * outwards})}}
            gate = alone(voice_bundle, figures() | sound)["naturalness_below_recordings"]
            assert (
                gate.passed == passed
                and (f"1 of {len(FIGURES)} figures" in gate.reason and name in gate.reason) != passed
            )


def test_figures_without_a_limit_are_not_looked_at(voice_bundle: Path) -> None:
    anything = NaturalnessLimits(**dict.fromkeys(FIGURES, (None, None)))
    config = dataclasses.replace(GATES, naturalness_below_recordings=dict.fromkeys(family_names(), anything))
    assert not failing(alone(voice_bundle, figures() | {"naturalness": {"fp32": {}}}, config, speakers=("anna",)))


def test_limits_that_exclude_everything_or_miss_a_family_are_refused() -> None:
    limits = GATES.naturalness_below_recordings
    with pytest.raises(ValueError, match=r"tempo_ratio must go from a lower to a higher value, not 1\.2 to 0\.9"):
        dataclasses.replace(limits["parallel"], tempo_ratio=(1.2, 0.9))
    for name, value in (("naturalness_below_recordings", limits["parallel"]), ("max_rtf", 0.05)):
        with pytest.raises(ValueError, match=f"{name} must have a limit for each of parallel, codec_lm"):
            dataclasses.replace(GATES, **{name: {"parallel": value}})


@pytest.mark.parametrize("seed", range(4))
def test_skipping_one_word_in_twenty_is_refused_and_one_in_five_hundred_is_not(voice_bundle: Path, seed: int) -> None:
    for share, passed in ((1 / 20, False), (1 / 500, True)):
        gates = alone(voice_bundle, figures() | {"short_texts": {"fp32": words_lost(share, seed)}})
        assert gates["faulty_sentences"].passed == passed, gates["faulty_sentences"].reason
        assert gates["faulty_short_texts"].passed or not passed, gates["faulty_short_texts"].reason


def test_a_few_good_texts_are_not_enough_and_another_language_needs_none(voice_bundle: Path) -> None:
    few = {kind: found | {"texts": 5, "faulty": 0, "faulty_rate_ci95": list(wilson_interval(0, 5))}
           for kind, found in words_lost(0).items()}  # fmt: skip
    assert set(failing(alone(voice_bundle, figures() | {"short_texts": {"fp32": few}}))) == {
        "faulty_short_texts", "faulty_sentences"
    }  # fmt: skip
    why = "not run: there are no short texts in 'de-de', only in en"
    gates = alone(voice_bundle, figures() | {"short_texts": {"fp32": why}})
    assert not failing(gates) and gates["faulty_sentences"].reason == why


@pytest.mark.parametrize(
    ("runaways", "interval", "passed"),
    [(0, [0.0, 0.0234], True), (3, [0.0064, 0.0537], False), (0, [0.0, 0.49], False)],
)
def test_a_voice_that_can_run_away_must_show_on_enough_sentences_that_it_does_not(
    voice_bundle: Path, runaways: int, interval: list[float], passed: bool
) -> None:
    found = {"runaways": runaways, "sentences": 160, "runaway_rate": runaways / 160, "runaway_rate_ci95": interval}
    gates = alone(voice_bundle, figures(rtf=0.2) | {"decoding": {"fp32": found}}, family="codec_lm")
    assert gates["rtf"].passed, "its family's limit"
    assert gates["runaways"].passed == passed and f"{runaways} of 160 sentences ran away" in gates["runaways"].reason
    assert set(failing(alone(voice_bundle, figures(), family="codec_lm"))) == {"runaways"}


def babble(every: int) -> np.ndarray:
    """Word errors with babble in every `every`-th sentence of ben."""
    errors = RECORDINGS.copy()
    errors[1 :: 2 * every] = WORDS
    return errors


FEW = speaker_row("ben")
FEW["naturalness"]["fp32"]["utterances"] = 19


def of_speakers(bundle: Path, ben: dict[str, Any] | None) -> dict[str, Gate]:
    """Gates of a good anna and the given ben."""
    gates = alone(bundle, figures() | {"speakers": [speaker_row("anna"), *([ben] if ben else [])]})
    return {name: gates[name] for name in (WORD, SOUND)}


def test_a_speaker_who_babbles_now_and_then_is_refused_where_the_limit_of_all_would_do(voice_bundle: Path) -> None:
    found = of_speakers(voice_bundle, speaker_row("ben", babble(4)))[WORD]
    assert not found.passed and found.interval is not None and found.interval[1] > 14.0
    assert figures(babble(4))["intelligibility"]["fp32"]["above_recordings"]["wer"] < found.value
    good = of_speakers(voice_bundle, speaker_row("ben", np.minimum(RECORDINGS + (np.arange(160) % 40 == 1), WORDS)))
    assert not failing(good) and good[WORD].reason.startswith("all 2 speakers passed, closest ben: ")


@pytest.mark.parametrize(
    ("ben", "gates", "says"),
    [
        (speaker_row("ben", pulses_db=9.0), {SOUND}, "1 of 2 speakers failed: ben: fp32: 1 of 14 figures * pulses_db"),
        (None, {WORD, SOUND}, "ben: not measured: *hold out more sentences of each speaker"),
        ({"speaker": "ben", "intelligibility": None}, {WORD, SOUND}, "ben: not measured: "),
        (FEW, {SOUND}, "only 19 sentences*hold out more sentences of each speaker"),
    ],
    ids=["buzz", "absent", "unheard", "few"],
)
def test_a_speaker_who_fails_is_named_with_the_figure_or_the_remedy(
    voice_bundle: Path, ben: dict[str, Any] | None, gates: set[str], says: str
) -> None:
    failed = failing(of_speakers(voice_bundle, ben))
    assert set(failed) == gates
    assert all(part in reason for reason in failed.values() for part in says.split("*"))


@pytest.mark.parametrize(
    ("errors", "passed", "within", "says"),
    [
        (more_errors(0.0, scatter=30), True, True, "no difference beyond noise"),
        (more_errors(5.0), False, False, "; worse)"),
        (more_errors(3.5, scatter=60), False, True, "; worse)"),
        (np.maximum(RECORDINGS - 1, 0), True, True, "; better)"),
    ],
    ids=["equal", "worse", "uncertain", "better"],
)
def test_words_are_compared_with_the_champion_by_the_interval(
    voice_bundle: Path, errors: np.ndarray, passed: bool, within: bool, says: str
) -> None:
    gates = beside(evidence(voice_bundle, errors), evidence(voice_bundle, version=1))
    found = gates["wer_above_champion"]
    assert set(failing(gates)) == (set() if passed else {"wer_above_champion"}) and says in found.reason
    assert found.interval[0] <= found.value <= found.interval[1]
    assert (found.value < found.limit) == within, "the interval decides, not the mean"


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
    voice_bundle: Path, tmp_path: Path, change: Callable[[Path, Path], Path], opinions: np.ndarray, by: str
) -> None:
    voice = evidence(change(voice_bundle, tmp_path / "second"), opinions=opinions)
    assert set(failing(beside(voice, evidence(voice_bundle, version=1)))) == {by}


def test_dnsmos_is_optional_and_compared_sentence_by_sentence(voice_bundle: Path) -> None:
    champion = evidence(voice_bundle, version=1)
    scattered = OPINIONS + np.random.default_rng(3).normal(0.0, 0.05, len(OPINIONS))
    found = beside(evidence(voice_bundle, opinions=scattered), champion)["dnsmos_below_champion"]
    assert found.passed and "no difference beyond noise" in found.reason
    assert found.interval[1] - found.interval[0] < 0.05, "unpaired it would be 0.2"
    voice, absent = evidence(voice_bundle, opinions=np.array([])), "not run: speechmos is not installed"
    voice.metrics["naturalness"]["fp32"] |= {"dnsmos": absent, "dnsmos_below_recordings": absent}
    gate = beside(voice, champion)["dnsmos_below_champion"]
    assert gate.says() == "passed: not run: version 2: speechmos is not installed"
    gate = alone(voice_bundle, dict(voice.metrics))["naturalness_below_recordings"]
    assert gate.passed and gate.reason.endswith(f"; decided without dnsmos_below_recordings ({absent})")


@pytest.mark.parametrize(("count", "refused"), [(1, True), (19, True), (20, False)])
def test_a_few_sentences_have_no_interval(voice_bundle: Path, count: int, refused: bool) -> None:
    voice = evidence(voice_bundle)
    metrics = dict(voice.metrics) | {"intelligibility": planted.intelligibility(RECORDINGS, slice(count), "fp32")}
    metrics["naturalness"]["fp32"] = naturalness(count)
    voice = dataclasses.replace(voice, metrics=metrics, sentences=voice.sentences[:count])
    failed = failing(alone(voice_bundle, metrics) | beside(voice, voice))
    assert all(f"only {count} sentences" in reason for reason in failed.values())
    compared = {"wer_above_champion", "latency_over_champion", "dnsmos_below_champion"}
    assert set(failed) == (compared | {"wer_above_recordings", "naturalness_below_recordings"} if refused else set())


@pytest.mark.parametrize("other", ["recogniser", "sentences", "none", "half", "unheard"])
def test_words_judged_otherwise_are_not_compared_and_the_remedy_is_named(voice_bundle: Path, other: str) -> None:
    voice, champion = evidence(voice_bundle), evidence(voice_bundle, version=1)
    changes: dict[str, dict[str, Any]] = {
        "recogniser": {"metrics": figures(revision="pocketsphinx 6")},
        "sentences": {"sentences": tuple(row | {"reference": "That is."} for row in voice.sentences)},
        "none": {"sentences": ()},
        "half": {"metrics": figures(more_errors(2.0))},
        "unheard": {"metrics": figures() | {"intelligibility": {"fp32": UNHEARD}}},
    }
    found = beside(dataclasses.replace(voice, **changes[other]), champion)["wer_above_champion"]
    assert not found.passed and found.reason.startswith("not compared: version ")
    assert (UNHEARD if other == "unheard" else "docs/deploy.md") in found.reason
