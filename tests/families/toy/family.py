"""The toy family: each phoneme hums for a fixed number of frames, and each frame buzzes by itself."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.export.quantization.utterance_losses import WaveformJudge
from sonorant.families.family import Family, Hear, ModelKind
from sonorant.features.codes import write_no_codes
from sonorant.speech.bundle import VoiceDescription
from tests.families.toy.export import ToyCandidate, ToyModels
from tests.families.toy.models import BuzzerConfig, HummerConfig, build_buzzer, build_hummer
from tests.families.toy.training import BuzzerRecipe, BuzzerTrainConfig, HummerJudge, HummerRecipe, HummerTrainConfig
from tests.families.toy.voice import ToySpeaking, load_onnxruntime, load_torch


class HummerKind(ModelKind):
    name, title = "toy_hummer", "hummer"

    def sizes(self) -> type:
        return HummerConfig

    def settings(self) -> Any:
        return HummerTrainConfig

    def build(self, description: dict[str, Any]) -> Any:
        return build_hummer(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Any:
        return HummerRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: NDArray[np.int64]) -> Any:
        return HummerJudge(recipe, items)


class BuzzerKind(ModelKind):
    name, title = "toy_buzzer", "buzzer"

    def sizes(self) -> type:
        return BuzzerConfig

    def settings(self) -> Any:
        return BuzzerTrainConfig

    def build(self, description: dict[str, Any]) -> Any:
        return build_buzzer(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Any:
        return BuzzerRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: NDArray[np.int64]) -> Any:
        return WaveformJudge(recipe, items)


class Toy(Family):
    name = "toy"
    predictor, waveform = HummerKind(), BuzzerKind()
    graphs = ("hum", "buzz")
    autoregressive = False

    def loaders(self) -> Mapping[str, Callable[..., Any]]:
        return {"onnxruntime": load_onnxruntime, "torch": load_torch}

    def why_untimed(self, description: VoiceDescription) -> str:
        return ""

    def speaking(self, bundle: Any, runtime: Any) -> Any:
        return ToySpeaking(runtime, bundle.description)

    def models(self, predictor: Path, waveform: Path) -> Any:
        return ToyModels.load(predictor, waveform)

    def interface(self, description: Any) -> Any:
        return {
            "hum": ({"tokens": "int64", "lengths": "int64"}, {"mel": "float32", "frames": "int64"}),
            "buzz": ({"mel": "float32"}, {"samples": "float32"}),
        }

    def candidate(self) -> Any:
        return ToyCandidate

    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        return lambda mel_MT, samples_S: (mel_MT, mel_MT.shape[1])

    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        write_no_codes(out, self.name)


TOY = Toy()
