import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import sonorant.corpus.sound
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.sound import read_sound, recording_of
from sonorant.errors import SonorantError
from sonorant.files import sha256_file
from tests.corpus.test_preparation import CONDITION, ljspeech
from tests.support.folders import contents

Murmur = Callable[..., np.ndarray]


def imported(source: Path, out: Path) -> list[Utterance]:
    import_corpus(source, out, CorpusConfig(kind="ljspeech", path=str(source)))
    return read_manifest(out / "manifest.jsonl")


def test_recordings_stay_where_they_lie(tmp_path: Path, murmur: Murmur, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest does not depend on the clone's location, even if `data` is a link."""
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


def test_a_long_recording_is_hashed_once_whatever_the_order(
    tmp_path: Path, murmur: Murmur, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"r{number:03d}" for number in range(100)]
    found = imported(ljspeech(tmp_path / "in", {}, {name: murmur(1, 1) for name in names}), tmp_path / "out")
    hashed: list[Path] = []

    def counted(file: Path) -> str:
        hashed.append(file)
        return sha256_file(file)

    monkeypatch.setattr(sonorant.corpus.sound, "sha256_file", counted)
    for _ in range(3):
        for utterance in found:
            recording_of(tmp_path / "out", utterance)
    assert len(hashed) == len(names)


def test_a_bad_row_takes_no_hash_from_a_good_row_of_the_same_recording(
    tmp_path: Path, murmur: Murmur, prepare_config: PrepareConfig
) -> None:
    audio = tmp_path / "in/a.wav"
    audio.parent.mkdir()
    soundfile.write(audio, murmur(2, 1), 16000)
    rows = [
        {"id": id, "audio": str(audio), "text": text} for id, text in (("bad", "\udc80"), ("good", "one two three"))
    ]
    (tmp_path / "in/table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_corpus(audio.parent / "table.jsonl", tmp_path / "out", CorpusConfig(kind="table", path=str(audio.parent)))
    told = [row.sha256 for row in read_manifest(tmp_path / "out/manifest.jsonl") if row.id == "good"]
    config = replace(prepare_config, max_rejected=0.5, validation=0.0, test=0.0)
    prepare(tmp_path / "out", tmp_path / "prepared", config, "gruut", condition=CONDITION)
    assert told[0] and [row.sha256 for row in read_manifest(tmp_path / "prepared/manifest.jsonl")] == told
