"""A recipe refuses, before its first step, data that it could not train or validate on."""

from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from tests.support.tiny_training import RECIPES, tiny_recipe
from tests.training.trainings import with_splits


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("absent", ["train", "validation"])
def test_a_split_without_utterances_is_refused_by_name(features: Path, tmp_path: Path, kind: str, absent: str) -> None:
    store = with_splits(features, tmp_path / "features", lambda _, split: "test" if split == absent else split)
    with pytest.raises(SonorantError, match=f"no utterances in its {absent} split: add recordings or change"):
        tiny_recipe(kind, store)


@pytest.mark.parametrize("kind", ["acoustic", "language_model"])
def test_an_utterance_longer_than_a_micro_batch_is_refused_by_its_id(kind: str, features: Path) -> None:
    words = rf"utterance u\d+ \(train\) has \d+ frames.*train_{kind}.frames_per_micro_batch \(100\)"
    with pytest.raises(SonorantError, match=words):
        tiny_recipe(kind, features, frames_per_micro_batch=100)


def test_utterances_shorter_than_a_segment_are_counted(features: Path) -> None:
    frames = tiny_recipe("vocoder", features).store.frames
    for length in (int(frames.min()), int(frames.max())):
        found = tiny_recipe("vocoder", features, segment_frames=length)
        short = sum(int(found.store.frames[item]) < length for item in found.store.indices("train"))
        assert [note.split()[:4] for note in found.notes] == (
            [["vocoder:", str(short), "of", str(len(found.store.indices("train")))]] if short else []
        )
