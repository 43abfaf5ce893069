"""Settings that `make demo CORPUS=<folder>` uses for a user's recordings."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from flows.own_recordings import expected_time, find_recordings, overrides_for
from flows.workspace import check_overrides, keep_voice
from sonorant.errors import SonorantError
from sonorant.plugins import family_names
from tests.support.imports import ROOT


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def recordings(folder: Path, *rates: int, seconds: float = 0.1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, rate in enumerate(rates):
        soundfile.write(folder / f"{number}.wav", np.zeros(int(rate * seconds)), rate)
        (folder / f"{number}.txt").write_text("A text.")
    return folder


@pytest.mark.parametrize(("recorded", "rate"), [(16000, 16000), (22050, 22050), (44100, 24000)])
@pytest.mark.parametrize("family", family_names())
def test_a_voice_is_as_wide_as_its_recordings_and_no_wider(
    family: str, recorded: int, rate: int, tmp_path: Path
) -> None:
    found = overrides_for(find_recordings(recordings(tmp_path / "My Voice", recorded)), "sonorant-demo", family)
    assert found["audio.sample_rate"] == rate and found["audio.f_max"] == rate / 2
    assert found["register.model"] == "sonorant-my-voice"
    assert Path(found["corpus.path"]).is_absolute(), "the run works in another folder"
    check_overrides(ROOT / "params.yaml", found)


def test_a_corpus_whose_name_is_another_corpus_s_gets_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, demo = (recordings(tmp_path / name, 16000) for name in ("a/录音", "b/录音", "demo"))
    for name in ("params.yaml", "corpora"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for folder, name in ((first, "recordings"), (second, "recordings-2"), (demo, "demo-2"), (first, "recordings")):
        found = overrides_for(find_recordings(folder), "sonorant-demo", "parallel")
        assert found["register.model"] == f"sonorant-{name}"
        keep_voice(first, tmp_path, found["register.model"], found["corpus.path"])


def test_a_rare_rate_does_not_decide(tmp_path: Path) -> None:
    folder = recordings(tmp_path / "corpus", *[24000] * 120, 8000, seconds=0.01)
    assert find_recordings(folder).sample_rate == 24000


def test_other_files_are_left_aside_and_hours_are_counted(tmp_path: Path) -> None:
    folder = recordings(tmp_path / "corpus", *[16000] * 9, seconds=2.0)
    (folder / "broken.wav").write_bytes(b"no sound")
    (folder / "notes.md").write_text("no sound either")
    found = find_recordings(folder)
    assert found.hours == pytest.approx(18.0 / 3600)
    assert "0.0 hours of recordings at 16000 Hz: about " in expected_time(found, "parallel")


@pytest.mark.parametrize(
    ("rates", "why"),
    [((), "contains no recordings"), ((8000,), "recordings have 8000 Hz; give some of at least 16000 Hz")],
)
def test_what_cannot_become_a_voice_is_one_line(rates: tuple[int, ...], why: str, tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match=why):
        overrides_for(find_recordings(recordings(tmp_path / "corpus", *rates)), "sonorant-demo", "parallel")
    with pytest.raises(SonorantError, match="no such folder"):
        find_recordings(tmp_path / "nowhere")


def test_what_is_known_of_a_family_goes_to_that_family_alone(tmp_path: Path) -> None:
    found = find_recordings(recordings(tmp_path / "anna", 16000))
    assert not any(".codec" in f".{key}" or "train_codec" in key for key in overrides_for(found, "mine", "parallel"))
    assert overrides_for(found, "sonorant-demo-codec_lm", "codec_lm")["register.model"] == "sonorant-anna-codec_lm"
    assert not any("train_vocoder" in key for key in overrides_for(found, "mine", "codec_lm"))
    with pytest.raises(SonorantError, match="no settings for family whistle; choose from: parallel, codec_lm"):
        overrides_for(found, "mine", "whistle")
