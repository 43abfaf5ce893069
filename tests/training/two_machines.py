"""Train on two network namespaces from an object store, each with its own cache.

python -m tests.training.two_machines FOLDER CACHE_BYTES whole|damaged

Writes the corpus into the store, runs and `seen.json` into FOLDER.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import obstore
from obstore.store import S3Store

from sonorant.features.feature_store import ARRAYS, AUDIO, FeatureStore
from sonorant.features.store import Place, StoreConfig
from sonorant.features.store.shard_files import object_name
from sonorant.training.worker import Job
from testbed.machines import BRIDGE, Machine, enter, machines
from testbed.synthetic_corpus import TINY, write_corpus
from testbed.tiny_training import tiny_job
from tests.support.imports import ROOT
from tests.support.object_store import disturbed, object_store
from tests.support.waiting import PATIENCE
from tests.training.test_nodes import LAUNCH

KIND = "vocoder"  # reads mels, pitch and samples
CHANGES = {"window_shards": 2, "steps": 12, "checkpoint_every": 12, "validate_every": 12}


def write(out: Path, place: str, cache: Path, room: int) -> None:
    """24 utterances in about 8 shards."""
    config = StoreConfig(place=place, utterances_per_shard=4, cache=str(cache), cache_gib=room / 2**30)
    write_corpus(out, TINY, 24, (1.0, 1.6), config=config)


def main(folder: Path, room: int, damaged: bool) -> None:
    seen: dict[str, list[str]] = defaultdict(list)

    def note(client: str, method: str, path: str) -> None:
        if method == "GET" and "/objects/" in path:
            seen[client].append(path.rpartition("/")[2])

    with machines("east", "west") as made, object_store(folder / "s3") as running:
        behind = running.environment["AWS_ENDPOINT_URL"]
        os.environ.update(running.environment)
        jobs = [_job(folder / machine.name, running.bucket, room, folder / "east") for machine in made]
        if damaged:
            _damage_an_object(Path(jobs[0].features), running.bucket)
        with disturbed(behind, lambda _: None, BRIDGE, note) as address:
            nodes = [
                _start(machine, job, number, made[0].address, address)
                for number, (machine, job) in enumerate(zip(made, jobs, strict=True))
            ]
            most = _watched(nodes, [folder / machine.name / "cache" for machine in made])
    found = {
        machine.name: {"code": node.returncode, "fetched": seen[machine.address], "most": held}
        for machine, node, held in zip(made, nodes, most, strict=True)
    }
    (folder / "seen.json").write_text(json.dumps(found))


def _job(own: Path, bucket: str, room: int, first: Path) -> Job:
    own.mkdir()
    if own == first:
        write(own / "features", f"s3://{bucket}/voices", own / "cache", room)
    else:
        shutil.copytree(first / "features", own / "features")
        place = Place.read(own / "features", "")
        replace(place, cache=str(own / "cache")).seen_from(own / "features").write(own / "features")
    job = tiny_job(KIND, own / "features", own, **CHANGES)
    job.write(own / "job.json")
    return job


def _damage_an_object(features: Path, bucket: str) -> None:
    """Flip one bit of the first shard's samples."""
    objects = FeatureStore.open(features).index.shard_objects
    name = object_name(objects[0, ARRAYS.index(AUDIO)].tobytes().hex())
    store = S3Store.from_url(f"s3://{bucket}/voices")
    data = np.frombuffer(obstore.get(store, name).bytes(), np.uint8).copy()
    data[-100] ^= 1
    obstore.put(store, name, data.tobytes())


def _start(machine: Machine, job: Job, number: int, first: str, store: str) -> "subprocess.Popen[bytes]":
    own = Path(job.run).parent
    given = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    meeting = {"PET_NNODES": "2", "PET_NODE_RANK": str(number), "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": first}
    environment = given | meeting | {"AWS_ENDPOINT_URL": store, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LAUNCH, str(own / "job.json")]
    return machine.start(command, ROOT, environment, own / "said.txt")


def _watched(nodes: "list[subprocess.Popen[bytes]]", caches: list[Path]) -> list[int]:
    """Wait for the ends; the peak bytes of each cache."""
    most, end = [0] * len(caches), time.monotonic() + PATIENCE
    while any(node.poll() is None for node in nodes) and time.monotonic() < end:
        most = [max(before, _held(cache)) for before, cache in zip(most, caches, strict=True)]
        time.sleep(0.01)
    return most


def _held(cache: Path) -> int:
    held = 0
    with suppress(FileNotFoundError):
        for entry in os.scandir(cache / "objects"):
            with suppress(FileNotFoundError):
                held += 0 if entry.name.startswith(".") else entry.stat().st_size
    return held


if __name__ == "__main__":
    enter()
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "damaged")
