"""A training small enough to be run many times: its features, settings and job. Knows nothing of what is measured with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.synthetic_corpus import TINY, write_corpus
from sonorant.training.worker import Job


def tiny_features(folder: Path) -> Path:
    """Make a feature store of 20 utterances of 1.0 to 1.6 s in `folder`, 16 of them to train on."""
    write_corpus(folder / "features", TINY, 20, (1.0, 1.6))
    return folder / "features"


def tiny_job(kind: str, features: Path, folder: Path, **changes: Any) -> Job:
    """Training of a tiny model of `kind` in `folder`, with `changes` to its settings."""
    model, train = settings(kind, **changes)
    return Job(
        recipe=kind,
        model=model,
        train=train,
        features=str(features),
        run=str(folder / "run"),
        out=str(folder / "model"),
        fingerprint="tiny",
        provenance={},
    )


def settings(kind: str, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Model and training settings of a tiny model of `kind` (acoustic or vocoder)."""
    train: dict[str, Any] = {
        "steps": 8, "micro_batches_per_step": 2, "learning_rate": 2e-3, "warmup_steps": 2, "weight_decay": 0.01, "clip_norm": 1.0,
        "ema_decay": 0.9, "precision": "fp32", "seed": 1, "validate_every": 4, "checkpoint_every": 2, "log_every": 1,
        "init_from": None,
        "activation_checkpointing": False, "compile": False,
    }  # fmt: skip
    model: dict[str, Any]
    if kind == "acoustic":
        model = {"decoder": "regression", "channels": 16, "expansion": 2, "encoder_blocks": 1, "encoder_kernel": 3,
                 "decoder_blocks": 2, "decoder_kernel": 3, "dropout": 0.1, "flow_steps": 2}  # fmt: skip
        train |= {"frames_per_micro_batch": 800, "diagonal_steps": 4}
    else:
        model = {"channels": 16, "expansion": 2, "blocks": 2, "kernel": 3}
        train |= {"segments_per_micro_batch": 4, "segment_frames": 32, "adversarial": False}
    return {**model, **{k: v for k, v in changes.items() if k in model}}, {
        **train,
        **{k: v for k, v in changes.items() if k in train},
    }
