import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from sonorant.layers.model_folder import load_model
from sonorant.layers.quantized import quantized
from sonorant.training.initial import read_initial
from sonorant.training.trainer import Trainer
from sonorant.training.worker import Job, recipe_of, start_from
from testbed.tiny_training import tiny_job
from tests.export.quantization.test_post_training import quantise, write_float
from tests.support.imports import ROOT
from tests.support.settings import project_settings
from tests.support.trainings import Training
from tests.training.trainings import ALONE, assert_resumes, logged, trainer_of

GENTLE = {"learning_rate": 1e-4, "warmup_steps": 8, "steps": 6, "validate_every": 6, "checkpoint_every": 2}


@pytest.fixture(scope="module")
def int8(features: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models for int8 training, after post-training quantisation."""
    folder, kinds = tmp_path_factory.mktemp("int8"), ("acoustic", "vocoder", "language_model")
    for kind in kinds:
        quantise(kind, features, write_float(kind, features, folder / f"float-{kind}")).save(folder / kind)
    return {kind: folder / kind for kind in kinds}


def job_of(kind: str, features: Path, folder: Path, start: Path, **changes: object) -> Job:
    description = json.loads((start / "model.json").read_text())
    job = tiny_job(kind, features, folder, **{**GENTLE, **changes})
    read_initial(start, kind).write(folder / "initial.ckpt")
    model = description["config"] | {"quantization": description["quantization"]}
    return dataclasses.replace(job, model=model, initial=str(folder / "initial.ckpt"))


def trainer(job: Job, run: Path, device: str = "cpu") -> Trainer:
    recipe = recipe_of(job)
    assert job.initial
    start_from(recipe, Path(job.initial), ALONE)
    return trainer_of(recipe, run, device=device)


def scales_of(training: Trainer) -> dict[str, float]:
    return {name: float(layer.input_scale) for name, layer in quantized(training.recipe.model).items()}


@pytest.mark.parametrize(("kind", "precision"), [("acoustic", "fp32"), ("vocoder", "bf16"), ("language_model", "fp32")])
def test_resumed_equals_uninterrupted(
    kind: str, precision: str, features: Path, int8: dict[str, Path], tmp_path: Path, alone: None
) -> None:
    job = job_of(kind, features, tmp_path, int8[kind], precision=precision)
    scales = scales_of(trainer(job, tmp_path / "start"))
    assert scales and all(scale != 1.0 for scale in scales.values()), "the scales of the start were not taken"
    assert scales_of(assert_resumes(lambda run: trainer(job, run), tmp_path, 4)) == scales


@pytest.mark.long
def test_two_ranks_follow_the_curve_of_one(features: Path, int8: dict[str, Path], tmp_path: Path) -> None:
    curves = []
    for ranks in (1, 2):
        training = Training("vocoder", features, tmp_path / str(ranks))
        training.job = job_of("vocoder", features, training.folder, int8["vocoder"], micro_batches_per_step=4)
        training.finish(ranks)
        curves.append(logged(training.run.path, "train/loss"))
    assert len(curves[0]) == 6
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-6)
    model, description = load_model(tmp_path / "2" / "model", "vocoder")
    assert set(quantized(model)) == set(description["quantization"]["layers"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["acoustic", "vocoder"])
def test_a_gpu_trains_int8_in_bf16(kind: str, features: Path, int8: dict, tmp_path: Path, alone: None) -> None:
    losses, job = [], job_of(kind, features, tmp_path, int8[kind], precision="bf16")
    for device in ("cpu", "cuda"):
        assert trainer(job, tmp_path / device, device).train() == "finished"
        losses.append(logged(tmp_path / device, "train/loss"))
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)


@pytest.mark.long
def test_the_stage_writes_both_models_and_says_which_way_each_went(features: Path, tmp_path: Path) -> None:
    for name in ("sonorant", "tasks", "dvc.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    sections = project_settings()
    few = {"calibration_utterances": 2, "sensitivity_utterances": 2, "steps": 2}
    sections["quantize"] |= few | {"max_loss": -100.0}  # no calibration satisfies it, so both models are trained
    sections["train_vocoder"]["adversarial_frames"] = 16  # of these features frames are short
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    folders = {kind: write_float(kind, features, tmp_path / "models" / kind) for kind in ("acoustic", "vocoder")}
    models = ["--predictor", folders["acoustic"], "--waveform", folders["vocoder"], "--features", features]
    outs = ["--runs", tmp_path / "runs", "--out", tmp_path / "quantized", "--report", tmp_path / "report.json"]
    command = [sys.executable, "-m", "tasks.quantize", *models, *outs]
    one = {"PET_NPROC_PER_NODE": "1", "OMP_NUM_THREADS": "1"}
    env = {**os.environ, **one, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    for role, kind in (("predictor", "acoustic"), ("waveform", "vocoder")):
        model, description = load_model(tmp_path / "quantized" / role, kind)
        assert description["quantization"]["method"] == report[role]["shipped"]
        assert quantized(model)
        assert report[role]["sentence"] in done.stdout
        assert set(report[role]["figures"]["qat"]) > {"above_float", "above_ptq"}, "it was trained"
        assert str(tmp_path) not in json.dumps(description["quantization"])
