import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.export.bundling import export_voice
from sonorant.export.choice import ship
from sonorant.export.onnx_graph import ExportConfig
from sonorant.speech.bundle import content_hash, read_bundle, write_bundle
from sonorant.speech.voice import Voice
from tasks.params import load
from tests.conftest import ROOT
from tests.support.edited import edited as edited_file
from tests.support.runtimes import edited
from tests.support.tiny_voice import CORPUS


@pytest.fixture
def bundle(voice_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(voice_bundle, tmp_path / "voice"))


def refusal(bundle: Path) -> str:
    with pytest.raises(SonorantError) as caught:
        Voice.load(bundle)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_round_trip(voice_bundle: Path, tmp_path: Path) -> None:
    read = read_bundle(voice_bundle)
    write_bundle(tmp_path / "copy", read.description, voice_bundle.glob("*.onnx"))
    assert read_bundle(tmp_path / "copy").description == read.description
    assert content_hash(read_bundle(tmp_path / "copy")) == content_hash(read)


def test_writing_files_other_than_described_leaves_nothing(voice_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match="missing"):
        write_bundle(tmp_path / "copy", read_bundle(voice_bundle).description, [voice_bundle / "encoder.fp32.onnx"])
    assert list(tmp_path.iterdir()) == []


def test_no_bundle(tmp_path: Path) -> None:
    assert "no voice bundle here" in refusal(tmp_path)


def vocoder(data: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = data["graphs"]["vocoder"]
    return described


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda data: data.update(schema_version=0),
            "schema version 0, but this Sonorant reads 1; export the voice again",
        ),
        (lambda data: data.pop("audio"), "key 'audio' is missing"),
        (lambda data: data.update(colour="red"), "unknown key 'colour'"),
        (lambda data: data.update(family="choir"), "family: unknown family 'choir'; use one of: parallel, codec_lm"),
        (lambda data: data.update(decoding=3), "key 'decoding': input should be"),
        (lambda data: data["audio"].update(hop="256"), "key 'audio.hop': input should be a valid integer, not '256'"),
        (lambda data: data.update(speakers=[]), "at least one symbol and one speaker"),
        (lambda data: data["graphs"].pop("vocoder"), "'vocoder' is missing"),
        (lambda data: vocoder(data).update(default_variant="int8"), "default variant 'int8'"),
        (lambda data: vocoder(data)["variants"]["fp32"].update(file="../encoder.fp32.onnx"), "not a plain file name"),
    ],
)
def test_a_damaged_description_is_named(
    voice_bundle: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    message = refusal(edited(voice_bundle, tmp_path / "voice", change))
    assert named in message
    assert "voice.json" in message


def test_a_number_changed_by_hand_is_refused_by_its_hash(bundle: Path, tmp_path: Path) -> None:
    text = (bundle / "voice.json").read_text(encoding="utf-8")
    (bundle / "voice.json").write_text(text.replace('"hop": 256', '"hop": 200'), encoding="utf-8")
    assert "voice.json: its content does not match its sha256; export or download the bundle again" in refusal(bundle)


def test_one_flipped_bit_of_a_graph(bundle: Path) -> None:
    content = bytearray((bundle / "vocoder.fp32.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / "vocoder.fp32.onnx").write_bytes(content)
    assert "vocoder.fp32.onnx: damaged" in refusal(bundle)
    with pytest.raises(SonorantError, match="damaged"):
        content_hash(read_bundle(bundle))


def test_unknown_variant_and_runtime_list_what_there_is(voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match="no variant 'int8' of graph encoder; use one of: fp32"):
        Voice.load(voice_bundle, variant="int8")
    with pytest.raises(
        SonorantError, match="unknown runtime 'abacus'; use one of: onnxruntime, onnxruntime-cuda, torch"
    ):
        Voice.load(voice_bundle, runtime="abacus")


def test_content_hash_moves_with_any_change(voice_bundle: Path, tmp_path: Path) -> None:
    changed = edited(voice_bundle, tmp_path / "voice", lambda data: data["speakers"].reverse())
    assert content_hash(read_bundle(changed)) != content_hash(read_bundle(voice_bundle))


@pytest.fixture
def with_lexicon(trained: tuple[Path, Path], tmp_path: Path) -> Path:
    """A voice trained with a lexicon of one word."""
    predictor = Path(shutil.copytree(trained[0], tmp_path / "predictor"))
    with edited_file(predictor / "model.json") as described:
        described["frontend"]["lexicon"] = {"apple": "m ˈi n"}
    config = load("export", ExportConfig, ROOT / "params.yaml")
    export_voice(predictor, trained[1], tmp_path / "own", CORPUS, config)
    return tmp_path / "own"


def test_a_lexicon_is_kept_by_hash_and_spoken_by(with_lexicon: Path, voice_bundle: Path, tmp_path: Path) -> None:
    read = read_bundle(with_lexicon)
    assert (with_lexicon / "lexicon.txt").read_text(encoding="utf-8") == "[en-us]\napple\tm ˈi n\n"
    said = Voice.load(with_lexicon, threads=1).say("One apple.")
    np.testing.assert_array_equal(said, Voice.load(voice_bundle, threads=1).say("One [[m ˈi n]]."))
    row = {"candidate": "onnxruntime/fp32", "passed": True}
    ship(read, {"variant": "fp32", "runtime": "onnxruntime", "table": [row]}, tmp_path / "shipped")
    np.testing.assert_array_equal(said, Voice.load(tmp_path / "shipped", threads=1).say("One apple."))
    (with_lexicon / "lexicon.txt").write_text("[en-us]\napple\tm ˈi m\n", encoding="utf-8")
    with pytest.raises(SonorantError, match=r"lexicon\.txt: damaged"):
        content_hash(read)
