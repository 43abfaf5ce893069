"""A manifest comes back as it was written, and a damaged one is one line that says where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.data.manifest import Defect, Utterance, path_inside, read_manifest, write_manifest
from sonorant.errors import SonorantError

WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=12)
UTTERANCES = st.builds(
    Utterance,
    id=WORDS,
    audio=WORDS | st.none(),
    text=WORDS,
    speaker=WORDS,
    language=st.just("en-us"),
    spoken=WORDS | st.none(),
    seconds=st.floats(0, 100) | st.none(),
    sample_rate=st.integers(8000, 48000) | st.none(),
    split=st.sampled_from(["train", "test"]) | st.none(),
    defect=st.sampled_from([str(defect) for defect in Defect]) | st.none(),
)
GOOD = {"id": "a", "audio": "a.wav", "text": "A.", "speaker": "s", "language": "en-us"}


@settings(max_examples=40)
@given(utterances=st.lists(UTTERANCES, max_size=5))
def test_written_is_read(tmp_path_factory: pytest.TempPathFactory, utterances: list[Utterance]) -> None:
    path = tmp_path_factory.mktemp("manifest") / "manifest.jsonl"
    write_manifest(path, utterances)
    assert read_manifest(path) == utterances


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"id": None}, "'id'"),
        ({"text": 3}, "'text'"),
        ({"seconds": "1.0"}, "'seconds'"),
        ({"sample_rate": True}, "'sample_rate'"),
        ({"colour": "red"}, "'colour'"),
        ({"defect": "ugly"}, "'ugly'"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, change: dict[str, object], named: str) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(SonorantError, match=rf"manifest\.jsonl: row 2: .*{named}"):
        read_manifest(path)


@pytest.mark.parametrize("field", ["id", "text", "speaker", "language"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text(json.dumps({key: value for key, value in GOOD.items() if key != field}) + "\n")
    with pytest.raises(SonorantError, match=rf"row 1: field '{field}' is missing"):
        read_manifest(path)


def test_paths_that_leave_a_folder_are_told_from_those_inside(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    (tmp_path / "secret.wav").touch()
    (folder / "wavs/link.wav").symlink_to(tmp_path / "secret.wav")
    for outside in (
        "../secret.wav",
        "wavs/../../secret.wav",
        str(tmp_path / "secret.wav"),
        "wavs/link.wav",
        "a\0b",
        "/",
    ):
        assert path_inside(folder, outside) is None, outside
    for inside in ("wavs/a.wav", "./wavs/a.wav", "wavs/../wavs/a.wav", "..wav", str(folder / "wavs/a.wav"), "a" * 5000):
        assert path_inside(folder, inside) is not None, inside[:40]
