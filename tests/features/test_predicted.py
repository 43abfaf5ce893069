from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.audio.arrays import Floats
from sonorant.errors import SonorantError
from sonorant.features.batches import SegmentBatches
from sonorant.features.feature_store import HEADER, SAID_MELS, FeatureStore, store_hash
from sonorant.features.plan import MicroBatch
from sonorant.features.predicted import predicted_store
from testbed.tiny_training import tiny_features
from tests.support.edited import edited
from tests.support.folders import contents
from tests.support.stores import damage, object_of, own_copy
from tests.support.tiny_voice import write_trained


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_features(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def predictor(tmp_path: Path) -> Path:
    return write_trained(tmp_path / "models")[0]


class Louder:
    """Adds a neper to each mel and counts calls."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, store: FeatureStore) -> Iterator[Floats]:
        self.asked += 1
        for i in range(len(store)):
            yield store.mel(i).astype(np.float32) + 1.0


def test_the_mels_alone_are_others(features: Path, predictor: Path, tmp_path: Path) -> None:
    made = predicted_store(features, predictor, tmp_path / "made", Louder())
    recorded, predicted = FeatureStore.open(features), FeatureStore.open(made)
    predicted.verify()
    assert store_hash(made) != store_hash(features), "a training would take one for the other"
    same, known = contents(made), contents(features)
    assert {name for name in same if same[name] != known.get(name)} == {HEADER, SAID_MELS}
    plan = [MicroBatch(0, 0, np.array([0, 7, 19]), np.array([3, 0, 40]))]
    before, after = (SegmentBatches(store, plan, 32)[0] for store in (recorded, predicted))
    bins = recorded.audio.n_mels
    assert torch.equal(after["samples"], before["samples"])
    assert torch.equal(after["frames"][:, bins:], before["frames"][:, bins:]), "pitch is the recording's"
    torch.testing.assert_close(after["frames"][:, :bins], before["frames"][:, :bins] + 1.0, atol=0.02, rtol=0)


def test_what_is_there_is_taken_and_what_is_damaged_is_made_again(
    features: Path, predictor: Path, tmp_path: Path
) -> None:
    louder = Louder()
    made = predicted_store(features, predictor, tmp_path / "made", louder)
    whole = (made / SAID_MELS).read_bytes()
    assert predicted_store(features, predictor, tmp_path / "made", louder) == made
    assert louder.asked == 1
    (made / SAID_MELS).write_bytes(whole[:-1] + b"\x7f")
    assert predicted_store(features, predictor, tmp_path / "made", louder) == made
    assert louder.asked == 2
    assert (made / SAID_MELS).read_bytes() == whole


def test_what_an_older_model_said_is_never_read(features: Path, predictor: Path, tmp_path: Path) -> None:
    made = predicted_store(features, predictor, tmp_path / "made", Louder())
    with edited(predictor / "model.json") as description:
        description["provenance"] = {"git_commit": "another"}
    assert predicted_store(features, predictor, tmp_path / "made", Louder()) == made
    with edited(predictor / "model.json") as description:
        description["config"]["flow_steps"] += 1
    larger = predicted_store(features, predictor, tmp_path / "made", Louder())
    weights = torch.load(predictor / "weights.pt", weights_only=True)
    weights["prior.weight"][0, 0] += 1.0
    torch.save(weights, predictor / "weights.pt")
    assert len({made, larger, predicted_store(features, predictor, tmp_path / "made", Louder())}) == 3


def test_a_mel_that_does_not_fit_its_recording_is_refused(features: Path, predictor: Path, tmp_path: Path) -> None:
    def says(store: FeatureStore) -> Iterator[Floats]:
        for i in range(len(store)):
            yield store.mel(i).astype(np.float32)[: -1 if i == 3 else None]

    with pytest.raises(SonorantError, match=r"utterance 'u00003': the predicted mel .* not finite or not of"):
        predicted_store(features, predictor, tmp_path / "made", says)
    assert [path.suffix for path in (tmp_path / "made").iterdir()] == [".lock"]


def test_damaged_features_are_not_taken_over(features: Path, predictor: Path, tmp_path: Path) -> None:
    own = own_copy(features, tmp_path)
    damage(object_of(own, "audio"))
    with pytest.raises(SonorantError, match=r"\(audio of shard 0\): damaged; run: sonorant store check"):
        predicted_store(own, predictor, tmp_path / "made", Louder())
