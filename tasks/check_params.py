"""Check every section of params.yaml before anything runs: what a stage would refuse in an hour is refused now."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.audio.mel import MelConfig
from sonorant.choice import ChooseConfig
from sonorant.data.corpora import CorpusConfig
from sonorant.data.preparation import PrepareConfig
from sonorant.decoding.settings import DecodingConfig
from sonorant.evaluation.evaluation import EvaluateConfig
from sonorant.evaluation.recognizers import RecognizerConfig
from sonorant.export.onnx import ExportConfig
from sonorant.export.tolerance import VerifyConfig
from sonorant.families.codec_lm.codec import CodecConfig
from sonorant.families.codec_lm.language_model import LanguageModelConfig
from sonorant.families.codec_lm.pretrained_codec import check_pretrained, refuse_without_graph
from sonorant.families.codec_lm.training import CodecTrainConfig, LanguageModelTrainConfig
from sonorant.families.family import VoiceConfig
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.training import AcousticTrainConfig
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.quantization.quantize import QuantizeConfig
from sonorant.registry import PromoteConfig, RegisterConfig
from sonorant.report.page import ReportConfig
from sonorant.tensorrt.key import EngineConfig
from sonorant.text import TextConfig
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.waveform import VocoderTrainConfig
from tasks import params
from tasks.stage import run

OWNERS: dict[str, type] = {
    "voice": VoiceConfig,
    "corpus": CorpusConfig,
    "text": TextConfig,
    "prepare": PrepareConfig,
    "audio": MelConfig,
    "vocoder": VocoderConfig,
    "train_vocoder": VocoderTrainConfig,
    "codec": CodecConfig,
    "train_codec": CodecTrainConfig,
    "language_model": LanguageModelConfig,
    "train_language_model": LanguageModelTrainConfig,
    "acoustic": AcousticConfig,
    "train_acoustic": AcousticTrainConfig,
    "decoding": DecodingConfig,
    "data": DataConfig,
    "machine": MachineConfig,
    "quantize": QuantizeConfig,
    "export": ExportConfig,
    "verify": VerifyConfig,
    "recognizer": RecognizerConfig,
    "evaluate": EvaluateConfig,
    "engine": EngineConfig,
    "choose": ChooseConfig,
    "report": ReportConfig,
    "register": RegisterConfig,
    "promote": PromoteConfig,
}


def check(path: Path = params.PARAMS) -> None:
    """Raise SonorantError naming the first key that is unknown, missing, of the wrong type or contradictory.

    The configuration of a pretrained codec is read too, from its folder or hub.
    """
    for section, owner in OWNERS.items():
        params.load(section, owner, path)
    codec = params.load("codec", CodecConfig, path)
    if codec.pretrained and params.load("voice", VoiceConfig, path).family == "codec_lm":
        found = check_pretrained(codec.pretrained, params.load("audio", MelConfig, path), codec.codebooks)
        refuse_without_graph(codec.pretrained, found)


def main() -> None:
    """Check the file and say that it is in order."""
    parser = argparse.ArgumentParser(prog="python -m tasks.check_params", description=__doc__)
    parser.add_argument("params", type=Path, nargs="?", default=params.PARAMS, help="the file (default params.yaml)")
    path = parser.parse_args().params
    check(path)
    print(f"{path}: all {len(OWNERS)} sections are in order")


if __name__ == "__main__":
    run(main)
