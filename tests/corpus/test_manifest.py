from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.corpus.manifest import Defect, Utterance, path_inside, read_manifest, write_manifest
from sonorant.errors import SonorantError
from sonorant.files import write_jsonl

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
    ("row", "named"),
    [
        (GOOD | {"id": None}, "'id'"),
        (GOOD | {"text": 3}, "'text'"),
        (GOOD | {"seconds": "1.0"}, "'seconds'"),
        (GOOD | {"sample_rate": True}, "'sample_rate'"),
        (GOOD | {"colour": "red"}, "'colour'"),
        (GOOD | {"defect": "ugly"}, "'ugly'"),
        (GOOD | {"measures": 3}, "'measures'"),
        (GOOD | {"conditioning": {"gain_db": "much"}}, r"'conditioning\."),
        ({field: GOOD[field] for field in GOOD if field != "language"}, "'language' is missing"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, row: dict[str, object], named: str) -> None:
    write_jsonl(tmp_path / "manifest.jsonl", [GOOD, row])
    with pytest.raises(SonorantError, match=rf"manifest\.jsonl: row 2: .*{named}"):
        read_manifest(tmp_path / "manifest.jsonl")


def test_paths_that_leave_a_folder_are_told_from_those_inside(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    secret = tmp_path / "secret.wav"
    secret.touch()
    (folder / "wavs/link.wav").symlink_to(secret)
    for outside in ("../secret.wav", "wavs/../../secret.wav", str(secret), "wavs/link.wav", "a\0b", "/"):
        assert path_inside(folder, outside) is None, outside
    for inside in ("wavs/a.wav", "./wavs/a.wav", "wavs/../wavs/a.wav", "..wav", str(folder / "wavs/a.wav"), "a" * 5000):
        assert path_inside(folder, inside) is not None, inside[:40]
