"""The checks of `make gpu-check` that train.

Each takes the corpora's folder, its own folder and the device, and returns its figures and whether its claim holds.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.gpu.gpu_voices import SIZES, Answer
from benchmarks.processes import torchrun
from sonorant.layers.alignment import align
from sonorant.plugins import model_kind
from sonorant.training import checkpoint, memory
from sonorant.training.distributed.launch import environment, launch
from sonorant.training.distributed.ranks import Ranks, die_with_parent
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.sub_batches import SubBatches
from sonorant.training.trainer import Trainer
from sonorant.training.worker import Job
from testbed.tiny_training import settings, tiny_job

FASTPITCH = 101_730
"""Mel frames per second in training on one A100, as NVIDIA publishes for FastPitch."""
KINDS = ("acoustic", "vocoder")
FRAMES, SEGMENTS = 48_000, 256
ENDLESS = dict.fromkeys(("steps", "checkpoint_every", "validate_every"), 100_000)
ROUNDING_FACTOR, ROUNDING = 4.0, 1e-6
"""Maximum difference of a resumed training from an undisturbed one: this multiple of the difference of two
undisturbed ones, plus this amount."""


def tests(folder: Path, place: Path, device: torch.device) -> Answer:
    words = "-m pytest -p no:cacheprovider tests/training tests/extras/codec_lm/decoding -k gpu"
    done = subprocess.run([sys.executable, *words.split()], capture_output=True, text=True, check=False)
    print(done.stdout[-3000:], file=sys.stderr)
    said = done.stdout.strip().splitlines()[-1:]
    return {"pytest": said}, done.returncode == 0 and any(re.search(r"\b[1-9]\d* passed", line) for line in said)


def together(folder: Path, place: Path, device: torch.device) -> Answer:
    """Train every model in every precision through torchrun and NCCL with all proofs; each must learn."""
    flow, adversarial = {"decoder": "flow"}, {"adversarial": True}
    models: list[tuple[str, dict[str, Any]]]
    models = [("acoustic", flow), ("vocoder", adversarial), ("acoustic", {}), ("vocoder", {})]
    jobs = {}
    for kind, changes in models if device.type == "cuda" else models[:2]:
        for precision in ("fp32", "bf16", "fp16") if device.type == "cuda" else ("bf16",):
            name = " ".join([kind, *map(str, changes), precision])
            changed = changes | {"precision": precision, "steps": 40, "checkpoint_every": 20}
            jobs[name] = tiny_job(kind, folder / "tiny" / "features", place / name.replace(" ", "-"), **changed)
    _train_at_once(jobs, place)
    found = {}
    for name, job in jobs.items():
        rows = [row["metrics"] for row in read_metrics(RunDirectory(Path(job.run)).metrics)]
        # Only the mel's loss, because adversarial terms may rise during learning.
        losses = [row["train/mel"] for row in rows if "train/mel" in row]
        found[name] = {"first_loss": round(fmean(losses[:5]), 4), "last_loss": round(fmean(losses[-5:]), 4)}
    return found, all(losses["last_loss"] < losses["first_loss"] for losses in found.values())


def _train_at_once(jobs: dict[str, Job], place: Path) -> None:
    """Train concurrently through torchrun. Raises RuntimeError naming the trainings that fail."""
    agents = {name: _start(job, place / f"{number}.json") for number, (name, job) in enumerate(jobs.items())}
    failed = [name for name, agent in agents.items() if agent.wait()]
    if failed:
        raise RuntimeError(f"{', '.join(failed)}: training failed; see above")


def resume(folder: Path, place: Path, device: torch.device) -> Answer:
    """Kill a training with SIGKILL and resume it. A GPU adds in any order, so two undisturbed trainings differ too."""
    kinds = KINDS if device.type == "cuda" else KINDS[:1]
    changes = {"steps": 60, "checkpoint_every": 10, "validate_every": 60, "precision": "bf16"}
    jobs = {
        (kind, name): tiny_job(kind, folder / "tiny" / "features", place / f"{kind}-{name}", **changes)
        for kind in kinds
        for name in ("whole", "again", "cut")
    }
    for kind in kinds:
        _kill_after_a_checkpoint(jobs[kind, "cut"], place / f"{kind}-cut.json")
    _train_at_once({" ".join(name): job for name, job in jobs.items()}, place)
    found: dict[str, Any] = {}
    for kind in kinds:
        first, control, second = (_weights(Path(jobs[kind, name].run)) for name in ("whole", "again", "cut"))
        same = sum(torch.equal(first[name], second[name]) for name in first)
        found[kind] = {
            "tensors": len(first),
            "bit_identical": same,
            "largest_relative_difference": _distance(first, second),
            "of_two_undisturbed": _distance(first, control),
        }
    most = {kind: ROUNDING_FACTOR * one["of_two_undisturbed"] + ROUNDING for kind, one in found.items()}
    return found, all(one["largest_relative_difference"] <= most[kind] for kind, one in found.items())


def _kill_after_a_checkpoint(job: Job, file: Path) -> None:
    agent = _start(job, file)
    while agent.poll() is None and not checkpoint.existing(Path(job.run) / "checkpoints"):
        time.sleep(0.01)
    if agent.poll() is not None:
        raise RuntimeError(f"{job.recipe}: training had ended before it could be killed")
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    time.sleep(2)


def _start(job: Job, file: Path) -> subprocess.Popen[bytes]:
    job.write(file)
    env = environment(os.environ, job.train["micro_batches_per_step"])
    return subprocess.Popen(torchrun(file), env=env, start_new_session=True, preexec_fn=die_with_parent)


def stop(folder: Path, place: Path, device: torch.device) -> Answer:
    """Send SIGTERM to a training with loader processes, the default on a GPU."""
    job = tiny_job("acoustic", folder / "tiny" / "features", place, **ENDLESS)
    run = RunDirectory(Path(job.run))
    agent = _start(replace(job, data={"workers": 2}), place / "job.json")
    try:
        while agent.poll() is None and not (run.metrics.exists() and len(read_metrics(run.metrics)) >= 5):
            time.sleep(0.05)
        agent.send_signal(signal.SIGTERM)
        agent.wait(timeout=60)
    finally:
        if agent.poll() is None:
            os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
    status, kept = run.status(), checkpoint.existing(run.checkpoints)
    saved = checkpoint.load(kept[0])["step"] if kept else None
    stopped = status["state"] == "stopped" and saved == status["step"]
    return {"state": status["state"], "step": status["step"], "saved": saved}, stopped


def _distance(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    pairs = [(value, second[name]) for name, value in first.items() if value.is_floating_point()]
    return max(float((one - other).norm() / one.norm().clamp(min=1e-9)) for one, other in pairs)


def _weights(run: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load(checkpoint.existing(run / "checkpoints")[0])["ema"]


def speed(folder: Path, place: Path, device: torch.device) -> Answer:
    """Mel frames per second of models of the published size, by precision, compiled or not."""
    found: dict[str, Any] = {}
    on_gpu = device.type == "cuda"
    ways = (("fp32", False), ("fp16", False), ("bf16", False), ("bf16", True)) if on_gpu else (("bf16", False),)
    for kind in KINDS:
        for precision, compiled in ways:
            changes = {"precision": precision, "compile": compiled}
            with alone(place / f"{kind}-{precision}-{compiled}", kind, folder, device, **changes) as (trainer, _):
                name = f"{kind} {precision}{' compiled' if compiled else ''}"
                found[name] = _measured(trainer, warm_up=15 if compiled else 5, steps=20 if on_gpu else 2)
                found["parameters " + kind] = sum(p.numel() for p in trainer.recipe.model.parameters())
    best = max(one["mel_frames_per_second"] for name, one in found.items() if name.startswith("acoustic"))
    return found | {"to_beat": FASTPITCH, "ratio": round(best / FASTPITCH, 2)}, best > FASTPITCH


def _measured(trainer: Trainer, warm_up: int, steps: int) -> dict[str, float]:
    stream = trainer.steps()
    for _ in range(warm_up):
        trainer.take_step(*next(stream))
    settle()
    memory.forget_peak(trainer.ranks.device)
    start, frames = time.perf_counter(), 0.0
    for _ in range(steps):
        micro_batches, batches = next(stream)
        trainer.take_step(micro_batches, batches)
        frames += sum(trainer.recipe.units(batch)["frames"] for batch in micro_batches)
    settle()
    seconds = time.perf_counter() - start
    return {
        "mel_frames_per_second": round(frames / seconds),
        "audio_seconds_per_second": round(frames * trainer.recipe.seconds_per_frame / seconds),
        "steps_per_second": round(steps / seconds, 2),
        "peak_gib": round(memory.peak(trainer.ranks.device) / 2**30, 2),
    }


def settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def alignment(folder: Path, place: Path, device: torch.device) -> Answer:
    """Fraction of an acoustic step spent in the alignment search, timed on one of its batches."""
    with alone(place, "acoustic", folder, device) as (trainer, _):
        steps = 20 if device.type == "cuda" else 2
        step = 1 / _measured(trainer, warm_up=steps, steps=steps)["steps_per_second"]
        planned = trainer.recipe.plan.steps(0)[:1]
        batch = {name: value.to(device) for name, value in next(trainer.load(planned)).items()}
        (tokens, frames), mel = (batch["token_lengths"], batch["mel_lengths"]), batch["mel"]
        prior = torch.randn(len(mel), batch["tokens"].shape[1], mel.shape[2], device=device)
        times = []
        for _ in range(steps):
            settle()
            start = time.perf_counter()
            align(prior, mel, tokens, frames)
            settle()
            times.append(time.perf_counter() - start)
    search = median(times)
    found = {"step_ms": round(1000 * step, 2), "search_ms": round(1000 * search, 2), "share": round(search / step, 4)}
    return found, search / step < 0.05


def auto_budget(folder: Path, place: Path, device: torch.device) -> Answer:
    """Find a budget for a small fraction of the memory, and run the heaviest steps with it."""
    share, found = 0.1, {}
    memory.STEPS_AN_EPOCH = 1
    for kind, amount in zip(KINDS, ("frames_per_micro_batch", "segments_per_micro_batch"), strict=True):
        with alone(place / kind, kind, folder, device, **{amount: "auto"}) as (trainer, _):
            budget = memory.find_budget(trainer.trained, share)
            memory.forget_peak(device)
            _measured(trainer, warm_up=0, steps=20)
            peak, allowed = (round(size / 2**30, 2) for size in (memory.peak(device), memory.allowance(device, share)))
            found[kind] = {"budget": budget, "peak_gib": peak, "allowed_gib": allowed}
            found[kind]["whole_corpus"] = budget == trainer.recipe.budget_range(1)[1]
    # Memory does not limit a micro-batch that holds the whole corpus.
    return found, all(
        (one["peak_gib"] / one["allowed_gib"] >= 0.5 or one["whole_corpus"])
        and one["peak_gib"] <= 1.05 * one["allowed_gib"]
        for one in found.values()
    )


def out_of_memory(folder: Path, place: Path, device: torch.device) -> Answer:
    """Run out of memory on a GPU made small: micro-batches are halved, and training continues."""
    if device.type == "cpu":
        return {"not run": "a CPU's memory cannot be made small for one process"}, True
    with alone(place, "acoustic", folder, device) as (trainer, run):
        first = _measured(trainer, warm_up=0, steps=2)
        total = torch.cuda.get_device_properties(0).total_memory / 2**30
        memory.forget_peak(device)
        torch.cuda.set_per_process_memory_fraction(0.6 * first["peak_gib"] / total)
        try:
            after = _measured(trainer, warm_up=0, steps=6)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        kept = SubBatches("rank 0", run.sub_batches(0))
        shrunk = bool(kept._largest)
        finite = all(bool(parameter.isfinite().all()) for parameter in trainer.recipe.model.parameters())
    return {"before": first, "after": after, "phrases": kept._largest}, shrunk and finite


def trace(folder: Path, place: Path, device: torch.device) -> Answer:
    job = replace(tiny_job("acoustic", folder / "tiny" / "features", place, steps=8), profile="4:6")
    launch(job)
    traces = sorted(Path(job.run).glob("profile/*.json"))
    kernels = sum(path.read_text(encoding="utf-8").count('"cat": "kernel"') for path in traces)
    return {"traces": len(traces), "gpu_kernels": kernels}, bool(traces) and (kernels > 0 or device.type == "cpu")


def doctor(folder: Path, place: Path, device: torch.device) -> Answer:
    command = [
        sys.executable,
        "-m",
        "sonorant.cli.main",
        "doctor",
        "--data",
        str(folder / "speech"),
        "--runs",
        str(place),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, file=sys.stderr)
    return {"exit_code": done.returncode, "lines": done.stdout.strip().splitlines()[-12:]}, done.returncode == 0


@contextmanager
def alone(
    place: Path, kind: str, folder: Path, device: torch.device, **changes: Any
) -> Iterator[tuple[Trainer, RunDirectory]]:
    """A trainer in this process of a model of the published size on the speech corpus, and its run directory in
    `place`."""
    small, _ = settings(kind)
    _, train = settings(kind, **ENDLESS, micro_batches_per_step=1, precision="bf16")
    on_gpu = device.type == "cuda"
    frames, segments = (FRAMES, SEGMENTS) if on_gpu else (2000, 8)
    train |= {"frames_per_micro_batch": frames} if kind == "acoustic" else {"segments_per_micro_batch": segments}
    model = SIZES["published"][kind] if on_gpu else small
    place.mkdir(parents=True, exist_ok=True)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, init_method=f"file://{place}/group", rank=0, world_size=1)
    try:
        recipe, run = model_kind(kind).recipe(model, train | changes, folder / "speech", None), RunDirectory(place)
        yield Trainer(recipe, Ranks(0, 1, 0, device), run, "gpu-check"), run
    finally:
        dist.destroy_process_group()
