"""The `parallel` family: an acoustic model computes the whole mel in one pass, and a vocoder turns it into samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.families.family import Family, Hear, ModelKind

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

    from sonorant.export.bundling import Models
    from sonorant.export.candidate import Candidate
    from sonorant.export.graph_files import Interface
    from sonorant.export.quantization.utterance_losses import Judge
    from sonorant.speech.bundle import Bundle, VoiceDescription
    from sonorant.speech.runtimes import LoadOptions
    from sonorant.speech.speaking import Speaking
    from sonorant.training.config import TrainConfig
    from sonorant.training.recipe import Recipe


class Acoustic(ModelKind):
    name, title = "acoustic", "acoustic model"

    def sizes(self) -> type:
        from sonorant.families.parallel.acoustic import AcousticConfig

        return AcousticConfig

    def settings(self) -> type[TrainConfig]:
        from sonorant.families.parallel.acoustic_training import AcousticTrainConfig

        return AcousticTrainConfig

    def build(self, description: dict[str, Any]) -> nn.Module:
        from sonorant.families.parallel.saved import build_acoustic

        return build_acoustic(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        from sonorant.families.parallel.acoustic_training import AcousticRecipe

        return AcousticRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: Ints) -> Judge:
        from sonorant.families.parallel.judge import AcousticJudge

        return AcousticJudge(recipe, model, items)


class Vocoder(ModelKind):
    name, title = "vocoder", "vocoder"

    def sizes(self) -> type:
        from sonorant.families.parallel.vocoder import VocoderConfig

        return VocoderConfig

    def settings(self) -> type[TrainConfig]:
        from sonorant.families.parallel.acoustic_training import VocoderTrainConfig

        return VocoderTrainConfig

    def build(self, description: dict[str, Any]) -> nn.Module:
        from sonorant.families.parallel.saved import build_vocoder

        return build_vocoder(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        from sonorant.families.parallel.acoustic_training import VocoderRecipe

        return VocoderRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: Ints) -> Judge:
        from sonorant.export.quantization.utterance_losses import WaveformJudge

        return WaveformJudge(recipe, items)


class Parallel(Family):
    """Family that computes all frames of a sentence together, with predicted lengths."""

    name = "parallel"
    predictor, waveform = Acoustic(), Vocoder()
    graphs = ("encoder", "decoder", "vocoder")
    autoregressive = False

    def loaders(self) -> Mapping[str, Callable[[Bundle, LoadOptions], Any]]:
        from sonorant.families.parallel.runtimes import LOADERS

        return LOADERS

    def why_untimed(self, description: VoiceDescription) -> str:
        return ""

    def speaking(self, bundle: Bundle, runtime: Any) -> Speaking:
        from sonorant.families.parallel.synthesis import ParallelSpeaking

        return ParallelSpeaking(runtime, bundle.description)

    def models(self, predictor: Path, waveform: Path) -> Models:
        from sonorant.families.parallel.graphs import ParallelModels

        return ParallelModels.load(predictor, waveform)

    def whole_graph(self, bundle: Bundle, variant: str | None = None) -> ModelProto:
        from sonorant.families.parallel.whole_graph import whole_graph

        return whole_graph(bundle, variant)

    def interface(self, description: VoiceDescription) -> Interface:
        text = {"tokens": "int64", "lengths": "int64", "speaker": "int64"}
        return {
            "encoder": (
                text | {"speed": "float32", "pitch": "float32", "energy": "float32"},
                {"states": "float32", "ends": "int64"},
            ),
            "decoder": ({"states": "float32", "ends": "int64", "time": "int64"}, {"mel": "float32"}),
            "vocoder": ({"mel": "float32", "lengths": "int64"}, {"samples": "float32"}),
        }

    def candidate(self) -> type[Candidate]:
        from sonorant.families.parallel.parity import ParallelCandidate

        return ParallelCandidate

    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        from sonorant.audio.pitch import SourceRows, track_pitch

        rate, hop = description.audio.sample_rate, description.audio.hop

        def frames_of(mel_MT: Floats, samples_S: Floats) -> tuple[Floats, int]:
            frames = mel_MT.shape[1]
            known_DT = np.concatenate([mel_MT, track_pitch(samples_S, rate, hop, frames).T])
            return SourceRows(rate, hop).append(known_DT[None])[0], frames

        return frames_of

    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        from sonorant.features.codes import write_no_codes

        write_no_codes(out, self.name)


PARALLEL = Parallel()
