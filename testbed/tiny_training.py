"""A training small enough to be run many times: its features, settings and job."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.plugins import family_names, load_family, model_kind
from sonorant.training.recipe import Recipe
from sonorant.training.worker import Job, recipe_of
from testbed.synthetic_corpus import TINY, write_corpus

RECIPES = [kind.name for family in family_names() for kind in load_family(family).kinds]
"""The kinds of model of every family."""


def tiny_features(folder: Path) -> Path:
    """Make a feature store of 20 utterances of 1.0 to 1.6 s in `folder`, 16 of them to train on."""
    write_corpus(folder / "features", TINY, 20, (1.0, 1.6))
    return folder / "features"


def tiny_codec(store: FeatureStore) -> Codec:
    """A codec of the features' sound that has not learned to speak."""
    sizes = CodecConfig(
        channels=16, expansion=2, kernel=3, encoder_blocks=1, decoder_blocks=1, stride=2, codebooks=2,
        levels=[3, 3], codebook_dropout=0.0, pretrained=None,
    )  # fmt: skip
    torch.manual_seed(1)
    return Codec(sizes, mels=store.audio.n_mels, n_fft=store.audio.n_fft, hop=store.audio.hop).eval()


def tiny_codes(features: Path) -> Path:
    """The token store beside `features`, made there by `tiny_codec` if it is not yet."""
    out = features.with_name(f"{features.name}-codes")
    if not out.exists():
        store = FeatureStore.open(features)
        write_codes(out, "codec_lm", store, tiny_codec(store), "of a codec never saved")
    return out


def tiny_recipe(kind: str, features: Path, /, **changes: Any) -> Recipe:
    """The recipe of `tiny_job`."""
    return recipe_of(tiny_job(kind, features, features.parent, **changes))


def tiny_job(kind: str, features: Path, folder: Path, /, **changes: Any) -> Job:
    """Training of a tiny model of `kind` in `folder`, with `changes` to its settings."""
    model, train = settings(kind, **changes)
    return Job(
        recipe=kind,
        model=model,
        train=train,
        features=str(features),
        codes=str(tiny_codes(features)) if kind == "language_model" else None,
        run=str(folder / "run"),
        out=str(folder / "model"),
        fingerprint="tiny",
        provenance={},
    )


def settings(kind: str, /, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Model and training settings of a tiny model of `kind`."""
    train: dict[str, Any] = {
        "steps": 8, "micro_batches_per_step": 2, "learning_rate": 2e-3, "warmup_steps": 2, "weight_decay": 0.01,
        "clip_norm": 1.0, "ema_decay": 0.9, "precision": "fp32", "seed": 1, "validate_every": 4, "checkpoint_every": 2,
        "log_every": 1, "init_from": None, "activation_checkpointing": False, "compile": False,
        "learning_rate_batch": None,
    }  # fmt: skip
    model: dict[str, Any] = {"channels": 16, "expansion": 2}
    if kind == "acoustic":
        model |= {"decoder": "regression", "encoder_blocks": 1, "encoder_kernel": 3, "decoder_blocks": 2}
        model |= {"decoder_kernel": 3, "dropout": 0.1, "flow_steps": 2}
        model |= {"prior_kernel": 0, "prosody_temperature": 1.0}
        model["prosody_dropout"] = changes.get("dropout", 0.1)
        train |= {"frames_per_micro_batch": 800, "diagonal_steps": 4}
    elif kind == "language_model":
        model |= {"encoder_blocks": 1, "encoder_kernel": 3, "layers": 2, "heads": 2, "feed_forward": 24, "dropout": 0.1}
        model |= {"attention": "full", "window": 16, "most_advance": 3, "prompt_frames": 0, "prior_kernel": 0}
        train |= {"frames_per_micro_batch": 800, "diagonal_steps": 4, "corruption": 0.1}
    elif kind == "codec":
        model |= {"kernel": 3, "encoder_blocks": 1, "decoder_blocks": 2, "stride": 2, "codebooks": 2, "levels": [4, 3]}
        model |= {"codebook_dropout": 0.3, "pretrained": None}
    else:
        model |= {"kind": "source_filter", "blocks": 2, "kernel": 3}
    if kind not in ("acoustic", "language_model"):
        train |= {
            "segments_per_micro_batch": 4,
            "segment_frames": 32,
            "adversarial": False,
            "adversarial_width": 32,
            "adversarial_frames": 32,
            "adversarial_share": 1.0,
        }
    sizes, known = (
        {field.name for field in fields(of())} for of in (model_kind(kind).sizes, model_kind(kind).settings)
    )
    model_changes = {name: value for name, value in changes.items() if name in sizes or name == "quantization"}
    return model | model_changes, train | {name: value for name, value in changes.items() if name in known}
