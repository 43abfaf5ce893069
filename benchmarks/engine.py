"""What does a cluster cost beside this machine's own processes, with as many of them?

    python -m benchmarks.engine

Tasks that do nothing are spread over two processes of a pool and over two workers of Dask, each task alone and in
groups as `spread` sends them. Then the recordings of a person (../shared/data/kathleen) are prepared by both. All is
CPU time, of the caller, the scheduler and all workers together, as other work on the machine cannot add to it.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.processes import ROOT
from benchmarks.report import command, finish, options
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import read_manifest, write_manifest
from sonorant.extras.cluster import flight
from sonorant.processes import spread
from tests.support.cluster import Cluster, cluster
from tests.support.prepared_corpus import finish as ended
from tests.support.prepared_corpus import fresh, start_prepare, written
from tests.support.spread_work import nothing

PERSON = (ROOT / "../shared/data/kathleen").resolve()
WORKERS = 2
MOST_TASK_MS, MOST_ITEM_MS, MOST_TIMES = 10.0, 1.0, 1.25
"""Claimed: CPU of a task by itself, of an item in a group, and of preparing beside the pool's."""
SHORT = {"tasks": 200, "recordings": 100}


def main() -> None:
    """Measure and print the verdict."""
    parser = command(__doc__)
    parser.add_argument("--tasks", type=int, default=2000, help="that do nothing (default 2000)")
    parser.add_argument("--recordings", type=int, default=10_000, help="to prepare at most (default: all)")
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder), WORKERS) as made:
        tasks = measure_tasks(made, arguments.tasks)
        prepared = measure_prepare(made, Path(folder) / "project", arguments.recordings)
    claims = {
        f"a task on a cluster costs at most {MOST_TASK_MS:g} ms": tasks["cluster_ms_a_task"] <= MOST_TASK_MS,
        f"an item in a group at most {MOST_ITEM_MS:g} ms": tasks["cluster_ms_an_item"] <= MOST_ITEM_MS,
    }
    if isinstance(prepared, dict):
        claims["both prepare the same bytes"] = prepared["same_bytes"]
        times = f"preparing on a cluster takes at most {MOST_TIMES:g} times the pool's CPU time"
        claims[times] = prepared["cluster_over_pool"] <= MOST_TIMES
    finish("engine", {"workers": WORKERS, "tasks": tasks, "prepare": prepared}, claims, arguments)


def measure_tasks(made: Cluster, count: int) -> dict[str, float]:
    """CPU milliseconds a task beyond what few of them take, so that no start is in it."""

    def on_pool(tasks: int) -> Any:
        return spread(nothing, range(tasks), label="pool", unit="task", processes=WORKERS)

    def on_cluster(tasks: int) -> Any:
        how: Any = {"prepare": None, "arguments": (), "reads": (), "keep": None}
        return flight.spread_over(made.address, nothing, range(tasks), label="cluster", unit="task", **how)

    found = {}
    most, by_itself = flight.GROUP, {"pool_ms_a_task": on_pool, "cluster_ms_a_task": on_cluster}
    for name, spread_tasks in {**by_itself, "cluster_ms_an_item": on_cluster}.items():
        flight.GROUP = most if name == "cluster_ms_an_item" else 1
        few = cpu_seconds(lambda spread_tasks=spread_tasks: spread_tasks(WORKERS), made)  # type: ignore[misc]
        all_of_them = cpu_seconds(lambda spread_tasks=spread_tasks: spread_tasks(count), made)  # type: ignore[misc]
        found[name] = round(1000 * (all_of_them - few) / (count - WORKERS), 3)
    return found


def measure_prepare(made: Cluster, project: Path, most: int) -> dict[str, Any] | str:
    """CPU and wall seconds of the stage on both, with nothing in its cache; or why it was not run."""
    if not PERSON.is_dir():
        return "not run: the recordings of a person (kathleen) are absent"
    project.mkdir()
    import_corpus(PERSON, project / "corpus", CorpusConfig(kind="auto", path=str(PERSON)))
    rows = read_manifest(project / "corpus/manifest.jsonl")[:most]
    write_manifest(project / "corpus/manifest.jsonl", rows)
    settings = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    settings["prepare"]["max_rejected"] = 1.0
    (project / "params.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    result: dict[str, Any] = {"recordings": len(rows)}
    outputs = []
    for name, scheduler in (("pool", None), ("cluster", made.address)):
        fresh(project)
        begin = time.perf_counter()
        seconds = cpu_seconds(lambda scheduler=scheduler: ended(start_prepare(project, scheduler)), made)  # type: ignore[misc]
        result |= {f"{name}_cpu_s": round(seconds, 1), f"{name}_wall_s": round(time.perf_counter() - begin, 1)}
        outputs.append(written(project))
    times = round(result["cluster_cpu_s"] / result["pool_cpu_s"], 3)
    return result | {"cluster_over_pool": times, "same_bytes": outputs[0] == outputs[1]}


def cpu_seconds(work: Callable[[], Any], made: Cluster) -> float:
    """CPU time that the work takes here, in the processes that it starts and ends, and in the cluster."""
    before = _used(made)
    work()
    return _used(made) - before


def _used(made: Cluster) -> float:
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(usage.ru_utime + usage.ru_stime for usage in ours)
    for server in (made.scheduler, made.worker):
        whole = psutil.Process(server.pid)
        for process in (whole, *whole.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    return total


if __name__ == "__main__":
    main()
