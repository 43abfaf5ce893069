"""One bad speaker fails a multi-speaker voice, by name."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.registry import promote, register
from sonorant.registry.gates import Gate
from sonorant.registry.speaker_gates import judge_speakers
from sonorant.speech.bundle import read_bundle
from tests.registry.conftest import aliases
from tests.registry.planted import CONFIG, GATES, RECORDINGS, WORDS, figures, speaker_row, write_report

WORD, SOUND = "wer_above_recordings_of_a_speaker", "naturalness_below_recordings_of_a_speaker"


def judged(bundle: Path, ben: dict[str, Any] | None, speakers: tuple[str, ...] = ("anna", "ben")) -> dict[str, Gate]:
    """Gates of a good anna and this ben."""
    read = read_bundle(bundle)
    read = dataclasses.replace(read, description=dataclasses.replace(read.description, speakers=speakers))
    rows = [speaker_row("anna")] + ([ben] if ben else [])
    metrics = figures() | {"speakers": rows}
    return {gate.name: gate for gate in judge_speakers(metrics, read.description, "fp32", GATES)}


def babble(every: int) -> np.ndarray:
    """Babble in every `every`-th of ben's sentences."""
    errors = RECORDINGS.copy()
    errors[1 :: 2 * every] = WORDS
    return errors


def test_a_voice_whose_second_speaker_babbles_does_not_become_champion(voice_bundle: Path, project: Path) -> None:
    """Without an overall comparison."""
    metrics = figures(babble(1)) | {"intelligibility": figures()["intelligibility"]}
    register(voice_bundle, metrics, write_report(project / "report", babble(1)), CONFIG, {})
    verdict = promote("test-voice", GATES)
    [refused] = [gate for gate in verdict.gates if not gate.passed]
    assert refused.name == WORD and refused.reason.startswith("1 of 2 speakers failed: ben: 100.0 %")
    assert aliases() == {"challenger": 1}


def test_a_speaker_who_babbles_now_and_then_is_refused_where_the_limit_of_all_would_do(voice_bundle: Path) -> None:
    errors = babble(4)
    found = judged(voice_bundle, speaker_row("ben", errors))[WORD]
    assert not found.passed and found.interval is not None and found.interval[1] > 14.0
    assert figures(errors)["intelligibility"]["fp32"]["above_recordings"]["wer"] < found.value


def test_all_speakers_who_pass_are_counted_and_the_nearest_to_the_limit_is_named(voice_bundle: Path) -> None:
    found = judged(voice_bundle, speaker_row("ben", np.minimum(RECORDINGS + (np.arange(160) % 40 == 1), WORDS)))
    assert set(found) == {WORD, SOUND} and all(gate.passed for gate in found.values())
    assert found[WORD].reason.startswith("all 2 speakers passed, such as ben: ")
    assert found[WORD].limit == 14.0 and found[WORD].interval is not None


@pytest.mark.parametrize("figure", ["speaker_below_recordings", "tempo_ratio", "pulses_db"])
def test_a_speaker_who_sounds_wrong_is_named_with_the_figure(voice_bundle: Path, figure: str) -> None:
    found = judged(voice_bundle, speaker_row("ben", **{figure: 9.0}))
    assert found[WORD].passed and not found[SOUND].passed
    assert found[SOUND].reason.startswith("1 of 2 speakers failed: ben: fp32: 1 of 14 figures are beyond")
    assert figure in found[SOUND].reason


@pytest.mark.parametrize("ben", [None, {"speaker": "ben", "sentences": 0, "intelligibility": None}])
def test_a_speaker_of_whom_nothing_was_judged_does_not_pass(voice_bundle: Path, ben: dict[str, Any] | None) -> None:
    for gate in judged(voice_bundle, ben).values():
        assert not gate.passed and "ben: not one of their sentences was judged" in gate.reason


def test_too_few_sentences_say_what_to_raise(voice_bundle: Path) -> None:
    ben = speaker_row("ben")
    ben["intelligibility"]["fp32"]["utterances"] = ben["naturalness"]["fp32"]["utterances"] = 19
    for gate in judged(voice_bundle, ben).values():
        assert not gate.passed and "only 19 sentences" in gate.reason
        assert gate.reason.endswith("hold out more of them (prepare.test, recognizer.sentences)")


def test_a_voice_of_one_speaker_has_no_such_gate(voice_bundle: Path) -> None:
    assert judged(voice_bundle, None, speakers=("anna",)) == {}
