"""A tiny voice in every precision, exported once for all tests."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.export.onnx import ExportConfig
from sonorant.export.tolerance import VerifyConfig
from sonorant.export.voice import Sources, export_variants
from sonorant.files import read_json
from sonorant.models.quantized import quantizable, quantize_layers
from sonorant.models.saved import load_acoustic, load_vocoder, save_model
from sonorant.quantization.calibration import calibrate, set_scales
from tasks.params import load
from tests.conftest import ROOT
from tests.tiny_voice import CORPUS

LAYERS = {"acoustic": ("encoder", "decoder"), "vocoder": ("enter", "stack", "out")}
"""Which parts of the two models are quantised."""


def utterance(length: int) -> np.ndarray:
    """Random tokens (length, 3) between a start and an end symbol."""
    rng = np.random.default_rng(length)
    tokens = np.stack([rng.integers(3, 40, length), rng.integers(0, 3, length), rng.integers(0, 2, length)], 1)
    tokens[[0, -1]] = [[1, 0, 0], [2, 0, 0]]
    return tokens


UTTERANCES = [utterance(length) for length in (3, 6, 31)]


@pytest.fixture(scope="session")
def export_config() -> ExportConfig:
    """The settings of export in params.yaml."""
    return load("export", ExportConfig, ROOT / "params.yaml")


@pytest.fixture(scope="session")
def verify_config() -> VerifyConfig:
    """The settings of verify in params.yaml; a tiny graph is mostly names, so int8 may be as large as fp32."""
    return dataclasses.replace(load("verify", VerifyConfig, ROOT / "params.yaml"), int8_size=1.0, runtimes=["onnxruntime", "torch"])


@pytest.fixture(scope="session")
def quantized(trained: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """`trained`, quantised after calibration on what it says itself."""
    folder = tmp_path_factory.mktemp("quantized")
    (acoustic, _), (vocoder, _) = load_acoustic(trained[0]), load_vocoder(trained[1])
    tokens = torch.from_numpy(utterance(31))[None]

    def speak(_: Any) -> None:
        vocoder(*acoustic.synthesize(tokens, torch.tensor([31]), torch.zeros(1, dtype=torch.int64), torch.ones(1)))

    for model, source in ((acoustic, trained[0]), (vocoder, trained[1])):
        kind = source.name
        names = [name for name in quantizable(model) if name.startswith(LAYERS[kind])]
        scales = calibrate(model, names, speak)
        described = read_json(source / "model.json") | {"quantization": {"layers": names}}
        copy = (load_acoustic if kind == "acoustic" else load_vocoder)(source)[0]
        quantize_layers(copy, names)
        set_scales(copy, scales)
        save_model(folder / kind, copy.state_dict(), described)
    return folder / "acoustic", folder / "vocoder"


@pytest.fixture(scope="session")
def exported(
    trained: tuple[Path, Path], quantized: tuple[Path, Path], export_config: ExportConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The bundle with fp32, fp16, bf16 and int8, and what was measured for it; copy it, do not change it."""
    bundle = tmp_path_factory.mktemp("exported") / "variants"
    sources = Sources(*trained, quantized=quantized, utterances=UTTERANCES)
    return bundle, export_variants(sources, bundle, CORPUS, export_config)


@pytest.fixture(scope="session")
def variants(exported: tuple[Path, dict[str, Any]]) -> Path:
    """The bundle alone."""
    return exported[0]
