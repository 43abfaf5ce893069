from pathlib import Path

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.evaluation import prompts
from sonorant.evaluation.prompts import check_prompts, find_people, judge_prompts, table

PEOPLE = ["anna"] * 10 + ["ben"] * 10
RANDOM = np.random.default_rng(0)


def around(angle: float, count: int = 10) -> np.ndarray:
    radians = np.radians(angle + RANDOM.normal(0, 3, count))
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


RECORDINGS = np.concatenate([around(0), around(60)])


def test_a_voice_that_follows_its_prompts_is_certainly_more_like_each_person() -> None:
    without = around(30, 20)
    found = judge_prompts(RECORDINGS, np.concatenate([around(5), around(55)]), without, PEOPLE)
    assert 0.05 < found["gained_ci95"][0] < found["gained"] < found["gained_ci95"][1] < 0.2
    assert [row["recognised"] for row in found["recognised"]] == [1.0, 1.0]
    assert found["prompted"]["speaker_similarity"]["mean"] > found["prompted"]["speaker_similarity"]["others"] + 0.2
    assert "more similar to the person with the prompt: +0.1" in table(found)


@pytest.mark.parametrize(("angles", "says"), [((30, 30), "not significantly more or less"), ((60, 0), "less similar")])
def test_a_voice_that_ignores_or_mistakes_its_prompts_is_told_as_it_is(angles: tuple[int, int], says: str) -> None:
    without = around(30, 20)
    spoken = without.copy() if angles == (30, 30) else np.concatenate([around(angle) for angle in angles])
    found = judge_prompts(RECORDINGS, spoken, without, PEOPLE)
    assert says in table(found)
    assert [row["recognised"] for row in found["recordings_recognised"]] == [1.0, 1.0]


def test_the_first_recordings_of_each_person_are_taken(tmp_path: Path) -> None:
    for name in ("anna/b.wav", "anna/a.wav", "anna/c/d.flac", "ben/1.wav", "ben/2.wav", "eve/1.wav", ".git/1.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_people(tmp_path, 2)
    assert {name: [file.name for file in own] for name, own in found.items()} == {
        "anna": ["a.wav", "b.wav"],
        "ben": ["1.wav", "2.wav"],
    }


def test_what_cannot_be_tried_is_named(
    tmp_path: Path, voice_bundle: Path, codec_lm_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SonorantError, match="no such folder"):
        check_prompts(voice_bundle, tmp_path / "absent", 2)
    with pytest.raises(SonorantError, match="must contain folders of at least two people"):
        check_prompts(voice_bundle, tmp_path, 2)
    for name in ("anna", "carl"):
        (tmp_path / name).mkdir()
        for number in range(2):
            (tmp_path / name / f"{number}.wav").touch()
    with pytest.raises(SonorantError, match="anna: the voice was trained on 'anna'"):
        check_prompts(voice_bundle, tmp_path, 2)
    (tmp_path / "anna").rename(tmp_path / "dora")
    with pytest.raises(SonorantError, match="parallel"):
        check_prompts(voice_bundle, tmp_path, 2)
    monkeypatch.setattr(prompts.Voice, "prompt", lambda self, recording: np.zeros((1, 2), np.int64))
    monkeypatch.setattr(prompts, "not_installed", lambda: "not run: resemblyzer is not installed")
    with pytest.raises(SonorantError, match=r"^resemblyzer is not installed"):
        check_prompts(codec_lm_bundle, tmp_path, 2)
