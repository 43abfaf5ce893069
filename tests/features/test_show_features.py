import json
from pathlib import Path

from sonorant.features.feature_store import FeatureStore
from testbed.tiny_training import tiny_features
from tests.support.command import run_command
from tests.support.imports import ROOT


def test_a_store_is_printed_in_lines_of_json(tmp_path: Path) -> None:
    features = tiny_features(tmp_path)
    done = run_command("tasks.show_features", "--features", str(features), "--first", "2", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    about, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    store = FeatureStore.open(features)
    assert (about["utterances"], about["version"]) == (20, 1)
    assert [row["id"] for row in rows] == list(store.ids)[:2]
    assert rows[1] == {
        "id": "u00001", "split": "train", "speaker": "low", "seconds": round(int(store.frames[1]) * 64 / 8000, 3),
        "frames": int(store.frames[1]), "tokens": int(store.tokens_count[1]),
    }  # fmt: skip
