"""A corpus is read where it lies: nothing is copied, and a recording edited since is noticed wherever it is read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.data.corpora import CorpusConfig, import_corpus
from sonorant.data.manifest import Utterance, read_manifest
from sonorant.data.preparation import PrepareConfig, prepare
from sonorant.data.sound import read_sound
from sonorant.errors import SonorantError
from tests.data.test_preparation import CONDITION, ljspeech
from tests.support.folders import contents

Murmur = Callable[..., np.ndarray]


def imported(source: Path, out: Path) -> list[Utterance]:
    import_corpus(source, out, CorpusConfig(kind="ljspeech", path=str(source)))
    return read_manifest(out / "manifest.jsonl")


def test_recordings_stay_where_they_lie(tmp_path: Path, murmur: Murmur, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named from the corpus folder, so that another clone has the same manifest, also where `data` is a link."""
    manifests = []
    for clone in ("one", "two"):
        ljspeech(tmp_path / clone / "corpora/mine", {}, {"a": murmur(2, 1)})
        monkeypatch.chdir(tmp_path / clone)
        if clone == "two":
            (tmp_path / "disk/far/data").mkdir(parents=True)
            (tmp_path / "two/data").symlink_to(tmp_path / "disk/far/data")
        [found] = imported(Path("corpora/mine"), Path("data/corpus"))
        assert set(contents(Path("data/corpus"))) == {"manifest.jsonl"}
        assert len(read_sound(Path("data/corpus"), found)[0]) == 32000
        manifests.append(found)
    assert manifests[0].audio == "../../corpora/mine/wavs/a.wav"
    assert replace(manifests[1], audio=manifests[0].audio) == manifests[0]


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_a_recording_that_is_not_what_was_imported_is_one_line(
    tmp_path: Path, murmur: Murmur, prepare_config: PrepareConfig, change: str
) -> None:
    folder = ljspeech(tmp_path / "in", {}, {"a": murmur(2, 1)})
    [found] = imported(folder, tmp_path / "out")
    if change == "edited":
        soundfile.write(folder / "wavs/a.wav", murmur(2, 2), 16000)
    else:
        (folder / "wavs/a.wav").unlink()
    for read in (
        lambda: read_sound(tmp_path / "out", found),
        lambda: prepare(tmp_path / "out", tmp_path / "prepared", prepare_config, "gruut", condition=CONDITION),
    ):
        with pytest.raises(SonorantError, match=r"wavs/a\.wav: (edited|no such|gone).*run: dvc repro"):
            read()
    assert not (tmp_path / "prepared").exists()
