"""The toy family: each phoneme hums for a fixed number of frames, and each frame buzzes by itself."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.families.family import Family, Hear, ModelKind
from sonorant.speech.bundle import VoiceDescription


class Hummer(ModelKind):
    name, title = "toy_hummer", "hummer"

    def sizes(self) -> type:
        from tests.families.toy.models import HummerConfig

        return HummerConfig

    def settings(self) -> Any:
        from tests.families.toy.training import HummerTrainConfig

        return HummerTrainConfig

    def build(self, description: dict[str, Any]) -> Any:
        from tests.families.toy.models import build_hummer

        return build_hummer(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Any:
        from tests.families.toy.training import HummerRecipe

        return HummerRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: NDArray[np.int64]) -> Any:
        from tests.families.toy.training import HummerJudge

        return HummerJudge(recipe, items)


class Buzzer(ModelKind):
    name, title = "toy_buzzer", "buzzer"

    def sizes(self) -> type:
        from tests.families.toy.models import BuzzerConfig

        return BuzzerConfig

    def settings(self) -> Any:
        from tests.families.toy.training import BuzzerTrainConfig

        return BuzzerTrainConfig

    def build(self, description: dict[str, Any]) -> Any:
        from tests.families.toy.models import build_buzzer

        return build_buzzer(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Any:
        from tests.families.toy.training import BuzzerRecipe

        return BuzzerRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: NDArray[np.int64]) -> Any:
        from sonorant.export.quantization.utterance_losses import WaveformJudge

        return WaveformJudge(recipe, items)


class Toy(Family):
    name = "toy"
    predictor, waveform = Hummer(), Buzzer()
    graphs = ("hum", "buzz")
    autoregressive = False

    def loaders(self) -> Mapping[str, Callable[..., Any]]:
        from tests.families.toy.voice import load_onnxruntime, load_torch

        return {"onnxruntime": load_onnxruntime, "torch": load_torch}

    def why_untimed(self, description: VoiceDescription) -> str:
        return ""

    def speaking(self, bundle: Any, runtime: Any) -> Any:
        from tests.families.toy.voice import ToySpeaking

        return ToySpeaking(runtime, bundle.description)

    def models(self, predictor: Path, waveform: Path) -> Any:
        from tests.families.toy.export import ToyModels

        return ToyModels.load(predictor, waveform)

    def interface(self, description: Any) -> Any:
        return {
            "hum": ({"tokens": "int64", "lengths": "int64"}, {"mel": "float32", "frames": "int64"}),
            "buzz": ({"mel": "float32"}, {"samples": "float32"}),
        }

    def candidate(self) -> Any:
        from tests.families.toy.export import ToyCandidate

        return ToyCandidate

    def expect(self, bundle: Any, trained: Any, utterances: Sequence[NDArray[np.integer]], name: str) -> Any:
        from tests.families.toy.export import expect

        return expect(bundle, trained, utterances, name)

    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        return lambda mel_MT, samples_S: (mel_MT, mel_MT.shape[1])

    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        from sonorant.features.codes import write_no_codes

        write_no_codes(out, self.name)


TOY = Toy()
