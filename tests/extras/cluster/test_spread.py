import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sonorant import processes
from sonorant.corpus.manifest import Utterance, write_manifest
from sonorant.errors import SonorantError
from sonorant.extras.cluster import task as worker_task
from sonorant.files import sha256_file
from sonorant.processes import SCHEDULER, spread
from tests.support import spread_work
from tests.support.cluster import Cluster, cluster, outside
from tests.support.command import run_command
from tests.support.imports import ROOT
from tests.support.ports import free_port

pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
flight = pytest.importorskip("sonorant.extras.cluster.flight")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(params=["this machine", "a cluster"])
def anywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on this machine's processes, then on a cluster."""
    monkeypatch.delenv(SCHEDULER, raising=False)
    if request.param == "a cluster":
        monkeypatch.setenv(SCHEDULER, request.getfixturevalue("two_workers").address)


@pytest.fixture
def there(two_workers: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv(SCHEDULER, two_workers.address)
    return two_workers


def numbers(function: Callable[[int], Any], count: int, **more: Any) -> list[Any]:
    return spread(function, range(count), label="numbers", unit="number", **more)


@pytest.mark.usefixtures("anywhere")
def test_results_are_in_order_and_each_is_kept_once() -> None:
    kept: list[tuple[int, int]] = []
    found = numbers(spread_work.square, 60)
    assert found == [number * number for number in range(60)]
    assert numbers(spread_work.square, 60, keep=lambda place, result: kept.append((place, result))) == []
    assert sorted(kept) == list(enumerate(found))
    assert spread(spread_work.square, [], label="nothing", unit="number") == []


@pytest.mark.usefixtures("anywhere")
def test_memory_is_given_back_as_the_c_library_does_by_itself() -> None:
    asked = ["MALLOC_TRIM_THRESHOLD_"]
    assert spread(spread_work.variable, asked, label="variables", unit="name") == [os.environ.get(*asked)]


def test_a_slow_item_holds_no_other_up(there: Cluster) -> None:
    kept: list[int] = []
    numbers(spread_work.square, 60, keep=lambda place, _: kept.append(place))
    assert kept != sorted(kept)


@pytest.mark.usefixtures("anywhere")
def test_each_process_is_prepared_once_a_call_and_for_that_call() -> None:
    for what in ("first", "second"):
        found = numbers(spread_work.prepared, 40, prepare=spread_work.prepare, arguments=(what,))
        assert {history[-1] for _, history in found} == {what}
        by_process = dict(found)
        assert all(history.count(what) == 1 for history in by_process.values())


def test_what_processes_are_prepared_with_is_sent_to_the_cluster_once(
    there: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    sent: list[int] = []
    submit = Client.submit

    def counted(self: Client, function: Any, *given: Any, **options: Any) -> Any:
        sent.append(sum(len(part) for part in given if isinstance(part, bytes)) + len(str(given[0])))
        return submit(self, function, *given, **options)

    monkeypatch.setattr(Client, "submit", counted)
    weights = "w" * 1_000_000
    assert len(numbers(spread_work.prepared, 60, prepare=spread_work.prepare, arguments=(weights,))) == 60
    assert len(sent) > 4 and sum(size > 100_000 for size in sent) == 1


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize(("items", "error"), [(range(6), SonorantError), (range(100, 106), KeyError)])
def test_what_the_function_raises_is_raised_as_it_is(items: range, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"item {items[3]}"):
        spread(spread_work.refuse, items, label="numbers", unit="number")


class Taken(Sequence[int]):
    """Numbers, and the maximum number taken but not yet kept."""

    def __init__(self, count: int) -> None:
        self.count, self.out, self.most = count, 0, 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int) and place >= self.count:
            raise IndexError
        self.out += 1
        self.most = max(self.most, self.out)
        return place

    def kept(self, place: int, result: int) -> None:
        self.out -= 1


def test_few_items_are_on_their_way_at_a_time(there: Cluster) -> None:
    items = Taken(20)
    assert spread(spread_work.nap, items, label="naps", unit="nap", keep=items.kept) == []
    assert items.out == 0
    assert items.most <= 2 * flight.A_THREAD  # two threads, and each item takes a group's time


def test_a_relative_path_is_the_callers_and_a_changed_file_is_read_anew(
    there: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("one", "two"):
        Path("words.txt").write_text(text)
        found = spread(spread_work.read, [Path("words.txt")] * 4, label="files", unit="file", reads=[Path("words.txt")])
        assert found == [text] * 4


@pytest.mark.usefixtures("there")
def test_a_number_of_processes_means_this_machine() -> None:
    assert numbers(spread_work.parent, 3, processes=1) == [os.getpid()] * 3


def corpus(folder: Path, **known: str) -> None:
    """Enough utterances for several processes, without sound; each has `known`."""
    row = {"audio": "none.wav", "text": "One two three.", "speaker": "s", "language": "en-us", **known}
    write_manifest(folder / "corpus/manifest.jsonl", [Utterance(id=f"u{n}", **row) for n in range(70)])
    shutil.copy(ROOT / "params.yaml", folder)


def prepare_in(folder: Path, address: str, **known: str) -> str:
    """The stage's error; nothing is written. Each utterance has `known`."""
    corpus(folder, **known)
    words = ("--corpus", "corpus", "--out", "prepared", "--cache", "cache")
    done = run_command("tasks.prepare", *words, cwd=folder, **{SCHEDULER: address})
    *bar, line = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("error: ") and not (folder / "prepared").exists(), done.stderr
    assert all(words.startswith("examining: ") for words in bar if words), done.stderr
    return line


@pytest.mark.parametrize("address", ["http://10.0.0.1:8786", "tcp://10.0.0.1", "10.0.0.1:8786", "tcp://h:99999"])
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    assert f"SONORANT_SCHEDULER: '{address}' is not a scheduler address" in prepare_in(tmp_path, address)


def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "CONNECT_SECONDS", 2.0)
    address = f"tcp://127.0.0.1:{free_port()}"
    line = prepare_in(tmp_path, address)
    assert f"cannot reach a scheduler at {address}" in line and "start one with 'sonorant scheduler'" in line


def test_a_scheduler_that_gets_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "WORKER_SECONDS", 2.0)
    with cluster(tmp_path, workers=0) as made:
        line = prepare_in(tmp_path, made.address)
    assert f"has had no worker for 2 s; start one: sonorant worker {made.address}" in line


@pytest.mark.parametrize("name", ["Python", "sonorant", "numpy"])
def test_a_caller_of_another_version_is_told_so(there: Cluster, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    own = worker_task.versions()
    monkeypatch.setattr(worker_task, "versions", lambda: own | {name: "0.0"})
    with pytest.raises(SonorantError, match=rf"^worker on .+: {name} is {own[name]} there and 0\.0 here; install"):
        numbers(spread_work.nap, 3)


def test_a_worker_of_another_version_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("sonorant", "tests"):
        shutil.copytree(ROOT / room, tmp_path / "other" / room, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other/sonorant/cli/say.py").open("a") as file:
        file.write("# another commit\n")
    with cluster(tmp_path, workers=0) as made:
        made.start_workers("other", 1, cwd=tmp_path / "other")
        monkeypatch.setenv(SCHEDULER, made.address)
        with pytest.raises(SonorantError, match=r"^worker on .+: sonorant is code \w+ there and code \w+ here"):
            numbers(spread_work.nap, 3)


@pytest.mark.parametrize("what", ["manifest", "recordings"])
def test_a_worker_that_does_not_see_the_corpus(what: str, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    hides = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs none {hidden} && mkdir {hidden}/corpus && exec "$@"', "sh"]
    if subprocess.run([*hides, "true"], capture_output=True).returncode:
        pytest.skip("this system allows no mount namespaces")
    with cluster(tmp_path, workers=0) as made:
        made.start_workers("blind", 1, before=hides)
        if what == "manifest":
            unseen, line = hidden / "corpus/manifest.jsonl", prepare_in(hidden, made.address)
        else:  # outside the project's folder
            (unseen := hidden / "a.wav").write_bytes(b"sound")
            (tmp_path / "project").mkdir()
            line = prepare_in(tmp_path / "project", made.address, audio=str(unseen), sha256=sha256_file(unseen))
    assert f"cannot read {unseen} (No such file or directory); all machines must have" in line


def test_a_worker_with_several_threads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, workers=0) as made:
        command = [sys.executable, "-m", "dask", "worker", made.address, "--nworkers", "1", "--nthreads", "2"]
        with (tmp_path / "threads.log").open("wb") as log:
            worker = subprocess.Popen(command, cwd=ROOT, env=outside(os.environ), stdout=log, stderr=log)
        monkeypatch.setenv(SCHEDULER, made.address)
        try:
            with pytest.raises(
                SonorantError, match=r"has 2 threads but must have exactly one; start it with: sonorant"
            ):
                numbers(spread_work.nap, 3)
        finally:
            worker.terminate()
            worker.wait()


def test_a_worker_that_dies_is_replaced_and_its_items_done_again(there: Cluster, tmp_path: Path) -> None:
    items = [(number, tmp_path) for number in range(20)]
    assert spread(spread_work.die_once, items, label="numbers", unit="number") == list(range(20))
    assert (tmp_path / "died").exists()


def test_dask_is_imported_where_a_cluster_is_used_alone() -> None:
    code = (
        "import json, sys, sonorant.cli.main, sonorant.corpus.cache, sonorant.processes, sonorant.audio.recognizers;"
        "import tasks.prepare;"
        "print(json.dumps(sorted({'dask', 'distributed', 'tornado', 'bokeh'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_pool_takes_few_items_before_the_first_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """One future per utterance would dominate memory."""
    monkeypatch.setattr(processes, "_AHEAD", 6)
    items = Taken(20)
    assert spread(spread_work.square, items, label="numbers", unit="number", processes=2, keep=items.kept) == []
    assert items.most == 6 and items.out == 0
