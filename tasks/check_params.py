"""Check every section of params.yaml before anything runs: what a stage would refuse in an hour is refused now."""

import argparse
from pathlib import Path
from typing import Any

from sonorant.audio.conditioning import ConditionConfig
from sonorant.audio.mel import MelConfig
from sonorant.audio.recognizers import RecognizerConfig
from sonorant.corpus.audit.audit import AuditConfig
from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.preparation import PrepareConfig
from sonorant.corpus.short_clips import FeaturesConfig
from sonorant.errors import SonorantError
from sonorant.evaluation.evaluation import EvaluateConfig
from sonorant.evaluation.report.report_page import ReportConfig
from sonorant.export.choice import ChooseConfig
from sonorant.export.onnx_graph import ExportConfig
from sonorant.export.quantization.quantize import QuantizeConfig
from sonorant.export.tolerance import VerifyConfig
from sonorant.extras.tensorrt.key import EngineConfig
from sonorant.families.family import VoiceConfig
from sonorant.features.store import StoreConfig
from sonorant.plugins import all_kinds, load_family
from sonorant.registry import PromoteConfig, RegisterConfig
from sonorant.speech.decoding import DecodingConfig
from sonorant.text import TextConfig
from sonorant.training.config import DataConfig, MachineConfig
from tasks import params
from tasks.stage import run

OWNERS: dict[str, type] = {
    "voice": VoiceConfig,
    "corpus": CorpusConfig,
    "text": TextConfig,
    "prepare": PrepareConfig,
    "audit": AuditConfig,
    "features": FeaturesConfig,
    "store": StoreConfig,
    "condition": ConditionConfig,
    "audio": MelConfig,
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
"""Section -> the dataclass that owns it; those of the families' models come to these."""


def owners() -> dict[str, type]:
    """Every section with the dataclass that owns it."""
    kinds = all_kinds()
    sizes = {name: kind.sizes() for name, kind in kinds.items()}
    return OWNERS | sizes | {f"train_{name}": kind.settings() for name, kind in kinds.items()}


def check(path: Path = params.PARAMS) -> None:
    """Raise SonorantError naming the first key that is unknown, missing, of the wrong type or contradictory.

    The models of the voice's own family are checked as a whole too: a pretrained one must be there and fit.
    """
    for section, owner in owners().items():
        params.load(section, owner, path)
    family = load_family(params.load("voice", VoiceConfig, path).family)
    sizes: list[Any] = [params.load(kind.name, kind.sizes(), path) for kind in family.kinds]
    for kind, of_kind in zip(family.kinds, sizes, strict=True):
        kind.check(of_kind, params.load("audio", MelConfig, path))
    try:
        family.check_pair(*sizes)
    except SonorantError as error:
        raise SonorantError(f"{path}: {error}") from None


def main() -> None:
    """Check the file and say that it is in order."""
    parser = argparse.ArgumentParser(prog="python -m tasks.check_params", description=__doc__)
    parser.add_argument("params", type=Path, nargs="?", default=params.PARAMS, help="the file (default params.yaml)")
    path = parser.parse_args().params
    check(path)
    print(f"{path}: all {len(owners())} sections are in order")


if __name__ == "__main__":
    run(main)
