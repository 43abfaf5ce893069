"""Workers of a study: processes, on one or more machines that share its storage, that run trials until none is left."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from prefect import flow, get_client, get_run_logger

from flows.command import GRACE, failed
from flows.tuning.begin import begin
from flows.tuning.curve import begin_curve, settings_from, write_report
from flows.tuning.sizes import SIZES, STUDY
from flows.tuning.study import load_study, open_storage
from flows.tuning.trial import TrialWork
from sonorant.cli.say import end_cleanly_on_sigterm
from sonorant.errors import SonorantError
from sonorant.processes import at_most_cores
from sonorant.registry.tracking.mlflow_store import store_uri
from tasks.stage import run

LOOK = 5.0
"""Seconds between checks for workers that died during the last trials."""


@flow(name="tune")
def tune(search: str, trials: int | None = None, workers: int = 1) -> Any:
    """Run a search until all its trials are complete. Runs on several machines share the trials.

    Args:
        search: File of the search, such as tuning/vocoder.yaml.
        trials: Total number of trials, instead of the file's.
        workers: Processes on this machine; each gets its share of cores and GPUs.
    """
    try:
        study = begin(Path(search), trials)
        run_workers(study.name, workers)
        return study.name
    except SonorantError as error:
        return failed(error)


@flow(name="tune-compare")
def compare(study: str, workers: int = 1) -> Any:
    """Run the comparison `study` (flows/tuning/compare.py) until all its training runs are complete."""
    try:
        run_workers(study, workers)
        return study
    except SonorantError as error:
        return failed(error)


@flow(name="curve")
def curve(
    minutes: str = SIZES,
    seeds: int = 3,
    figures: list[str] | None = None,
    workers: int = 1,
    study: str = STUDY,
    more: float | None = None,
    init_from: str | None = None,
    changes: list[str] | None = None,
) -> Any:
    """Train voices on some and on all minutes of the recordings, and write reports/curve.html.

    Args:
        minutes: Sizes in addition to all minutes, such as 5,10,20,40.
        seeds: Training runs per size.
        figures: Keys of reports/metrics.json to draw (default: words, sound, intonation, short texts).
        workers: Processes on this machine; each gets its share of cores and GPUs.
        study: Name of the study.
        more: Additional minutes to forecast (default: 20, or all recorded minutes if fewer).
        init_from: Voice to fine-tune, with the same sizes and seeds as voices from scratch (default: none).
        changes: Additional settings of the fine-tuned voices, each KEY=VALUE.
    """
    try:
        if changes and not init_from:
            raise SonorantError("--with sets only fine-tuned voices; give --init-from too")
        tuned = settings_from(init_from, changes or []) if init_from else None
        begun = begin_curve(minutes, seeds, figures or [], study, tuned=tuned)
        run_workers(begun.name, workers)
        for sentence in write_report(begun, more):
            get_run_logger().info("%s", sentence)
        return begun.name
    except SonorantError as error:
        return failed(error)


def run_workers(study: str, count: int) -> None:
    """Run `count` workers on this machine until no trial is left; requires a flow run.

    Raises SonorantError if trials are left because workers failed or were killed.
    """
    from sonorant.training.distributed.ranks import die_with_parent

    with get_client(sync_client=True) as client:
        address = str(client.api_url)  # the server may be temporary, of this flow run
    count = at_most_cores(count, "workers") or 1
    cores, gpus = sorted(os.sched_getaffinity(0)), visible_gpus()
    environment = os.environ | {"PREFECT_API_URL": address, "MLFLOW_TRACKING_URI": store_uri()}
    processes: list[subprocess.Popen[bytes]] = []

    def start(number: int) -> None:
        own = set(share(cores, number, count))

        def prepare() -> None:
            die_with_parent()
            os.sched_setaffinity(0, own)

        more = {"CUDA_VISIBLE_DEVICES": ",".join(share(gpus, number, count))} if gpus else {}
        command = [sys.executable, "-m", "flows.tuning.worker", study]
        # Own sessions, so that Ctrl-C reaches only this process, which stops the workers in order.
        processes.append(subprocess.Popen(command, env=environment | more, start_new_session=True, preexec_fn=prepare))

    try:
        for number in range(count):
            start(number)
        for number, process in enumerate(processes):
            if process.wait() < 0:
                get_run_logger().warning("worker %d was killed (signal %d)", number, -process.returncode)
    except BaseException:
        end(processes)
        raise
    if left := load_study(open_storage(), study).left():
        failed = next((process.returncode for process in processes if process.returncode), 0)
        why = "a worker failed (see above)" if failed > 0 else "all workers were killed"
        raise SonorantError(f"study '{study}': {why}; run the same command again for the remaining {left} trials")


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Stop the workers; each returns its trial to the study first."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE + 15
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.wait()


def share(things: list[Any], number: int, count: int) -> list[Any]:
    """Return the part of `things` for worker `number` of `count`; if there are too few, workers share them."""
    return things[number::count] or [things[number % len(things)]]


def visible_gpus() -> list[str]:
    import torch

    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return named or [str(number) for number in range(torch.cuda.device_count())]


def work(name: str) -> None:
    """Run trials, including those of dead workers, until none is left. Raises SonorantError for errors that affect all
    trials."""
    root, study = Path.cwd(), load_study(open_storage(), name)
    end_cleanly_on_sigterm()  # again, since Prefect forwards the signal after a stopped trial
    while True:
        if study.next_trial(lambda trial, settings: TrialWork(study.search, name, trial, settings, root).run()):
            continue
        if not study.at_work():
            return
        time.sleep(LOOK)


if __name__ == "__main__":
    run(lambda: work(sys.argv[1]))
