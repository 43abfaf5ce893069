"""What `benchmarks training` trains: the models of params.yaml, by whom and on which terms; and the runs themselves."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.processes import ROOT, torchrun
from benchmarks.training.plain_training import BATCH, planned
from sonorant.extras.codec_lm.codec import CodecConfig
from sonorant.extras.codec_lm.codec_training import CodecTrainConfig
from sonorant.extras.codec_lm.language_model import LanguageModelConfig
from sonorant.extras.codec_lm.language_model_training import LanguageModelTrainConfig
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.acoustic_training import AcousticTrainConfig, VocoderTrainConfig
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.files import read_json
from sonorant.training.distributed.launch import environment
from sonorant.training.worker import Job, recipe_of
from tasks import params

OURS, PLAIN, FIRST, MATCHA, PUBLISHED = "Sonorant", "plain", "plain, random", "Matcha", "Matcha, published"
"""Trainers: this project; torch's own layers and loop on the same batches, or on random ones of 32; Matcha-TTS of
equal size on the same batches, or of the published size on random ones."""
MODELS = ("regression", "flow", "vocoder", "adversarial", "codec", "language_model")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
WARMUP, OTHERS_WARMUP = 4, 1
SLOW = {"adversarial": 4}
"""Models to the factor by which they take fewer steps."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model and its trainer. A process has one thread; by another's own recipe, torch's default."""

    model: str
    by: str = OURS
    precision: str = "fp32"
    processes: int = 1

    def __str__(self) -> str:
        return f"{self.model}: {self.by}, {self.precision} x{self.processes}"


class RandomCodes:
    """A codec with random codes, on which training takes as long."""

    def __init__(self, sizes: CodecConfig, hop: int) -> None:
        self.codebooks, self.stride = sizes.codebooks, sizes.stride
        self.codes = int(np.prod(sizes.levels))
        self.samples_per_frame = sizes.stride * hop
        self.silence = torch.zeros(self.codebooks, dtype=torch.int64)
        self._random = np.random.default_rng(1)

    def encode_utterance(self, mel_MT: np.ndarray, samples_S: np.ndarray) -> np.ndarray:
        """(F, G) int64."""
        return self._random.integers(0, self.codes, (-(-mel_MT.shape[1] // self.stride), self.codebooks))


def jobs(features: Path, folder: Path) -> dict[str, Job]:
    """The training of each model, from params.yaml, with about as much audio per optimizer step as random batches
    of 32. `folder`: for codes."""
    store = FeatureStore.open(features)
    frames = float(store.frames[store.indices("train")].mean()) * BATCH

    def on_utterances(train: Any) -> dict[str, Any]:
        return asdict(replace(train, frames_per_micro_batch=round(frames / train.micro_batches_per_step)))

    def on_segments(train: Any, **changes: Any) -> dict[str, Any]:
        return asdict(replace(train, segments_per_micro_batch=BATCH // train.micro_batches_per_step, **changes))

    acoustic = asdict(params.load("acoustic", AcousticConfig))
    train = on_utterances(params.load("train_acoustic", AcousticTrainConfig))
    vocoder = asdict(params.load("vocoder", VocoderConfig))
    train_vocoder = params.load("train_vocoder", VocoderTrainConfig)
    codec = params.load("codec", CodecConfig)
    write_codes(folder / "codes", "codec_lm", store, RandomCodes(codec, store.audio.hop), "drawn at random")
    same: Any = {"features": str(features.resolve()), "run": "", "out": "", "fingerprint": "", "provenance": {}}
    same["codes"] = str((folder / "codes").resolve())
    found = {
        "regression": ("acoustic", acoustic | {"decoder": "regression"}, train),
        "flow": ("acoustic", acoustic | {"decoder": "flow"}, train),
        "vocoder": ("vocoder", vocoder, on_segments(train_vocoder)),
        "adversarial": ("vocoder", vocoder, on_segments(train_vocoder, adversarial=True)),
        "codec": ("codec", asdict(codec), on_segments(params.load("train_codec", CodecTrainConfig))),
        "language_model": (
            "language_model",
            asdict(params.load("language_model", LanguageModelConfig)),
            on_utterances(params.load("train_language_model", LanguageModelTrainConfig)),
        ),
    }
    return {
        name: Job(recipe=kind, model=model, train=settings, **same) for name, (kind, model, settings) in found.items()
    }


class Runner:
    def __init__(self, jobs: dict[str, Job], steps: int, matcha: Path | None, python: str) -> None:
        """`matcha`: a checkout of Matcha-TTS; `python`: an interpreter that can import it."""
        self.jobs, self.steps, self.matcha, self.python = jobs, steps, matcha, python

    def run(self, case: Case) -> dict[str, Any]:
        job = self.jobs[case.model]
        job = replace(job, train={**job.train, "precision": case.precision})
        steps = max(2, self.steps // SLOW.get(case.model, 1))
        with tempfile.TemporaryDirectory() as folder:
            if case.by in (MATCHA, PUBLISHED):
                return self._matcha(case, job, max(2, steps // 4), Path(folder))
            file, reached = Path(folder) / "job.json", Path(folder) / "reached.json"
            job.write(file)
            given = {name: value for name, value in os.environ.items() if name not in THREADS}
            if case.by == OURS:
                ours = given | {"PET_NPROC_PER_NODE": str(case.processes), "OMP_NUM_THREADS": "1"}
                env = environment(ours, job.train["micro_batches_per_step"])
                command = torchrun(file, steps, WARMUP, worker="benchmarks.training.training_worker")
            else:
                words = [str(max(2, steps // 2)), str(OTHERS_WARMUP), "--precision", case.precision]
                random = ["--random"] if case.by == FIRST else []
                command = [sys.executable, "-m", "benchmarks.training.plain_training", str(file), *words, *random]
                env = given | ({"OMP_NUM_THREADS": "1"} if case.by == PLAIN else {})  # otherwise torch's default
            _finished(command, env, case)
            return read_json(reached)

    def _matcha(self, case: Case, job: Job, steps: int, folder: Path) -> dict[str, Any]:
        recipe, batches = recipe_of(job), folder / "batches.npz"
        plan = planned(recipe, steps + OTHERS_WARMUP, random=case.by == PUBLISHED)
        dataset, arrays = recipe.dataset([batch for step in plan for batch in step]), {}
        number = 0
        for step, micro_batches in enumerate(plan):
            for place in range(len(micro_batches)):
                batch, number = dataset[number], number + 1
                mel_BMT = recipe.model.normalize(batch["mel"]).transpose(1, 2)  # type: ignore[operator]
                own = {"x": batch["tokens"][..., 0], "x_lengths": batch["token_lengths"], "y": mel_BMT}
                for name, value in (own | {"y_lengths": batch["mel_lengths"]}).items():
                    arrays[f"{step}/{place}/{name}"] = np.ascontiguousarray(value.numpy())
        np.savez(batches, **arrays)  # type: ignore[arg-type]
        parameters = sum(parameter.numel() for parameter in recipe.model.parameters())
        command = [self.python, str(ROOT / "benchmarks/training/matcha_training.py"), str(self.matcha), str(batches)]
        command += [str(steps), str(OTHERS_WARMUP), "--precision", case.precision]
        command += ["--parameters", str(parameters)] if case.by == MATCHA else []
        given = {name: value for name, value in os.environ.items() if name not in (*THREADS, "PYTHONPATH")}
        done = _finished(command, given | ({"OMP_NUM_THREADS": "1"} if case.by == MATCHA else {}), case)
        row = json.loads(done.splitlines()[-1])
        frames = row["frames"] / row["seconds"]
        return {
            "audio_seconds_per_second": frames * recipe.seconds_per_frame,
            "audio_seconds_per_cpu_second": row["frames"] * recipe.seconds_per_frame / row["cpu"],
            "mel_frames_per_second": frames,
            "steps_per_second": steps / row["seconds"],
            "parameters": row["parameters"],
        }


def _finished(command: list[str], env: dict[str, str], case: Case) -> str:
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{case} did not train:\n{done.stdout}{done.stderr}")
    return done.stdout


def cases(model: str, processes: int, against: bool) -> tuple[list[Case], list[Case]]:
    """Cases that alternate in every round, and cases that are also measured in the first round."""
    equal = [Case(model=model, by=by, precision=half) for half in ("fp32", "bf16") for by in (PLAIN, OURS)]
    equal += [Case(model=model, by=FIRST), Case(model=model, precision="auto", processes=processes)]
    once = [Case(model=model, precision=half, processes=processes) for half in ("fp32", "bf16") if processes > 1]
    if against and model == "flow":
        equal += [Case(model=model, by=MATCHA, precision=half) for half in ("fp32", "bf16")]
        equal.append(Case(model=model, by=PUBLISHED))
    return equal, once


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Speed of the first case relative to the second."""

    name: str
    first: Case
    second: Case
    speed: str
    """By wall time, or by CPU time with one thread each, which other work on the machine hardly affects."""


CLOCK, CPU = "audio_seconds_per_second", "audio_seconds_per_cpu_second"


def ratios(model: str, processes: int) -> Iterator[Ratio]:
    for half in ("fp32", "bf16"):
        ours = Case(model=model, precision=half)
        yield Ratio(name=f"equal terms, {half}", first=ours, second=replace(ours, by=PLAIN), speed=CPU)
        yield Ratio(name=f"Matcha of equal size, {half}", first=ours, second=replace(ours, by=MATCHA), speed=CPU)
        more = replace(ours, processes=processes)
        yield Ratio(name=f"{processes} processes to one, {half}", first=more, second=ours, speed=CLOCK)
        if model == "adversarial":  # as much audio per step
            plain = replace(ours, model="vocoder")
            yield Ratio(name=f"an adversarial step in plain ones, {half}", first=plain, second=ours, speed=CPU)
    shipped = Case(model=model, precision="auto", processes=processes)
    yield Ratio(name="own recipes", first=shipped, second=Case(model=model, by=FIRST), speed=CLOCK)
    published = Case(model=model, by=PUBLISHED)
    yield Ratio(name="Matcha as published, own recipes", first=shipped, second=published, speed=CLOCK)


def in_turn(rounds: list[list[float]]) -> list[float]:
    """The ratio of two cases' speeds in each round that has both."""
    return [first / second for first, second in zip(*rounds, strict=False)]
