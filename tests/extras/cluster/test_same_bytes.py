import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sonorant.audio.recognizers import Clip, transcribe
from sonorant.corpus.audit.audit import AuditConfig, audit
from sonorant.errors import SonorantError
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.features.feature_writer import write_features
from sonorant.features.store import StoreConfig, open_store
from sonorant.processes import SCHEDULER, spread
from tasks.params import load
from testbed.machines import why_not
from testbed.tiny_training import tiny_codec, tiny_features
from tests.corpus.audit.test_audit import STAGE, corpus_of
from tests.extras.cluster import two_machines
from tests.features.test_features import AUDIO, TEXT, make_corpus
from tests.support import spread_work
from tests.support.cluster import Cluster, cluster, stopped
from tests.support.folders import contents
from tests.support.imports import ROOT
from tests.support.object_store import disturbed, object_store
from tests.support.prepared_corpus import cached, finish, fresh, prepare_alone, start_prepare, write_recordings, written
from tests.support.waiting import wait_until

pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # minutes on a busy machine
COUNT = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A project with recordings, and its preparation by one process."""
    project = tmp_path_factory.mktemp("project")
    write_recordings(project, COUNT)
    return project, prepare_alone(project)


@pytest.fixture
def project(whole: tuple[Path, dict[str, bytes]]) -> Path:
    fresh(whole[0])
    return whole[0]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        yield made


def started(project: Path, address: str) -> subprocess.Popen[str]:
    stage = start_prepare(project, address)
    wait_until(lambda: cached(project) > 20 or stage.poll() is not None)
    assert stage.poll() is None and cached(project) < 250, "too late to disturb it"
    return stage


def workers_of(made: Cluster) -> list[psutil.Process]:
    found = psutil.Process(made.worker.pid).children(recursive=True)
    return [process for process in found if "spawn_main" in " ".join(process.cmdline())]


def test_prepare(project: Path, whole: tuple[Path, dict[str, bytes]], two: Cluster) -> None:
    for scheduler in (None, two.address):
        fresh(project)
        finish(start_prepare(project, scheduler))
        assert written(project) == whole[1], scheduler


def test_a_killed_worker(project: Path, whole: tuple[Path, dict[str, bytes]], two: Cluster) -> None:
    stage = started(project, two.address)
    workers_of(two)[0].kill()
    finish(stage)
    assert written(project) == whole[1]


def test_a_worker_that_hangs_for_a_while(project: Path, whole: tuple[Path, dict[str, bytes]], two: Cluster) -> None:
    stage = started(project, two.address)
    stopped(workers_of(two)[0].pid, seconds=8)
    finish(stage)
    assert written(project) == whole[1]


def test_a_killed_scheduler_is_one_line_and_what_was_done_is_not_done_again(
    project: Path, whole: tuple[Path, dict[str, bytes]], two: Cluster
) -> None:
    stage = started(project, two.address)
    two.scheduler.kill()
    said = stage.communicate()[1]
    *bar, line = said.splitlines()
    assert stage.returncode == 1 and "Traceback" not in said and not (project / "prepared").exists()
    assert line.startswith(f"error: examining: the scheduler at {two.address} is gone; restart it and its workers")
    assert all(words.startswith("examining: ") for words in bar if words), said
    kept = cached(project)
    wait_until(lambda: two.worker.poll() is not None)  # they exit with their scheduler
    two.start_scheduler()
    two.start_workers("worker", 1)
    said = finish(start_prepare(project, two.address))
    assert f"/{COUNT - kept} " in said, "the others alone"
    assert written(project) == whole[1]


def test_an_item_that_kills_its_workers_is_named(two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCHEDULER, two.address)
    kept: list[int] = []
    with pytest.raises(SonorantError, match=r"^numbers: number 6 of 20 killed every worker that ran it"):
        keep = {"keep": lambda place, _: kept.append(place)}
        spread(spread_work.die_at_five, range(20), label="numbers", unit="number", **keep)
    assert sorted(kept) == [number for number in range(20) if number != 5], "all others are done"


def test_audit(tmp_path: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STAGE, "LEAST_CLIPS", 4)
    monkeypatch.setattr(STAGE, "LEAST_SECONDS", 1)
    corpus_of(tmp_path, 70, otherwise=(4, 8))
    (tmp_path / "manifest.jsonl").symlink_to(tmp_path / "prepared/manifest.jsonl")  # as an imported corpus has one
    judges = replace(load("audit", AuditConfig, ROOT / "params.yaml"), steps=5)
    found = []
    for name, scheduler in (("pool", None), ("cluster", two.address)):
        monkeypatch.delenv(SCHEDULER, raising=False)
        if scheduler:
            monkeypatch.setenv(SCHEDULER, scheduler)
        out, cache = tmp_path / f"{name}-out", tmp_path / f"{name}-cache"
        audit(tmp_path, tmp_path / "prepared", out, judges, "gruut", cache=cache, skip=None)
        found.append(contents(out) | contents(cache / "aligners"))
    assert found[0] == found[1]
    assert sum(name.endswith(".pt") for name in found[0]) == 2


@contextmanager
def served(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[bool]]]:
    """A store in a shared folder, or in a bucket with occasional 503s; and whether each request failed."""
    refused: list[bool] = []
    if kind == "folder":
        yield str(folder / "store"), refused
        return

    def sometimes(number: int) -> tuple[int, bytes] | None:
        refused.append(number % 7 == 3)
        return (503, b"") if refused[-1] else None

    with object_store(folder / "s3") as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        with disturbed(running.environment["AWS_ENDPOINT_URL"], sometimes) as address:
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            yield f"s3://{running.bucket}", refused


class Features:
    """The same features in a new store each time."""

    def __init__(self, folder: Path, place: str, takes: int) -> None:
        self._folder, self._place = folder, place
        self._corpus, six = make_corpus(folder / "corpus")
        self._rows = [replace(utterance, id=f"{utterance.id}-{take}") for take in range(takes) for utterance in six]

    def write(self, name: str, processes: int | None) -> list[object]:
        cache, out = str(self._folder / f"{name}-cache"), self._folder / name
        store = StoreConfig(place=f"{self._place}/{name}", utterances_per_shard=8, cache=cache, cache_gib=1.0)
        write_features(self._corpus, self._rows, out, AUDIO, TEXT, processes, store=store)
        features = FeatureStore.open(out)
        features.verify()
        return [features.header[part] for part in ("content", "mel_mean", "mel_std")]

    def shards(self, name: str) -> int:
        """Number of complete shards."""
        return sum(1 for _ in open_store(f"{self._place}/{name}").entries("shards/"))


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_features(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(kind, tmp_path, monkeypatch) as (place, refused), cluster(tmp_path) as made:
        features, found = Features(tmp_path, place, takes=12), []
        for name, scheduler, processes in (("one", None, 1), ("pool", None, 2), ("cluster", made.address, None)):
            if scheduler:
                monkeypatch.setenv(SCHEDULER, scheduler)
            found.append(features.write(name, processes))
    assert found[0] == found[1] == found[2]
    assert sum(refused) > 5 or kind == "folder"


@pytest.mark.parametrize("dies", ["worker", "scheduler"])
@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_features_of_a_cluster_that_loses(
    dies: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost worker's share goes to others; a restarted scheduler finds finished work."""
    with served(kind, tmp_path, monkeypatch) as (place, _), cluster(tmp_path) as made:
        features = Features(tmp_path, place, takes=120)
        wanted = features.write("one", 1)
        whole = features.shards("one")
        monkeypatch.setenv(SCHEDULER, made.address)
        victim = workers_of(made)[0] if dies == "worker" else made.scheduler
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(features.write, "cluster", None)
            wait_until(lambda: features.shards("cluster") > 3 or writing.done())
            victim.kill()
            assert not writing.done() and features.shards("cluster") < whole / 2, "too late to disturb it"
            if dies == "worker":
                assert writing.result() == wanted
                return
            with pytest.raises(SonorantError, match=f"^features: the scheduler at {made.address} is gone"):
                writing.result()
        assert not (tmp_path / "cluster").exists()
        wait_until(lambda: made.worker.poll() is not None)
        made.start_scheduler()
        made.start_workers("worker", 1)
        kept = features.shards("cluster")
        assert features.write("cluster", None) == wanted
        assert 3 < kept < whole == features.shards("cluster")


def test_codes(tmp_path: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    codec, found = tiny_codec(features := FeatureStore.open(tiny_features(tmp_path))), []
    monkeypatch.setattr("sonorant.features.computing.FEW", 0)
    for name, scheduler, processes in (("one", None, 1), ("pool", None, 2), ("cluster", two.address, None)):
        if scheduler:
            monkeypatch.setenv(SCHEDULER, scheduler)
        write_codes(tmp_path / name, "codec_lm", features, codec, name * 8, processes)
        found.append([(tmp_path / name / file).read_bytes() for file in ("objects.npy", "frames.npy")])
    assert found[0] == found[1] == found[2]


def test_recognition(two: Cluster, ljspeech_mini: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sonorant.audio.wav import read_audio

    clips = [
        Clip(*read_audio(file, 16_000))
        for file in sorted(ljspeech_mini.rglob("*.wav"), key=lambda file: file.stat().st_size)[:5]
    ]
    here = [transcribe(clips, "pocketsphinx", "en-us", processes=count) for count in (1, 2)]
    monkeypatch.setenv(SCHEDULER, two.address)
    shuffled = random.Random(1).sample(range(len(clips)), len(clips))
    there = transcribe([clips[place] for place in shuffled], "pocketsphinx", "en-us")
    assert here[0] == here[1] and any(here[0])
    assert there == [here[0][place] for place in shuffled]


@pytest.mark.parametrize("disturbance", ["none", "a machine dies"])
def test_two_machines(project: Path, whole: tuple[Path, dict[str, bytes]], disturbance: str, tmp_path: Path) -> None:
    if why := why_not():
        pytest.skip(why)
    command = [sys.executable, "-m", two_machines.__name__, str(project), str(tmp_path), disturbance]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert written(project) == whole[1]
