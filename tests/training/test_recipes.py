"""A recipe refuses, before its first step, data that it could not train or validate on."""

import json
import shutil
from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.training.acoustic import AcousticRecipe
from sonorant.training.vocoder import VocoderRecipe
from tests.training.conftest import settings

RECIPES = {"acoustic": AcousticRecipe, "vocoder": VocoderRecipe}


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("absent", ["train", "validation"])
def test_a_split_without_utterances_is_refused_by_name(features: Path, tmp_path: Path, kind: str, absent: str) -> None:
    store = Path(shutil.copytree(features, tmp_path / "features"))
    index = json.loads((store / "index.json").read_text())
    for row in index:
        row["split"] = "test" if row["split"] == absent else row["split"]
    (store / "index.json").write_text(json.dumps(index))
    with pytest.raises(SonorantError, match=f"no utterances in its {absent} split: add recordings or change"):
        RECIPES[kind](*settings(kind), store)


def test_an_utterance_longer_than_a_micro_batch_is_refused_by_its_id(features: Path) -> None:
    with pytest.raises(
        SonorantError, match=r"utterance u\d\d \(train\) has \d+ frames.*train_acoustic.frames_per_micro_batch \(100\)"
    ):
        AcousticRecipe(*settings("acoustic", frames_per_micro_batch=100), features)


def test_utterances_shorter_than_a_segment_are_counted(features: Path) -> None:
    frames = VocoderRecipe(*settings("vocoder"), features).store.frames
    for length in (int(frames.min()), int(frames.max())):
        found = VocoderRecipe(*settings("vocoder", segment_frames=length), features)
        short = sum(int(found.store.frames[item]) < length for item in found.items)
        assert [note.split()[:4] for note in found.notes] == (
            [["vocoder:", str(short), "of", str(len(found.items))]] if short else []
        )
