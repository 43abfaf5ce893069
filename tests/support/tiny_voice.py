"""Voices with random weights, small enough to export in seconds."""

from pathlib import Path
from typing import Any

import torch

from sonorant.files import sha256_file
from sonorant.layers.model_folder import build, save_model
from sonorant.speech.bundle import Lengths
from sonorant.speech.decoding import DecodingConfig
from sonorant.text import frontend_description, load_frontend

AUDIO = {"sample_rate": 16000, "n_fft": 1024, "hop": 256, "n_mels": 20, "f_min": 0.0, "f_max": 8000.0}
CORPUS = Lengths(tokens=(3, 20, 60, 120), frames=(8, 80, 240, 480))
"""As if from a corpus."""
DECODING = DecodingConfig(
    temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0, repetition_window=16, advance="median", budget=2.0,
    longest_phoneme=1.5, longest_silence=2.0, longest_repeat=1.0, retries=2,
)  # fmt: skip
"""Greedy, as in params.yaml."""


def write_trained(folder: Path, decoder: str = "regression", audio: dict[str, Any] | None = None) -> tuple[Path, Path]:
    """Write trained folders of an acoustic model with two speakers and of a vocoder; always the same weights. A flow
    also predicts prosody."""
    common = _common(audio or AUDIO)
    sizes = {
        "decoder": decoder, "channels": 16, "expansion": 2, "encoder_blocks": 1, "encoder_kernel": 5,
        "decoder_blocks": 2, "decoder_kernel": 7, "dropout": 0.05, "flow_steps": 2, "prosody_kind": decoder,
        "prior_kernel": 0,
    }  # fmt: skip
    acoustic = {**common, "kind": "acoustic", "config": sizes}
    sizes = {"kind": "source_filter", "channels": 16, "expansion": 2, "blocks": 1, "kernel": 7}
    vocoder = {**common, "kind": "vocoder", "config": sizes}
    torch.manual_seed(0)
    for description in (acoustic, vocoder):
        save_model(folder / description["kind"], build(description).state_dict(), description)
    return folder / "acoustic", folder / "vocoder"


def write_trained_codec_lm(
    folder: Path, *, seed: int = 0, kind: str = "source_filter", **changes: Any
) -> tuple[Path, Path]:
    """Write trained folders of a language model with two speakers and of its codec, of `kind` and with 2 codebooks
    of 15 codes, with weights fixed by the arguments. `changes`: settings of the language model."""
    common = _common(AUDIO)
    sizes = {
        "kind": kind, "channels": 16, "expansion": 2, "kernel": 5, "encoder_blocks": 1, "decoder_blocks": 1,
        "frame_blocks": 1, "stride": 2, "codebooks": 2, "levels": [5, 3], "codebook_dropout": 0.2, "pretrained": None,
    }  # fmt: skip
    codec = {**common, "kind": "codec", "config": sizes}
    config = {
        "channels": 16, "expansion": 2, "encoder_blocks": 1, "encoder_kernel": 5, "layers": 2, "heads": 2,
        "feed_forward": 24, "dropout": 0.05,
        "attention": "full", "window": 8, "most_advance": 2, "prompt_frames": 0,
    }  # fmt: skip
    torch.manual_seed(seed)
    save_model(folder / "codec", build(codec).state_dict(), codec)
    language_model = {
        **common,
        "kind": "language_model",
        "config": config | changes,
        "codec": {"codebooks": 2, "codes": 15, "stride": 2, "sha256": sha256_file(folder / "codec" / "weights.pt")},
        "pace": {"frames_per_phoneme": {"median": 2.0, "p99": 4.0}},
    }
    torch.manual_seed(seed)  # so that its weights do not depend on the codec's size
    model = build(language_model)
    with torch.no_grad():
        # initial logits hardly differ; larger weights make speech depend on its context
        for layer in model.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.weight *= 3.0
    save_model(folder / "language_model", model.state_dict(), language_model)
    return folder / "language_model", folder / "codec"


def _common(audio: dict[str, Any]) -> dict[str, Any]:
    """Common content of `model.json`."""
    frontend = load_frontend("gruut", "en-us")
    return {
        "audio": audio,
        "symbols": list(frontend.symbols),
        "speakers": ["anna", "ben"],
        "frontend": frontend_description(frontend),
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "provenance": {"git_commit": "0" * 40, "data_hash": "1" * 64, "steps": 0},
    }
