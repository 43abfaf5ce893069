"""The codec is trained by the vocoder's recipe; what is its own: codebooks left out by the seed alone, and codes that
come to be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from benchmarks.world_size import CASES, FIRST_BOUND, FIRST_STEPS, curves, difference
from sonorant.data.codes import CodeStore, write_codes
from sonorant.families.codec_lm.codec import Codec
from sonorant.families.codec_lm.saved import load_codec
from sonorant.families.parallel.vocoder import Vocoder
from sonorant.models import save_model
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.step import TrainStep
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.trainer import Trainer
from tests.support.tiny_training import settings, tiny_recipe

ALONE = Ranks(0, 1, 0, torch.device("cpu"))


def test_losses_and_batches_are_the_vocoders(features: Path) -> None:
    codec, vocoder = tiny_recipe("codec", features), tiny_recipe("vocoder", features)
    assert isinstance(codec.model, Codec) and isinstance(vocoder.model, Vocoder)
    assert codec.phases[0].terms == vocoder.phases[0].terms
    planned = [recipe.plan.micro_batches(3) for recipe in (codec, vocoder)]
    for first, second in zip(*planned, strict=True):
        assert np.array_equal(first.items, second.items) and np.array_equal(first.starts, second.starts)
    assert codec.description()["kind"] == "codec"
    assert codec.description()["config"] == settings("codec")[0]


def test_two_ranks_follow_the_curve_of_one(features: Path, tmp_path: Path) -> None:
    """Which codebooks a row loses is drawn from the micro-batch's seed, so it is the same on any rank."""
    kind, changes = CASES["codec"]
    alone, together = (curves(kind, features, tmp_path / str(n), n, FIRST_STEPS, **changes) for n in (1, 2))
    assert difference(alone, together) < FIRST_BOUND


def test_all_weights_get_gradients_through_the_codes(features: Path, alone: None) -> None:
    recipe = tiny_recipe("codec", features)
    step = TrainStep(recipe, ALONE, Stopwatch())
    batches = recipe.plan.steps(0)[0]
    step.gradients(0, batches, iter(recipe.dataset(batches)))  # type: ignore[call-overload]
    silent = [
        name
        for name, weight in recipe.model.named_parameters()
        if weight.grad is None or not weight.grad.abs().max() > 0
    ]
    assert silent == []


def test_it_learns_and_its_codes_can_be_stored(features: Path, tmp_path: Path, alone: None) -> None:
    (tmp_path / "run").mkdir()
    recipe = tiny_recipe("codec", features, steps=30, validate_every=15)
    trainer = Trainer(recipe, ALONE, RunDirectory(tmp_path / "run"), "f")
    assert trainer.train() == "finished"
    rows = [row["metrics"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    mel = [row["train/mel"] for row in rows if "train/mel" in row]
    assert sum(mel[-5:]) < 0.9 * sum(mel[:5])
    save_model(tmp_path / "codec", trainer.trained.ema.module.state_dict(), recipe.description())
    codec, _ = load_codec(tmp_path / "codec")
    write_codes(tmp_path / "codes", "codec_lm", recipe.store, codec, "0" * 64)
    codes = CodeStore.open(tmp_path / "codes", recipe.store)
    assert (codes.codebooks, codes.codes_per_stream) == (2, 12)
    assert min(codes.report["use"]) > 0.2
