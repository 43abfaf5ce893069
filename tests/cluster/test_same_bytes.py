"""One process, this machine's processes and a cluster give the same bytes, whatever happens to it meanwhile."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sonorant.audit.audit import AuditConfig, audit
from sonorant.cluster import SCHEDULER
from sonorant.data.codes import write_codes
from sonorant.data.feature_writer import write_features
from sonorant.data.features import FeatureStore
from sonorant.errors import SonorantError
from sonorant.processes import spread
from sonorant.recognizers import Clip, transcribe
from sonorant.store import StoreConfig
from tasks.params import load
from tests.audit.test_audit import STAGE, corpus_of
from tests.cluster import two_machines
from tests.data.test_features import AUDIO, TEXT, make_corpus
from tests.support import spread_work
from tests.support.cluster import Cluster, cluster, stopped
from tests.support.folders import contents
from tests.support.imports import ROOT
from tests.support.machines import why_not
from tests.support.object_store import disturbed, object_store
from tests.support.prepared_corpus import cached, finish, fresh, prepare_alone, start_prepare, write_recordings, written
from tests.support.tiny_training import tiny_codec, tiny_features
from tests.support.waiting import wait_until

pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # minutes on a busy machine
COUNT = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A project with recordings, and what one process prepares of them."""
    project = tmp_path_factory.mktemp("project")
    write_recordings(project, COUNT)
    return project, prepare_alone(project)


@pytest.fixture
def project(whole: tuple[Path, dict[str, bytes]]) -> Path:
    """With nothing prepared yet."""
    fresh(whole[0])
    return whole[0]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        yield made


def started(project: Path, address: str) -> subprocess.Popen[str]:
    """The stage in the midst of its work."""
    stage = start_prepare(project, address)
    wait_until(lambda: cached(project) > 20 or stage.poll() is not None)
    assert stage.poll() is None and cached(project) < 250, "too late to disturb it"
    return stage


def workers_of(made: Cluster) -> list[psutil.Process]:
    """The processes that do the tasks."""
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
    assert line.startswith(f"error: examining: the scheduler at {two.address} is gone; start it and its workers again")
    assert all(words.startswith("examining: ") for words in bar if words), said
    kept = cached(project)
    wait_until(lambda: two.worker.poll() is not None)  # they end with their scheduler
    two.start_scheduler()
    two.start_workers("worker", 1)
    said = finish(start_prepare(project, two.address))
    assert f"/{COUNT - kept} " in said, "the others alone"
    assert written(project) == whole[1]


def test_an_item_that_kills_its_workers_is_named(two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCHEDULER, two.address)
    kept: list[int] = []
    with pytest.raises(SonorantError, match=r"^numbers: number 6 of 20 killed every worker that it was given to"):
        keep = {"keep": lambda place, _: kept.append(place)}
        spread(spread_work.die_at_five, range(20), label="numbers", unit="number", **keep)
    assert sorted(kept) == [number for number in range(20) if number != 5], "all others are done"


def test_audit(tmp_path: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aligners are trained, clips examined and heard, and readings weighed, by workers too."""
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


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_features(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers write shards into a folder that all see, or into a bucket, which answers 503 now and then."""
    folder, six = make_corpus(tmp_path / "corpus")
    rows = [replace(utterance, id=f"{utterance.id}-{take}") for take in range(12) for utterance in six]
    place, refused, found = str(tmp_path / "store"), [], []
    with ExitStack() as stack:
        if kind == "bucket":
            running = stack.enter_context(object_store(tmp_path / "s3"))
            for name, value in running.environment.items():
                monkeypatch.setenv(name, value)

            def sometimes(number: int) -> tuple[int, bytes] | None:
                refused.append(number % 7 == 3)
                return (503, b"") if refused[-1] else None

            address = stack.enter_context(disturbed(running.environment["AWS_ENDPOINT_URL"], sometimes))
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            place = f"s3://{running.bucket}"
        made = stack.enter_context(cluster(tmp_path))
        for name, scheduler, processes in (("one", None, 1), ("pool", None, 2), ("cluster", made.address, None)):
            if scheduler:
                monkeypatch.setenv(SCHEDULER, scheduler)
            cache = str(tmp_path / f"{name}-cache")
            store = StoreConfig(place=f"{place}/{name}", utterances_per_shard=8, cache=cache, cache_gib=1.0)
            write_features(folder, rows, tmp_path / name, AUDIO, TEXT, processes, store=store)
            features = FeatureStore.open(tmp_path / name)
            features.verify()
            found.append([features.header[part] for part in ("content", "mel_mean", "mel_std")])
    assert found[0] == found[1] == found[2]
    assert sum(refused) > 5 or kind == "folder"


def test_codes(tmp_path: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    codec, found = tiny_codec(features := FeatureStore.open(tiny_features(tmp_path))), []
    monkeypatch.setattr("sonorant.data.codes.FEW", 0)
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
