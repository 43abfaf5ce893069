"""Family codec_lm: a language model produces a codec's codes frame by frame, and the codec turns them into samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonorant.audio.arrays import Ints
from sonorant.families.family import Family, Hear, ModelKind

if TYPE_CHECKING:
    from torch import nn

    from sonorant.audio.mel import MelConfig
    from sonorant.export.bundling import Models
    from sonorant.export.candidate import Candidate
    from sonorant.export.graph_files import Interface
    from sonorant.export.quantization.utterance_losses import Judge
    from sonorant.extras.codec_lm.decoding.session import TokenRuntime
    from sonorant.speech.bundle import Bundle, VoiceDescription
    from sonorant.speech.runtimes import LoadOptions
    from sonorant.speech.speaking import Speaking
    from sonorant.training.config import TrainConfig
    from sonorant.training.recipe import Recipe


class LanguageModel(ModelKind):
    name, title = "language_model", "language model"
    learns_codes = True

    def sizes(self) -> type:
        from sonorant.extras.codec_lm.language_model import LanguageModelConfig

        return LanguageModelConfig

    def settings(self) -> type[TrainConfig]:
        from sonorant.extras.codec_lm.language_model_training import LanguageModelTrainConfig

        return LanguageModelTrainConfig

    def build(self, description: dict[str, Any]) -> nn.Module:
        from sonorant.extras.codec_lm.saved import build_language_model

        return build_language_model(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        from sonorant.extras.codec_lm.language_model_training import LanguageModelRecipe

        assert codes is not None
        return LanguageModelRecipe(model, train, features, codes)

    def judge(self, recipe: Any, model: Any, items: Ints) -> Judge:
        from sonorant.extras.codec_lm.judge import LanguageModelJudge

        return LanguageModelJudge(recipe, model, items)


class Codec(ModelKind):
    name, title = "codec", "codec"
    why_no_qat = "a codec is not trained further, because a language model was trained on its codes"

    def sizes(self) -> type:
        from sonorant.extras.codec_lm.codec import CodecConfig

        return CodecConfig

    def settings(self) -> type[TrainConfig]:
        from sonorant.extras.codec_lm.codec_training import CodecTrainConfig

        return CodecTrainConfig

    def build(self, description: dict[str, Any]) -> nn.Module:
        from sonorant.extras.codec_lm.saved import build_codec

        return build_codec(description)

    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        from sonorant.extras.codec_lm.codec_training import CodecRecipe

        return CodecRecipe(model, train, features)

    def judge(self, recipe: Any, model: Any, items: Ints) -> Judge:
        from sonorant.extras.codec_lm.judge import CodecJudge

        return CodecJudge(recipe, items)

    def check(self, sizes: Any, audio: MelConfig) -> None:
        if sizes.pretrained:
            from sonorant.extras.codec_lm.pretrained_codec import check_pretrained

            check_pretrained(sizes.pretrained, audio, sizes.codebooks)

    def pretrained(self, sizes: Any) -> str | None:
        named: str | None = sizes.pretrained
        return named

    def take(self, sizes: Any, features: Path, out: Path, provenance: dict[str, Any]) -> None:
        from sonorant.extras.codec_lm.codec_stage import take_codec

        take_codec(sizes, features, out, provenance)


class CodecLm(Family):
    name = "codec_lm"
    predictor, waveform = LanguageModel(), Codec()
    graphs = ("encoder", "prefill", "step", "decoder", "vocoder")
    optional_graphs = ("decoder",)  # only for codecs with a source
    waveform_graphs = ("decoder", "vocoder")
    autoregressive = True

    def loaders(self) -> Mapping[str, Callable[[Bundle, LoadOptions], Any]]:
        return {
            "onnxruntime": load_onnxruntime,
            "onnxruntime-cuda": partial(load_onnxruntime, device="cuda"),
            "torch": load_torch,
            "torch-static": partial(load_torch, way="static"),
            "torch-compiled": partial(load_torch, way="compiled"),
            "torch-cuda": partial(load_torch, device="cuda"),
            "torch-cuda-compiled": partial(load_torch, way="compiled", device="cuda"),
            "torch-cuda-graphs": partial(load_torch, way="recorded", device="cuda"),
        }

    def why_untimed(self, description: VoiceDescription) -> str:
        return ""

    def speaking(self, bundle: Bundle, runtime: Any) -> Speaking:
        from sonorant.extras.codec_lm.synthesis import CodecLmSpeaking

        return CodecLmSpeaking(runtime, bundle.description)

    def prompt(self, recording: Path, bundle: Bundle) -> Ints:
        from sonorant.extras.codec_lm.synthesis import codes_of

        return codes_of(recording, bundle)

    def models(self, predictor: Path, waveform: Path) -> Models:
        from sonorant.extras.codec_lm.graphs import CodecLanguageModels

        return CodecLanguageModels.load(predictor, waveform)

    def interface(self, description: VoiceDescription) -> Interface:
        from sonorant.extras.codec_lm.sounding import has_source

        assert description.decoding is not None
        layers = range(description.decoding.layers)
        cache = {f"{side}_{layer}": "float32" for side in ("key", "value") for layer in layers}
        step = {"codes": "int64", "state": "float32", "age": "int64", "position": "int64", "slot_position": "int64"}
        prompt = {"prompt": "int64", "prompt_lengths": "int64"}
        new = {f"new_{name}": "float32" for name in cache}
        codes = {"codes": "int64", "lengths": "int64"}
        sound = {
            "decoder": (codes, {"frames": "float32"}),
            "vocoder": ({"frames": "float32", "lengths": "int64"}, {"samples": "float32"}),
        }
        return {
            "encoder": ({"tokens": "int64", "lengths": "int64", "speaker": "int64"}, {"states": "float32"}),
            "prefill": ({"states": "float32", "lengths": "int64", **prompt}, {**cache, "position": "int64"}),
            "step": ({**step, **cache}, {"logits": "float32", "advance": "float32", **new}),
            **(sound if has_source(description) else {"vocoder": (codes, {"samples": "float32"})}),
        }

    def candidate(self) -> type[Candidate]:
        from sonorant.extras.codec_lm.parity import TokenCandidate

        return TokenCandidate

    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        from sonorant.extras.codec_lm.codec_stage import hearing

        return hearing(waveform, description.audio)

    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        from sonorant.extras.codec_lm.codec_stage import encode_corpus

        encode_corpus(waveform, features, out, self.name)


def load_onnxruntime(bundle: Bundle, options: LoadOptions, device: str = "cpu") -> TokenRuntime:
    from sonorant.extras.codec_lm.onnx_runtime import OnnxTokenRuntime

    decoding = bundle.description.decoding
    assert decoding is not None
    graphs = {graph: bundle.graph_file(graph, options.variant) for graph in bundle.graphs}
    return OnnxTokenRuntime(graphs, decoding, threads=options.threads, device=device)


def load_torch(bundle: Bundle, options: LoadOptions, **how: Any) -> TokenRuntime:
    from sonorant.extras.codec_lm.torch_runtime import load_tokens

    assert options.trained is not None
    return load_tokens(options.trained, bundle.description, options, **how)


CODEC_LM = CodecLm()
