"""Every check of training and speaking that needs a GPU, in one command: `make gpu-check`.

    python -m benchmarks gpu_check --save

Needs torch with CUDA, numpy and soundfile; the corpus is synthetic. Trains on all GPUs of this machine through NCCL,
even if there is only one. Every check has its own process and time limit: a failing one reports why and the others
continue. Checks that time nothing run concurrently, to save GPU time; the others follow one by one. `--check speed
tokens` runs some of them; their logs are in runs/gpu_check. Without a GPU nothing runs, and the verdict reports that.
`--dry-run` runs the checks on a CPU with tiny models to test the script; it claims nothing.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import gpu_training as training
from benchmarks.gpu.gpu_tokens import CLAIM as TOKENS
from benchmarks.gpu.gpu_tokens import tokens
from benchmarks.gpu.gpu_voices import ENGINES, Answer, Check, device_of
from benchmarks.processes import ROOT
from benchmarks.report import command, finish, options
from sonorant.processes import usable_cores
from testbed.synthetic_corpus import SPEECH, write_corpus
from testbed.tiny_training import tiny_features

LOGS = ROOT / "runs" / "gpu_check"
"""Log of each check."""
SHORT = {"dry_run": True}


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="length of the synthetic corpus (default 1)")
    names = [check.__name__ for check in CHECKS.values()]
    parser.add_argument("--check", nargs="+", choices=names, default=names, help="only these (default all)")
    parser.add_argument("--patience", type=float, default=400.0, help="seconds that a check may take (default 400)")
    parser.add_argument("--dry-run", action="store_true", help="go through the script on a CPU; results mean nothing")
    parser.add_argument("--within", type=Path, help=argparse.SUPPRESS)  # a check's own process: the corpora's folder
    arguments = options(parser, SHORT)
    device = device_of("gpu_check", arguments)
    if arguments.save and arguments.check != names:
        parser.error("--save is for all checks: leave --check out")
    chosen = {claim: check for claim, check in CHECKS.items() if check.__name__ in arguments.check}
    if arguments.within:
        [check] = chosen.values()
        print(json.dumps(_alone_in(arguments.within, check, device)))
        return
    result, claims = run_all(chosen, arguments, device)
    finish("gpu_check", result, {} if arguments.dry_run else claims, arguments)


def run_all(
    chosen: dict[str, Check], given: argparse.Namespace, device: torch.device
) -> tuple[dict[str, Any], dict[str, bool]]:
    result: dict[str, Any] = {"device": device.type}
    if device.type == "cuda":
        result |= {"gpu": torch.cuda.get_device_name(), "gpus": torch.cuda.device_count(), "cuda": torch.version.cuda}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        torch.set_num_threads(1)  # 16 threads took minutes on such small arrays, one takes seconds
        write_corpus(
            folder / "speech", SPEECH, round((0.05 if given.dry_run else given.hours) * 3600 / 5.75), (1.5, 10)
        )
        tiny_features(folder / "tiny")
        answers: dict[str, Answer] = {}
        at_once = max(2, usable_cores() // 2)
        for workers, timed in ((at_once, False), (1, True)):
            checks = [check for check in chosen.values() if (check in TIMED) is timed]
            with ThreadPoolExecutor(workers) as pool:
                threads = max(1, usable_cores() // workers)
                work = {check.__name__: pool.submit(_in_a_process, folder, check, given, threads) for check in checks}
                answers |= {name: future.result() for name, future in work.items()}
    for check in chosen.values():
        result[check.__name__] = answers[check.__name__][0]
    return result, {claim: answers[check.__name__][1] for claim, check in chosen.items()}


def _in_a_process(folder: Path, check: Check, given: argparse.Namespace, threads: int) -> Answer:
    """Run a check in a separate process group, so that its failure cannot affect other checks."""
    name = check.__name__
    words = ["-m", "benchmarks.gpu.gpu_check", "--check", name, "--within", str(folder), *["--dry-run"] * given.dry_run]
    began = time.perf_counter()
    LOGS.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.out").open("w+") as said, (LOGS / f"{name}.log").open("w+") as log:
        env = {"OMP_NUM_THREADS": str(threads)} | os.environ
        child = subprocess.Popen([sys.executable, *words], stdout=said, stderr=log, env=env, start_new_session=True)
        try:
            child.wait(given.patience)
            why = f"ended with status {child.returncode}"
        except subprocess.TimeoutExpired:
            why = f"not done after {given.patience:.0f} s"
        finally:
            with suppress(ProcessLookupError):  # nothing was left running
                os.killpg(child.pid, signal.SIGKILL)
        said.seek(0)
        log.seek(0)
        lines, errors = said.read().splitlines(), log.read()
    try:
        if child.returncode:
            raise ValueError
        found, holds = json.loads(lines[-1])
    except (ValueError, IndexError):  # it failed, or printed something else last
        last = [line for line in errors.splitlines() if line.strip()][-1:]
        found, holds = {"failed": " ".join([why, *last])[:400]}, False
    print(f"--- {name}\n{errors[-6000:]}", file=sys.stderr)
    seconds = round(time.perf_counter() - began, 1)
    print(
        f"=== {name}: {'holds' if holds else 'FAILED'} after {seconds} s: {json.dumps(found)}",
        file=sys.stderr,
        flush=True,
    )
    return found | {"seconds": seconds}, holds


def _alone_in(folder: Path, check: Check, device: torch.device) -> Answer:
    place = folder / check.__name__
    place.mkdir()
    return check(folder, place, device)


def engines(folder: Path, place: Path, device: torch.device) -> Answer:
    """`benchmarks.gpu.gpu_engines`, imported here so that without the export's packages only this check fails."""
    from benchmarks.gpu import gpu_engines

    return gpu_engines.engines(folder, place, device)


CHECKS: dict[str, Check] = {
    "the suite's tests that need a GPU pass": training.tests,
    "every model trains in every precision through NCCL, with all proofs": training.together,
    "a killed training resumes to within what two undisturbed ones differ by": training.resume,
    "a SIGTERM saves and stops a training with loader processes": training.stop,
    "the alignment search takes less than 5 % of a step": training.alignment,
    "an automatic budget stays within its share of the memory": training.auto_budget,
    "training goes on after memory has run out": training.out_of_memory,
    "a trace holds the GPU's kernels": training.trace,
    "the doctor finds no problem": training.doctor,
    ENGINES: engines,
    TOKENS: tokens,
    "training is faster than the published figure": training.speed,
}
TIMED = (training.alignment, training.auto_budget, engines, tokens, training.speed)
"""Never run concurrently with other checks."""


if __name__ == "__main__":
    main()
