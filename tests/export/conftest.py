import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.export.bundling import Sources, export_variants
from sonorant.export.candidate import Trained
from sonorant.export.onnx_graph import ExportConfig
from sonorant.export.quantization.calibration import calibrate, set_scales
from sonorant.export.tolerance import VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.extras.codec_lm.saved import load_codec, load_language_model
from sonorant.families.parallel.saved import load_acoustic, load_vocoder
from sonorant.files import read_json, write_json
from sonorant.layers.kv_cache import DynamicCache
from sonorant.layers.model_folder import load_model, save_model
from sonorant.layers.quantized import quantizable, quantize_layers
from sonorant.speech.bundle import Bundle, read_bundle
from tasks.params import load
from tests.conftest import ROOT
from tests.support.runtimes import utterance
from tests.support.shared import made_once
from tests.support.tiny_voice import CORPUS, DECODING, write_trained_codec_lm

LAYERS = {"acoustic": ("encoder", "decoder"), "vocoder": ("enter", "stack", "out")}
"""Quantised parts of the models."""


def write_quantized(model: torch.nn.Module, source: Path, speak: Callable[[Any], Any], out: Path) -> Path:
    """Quantise the model in `source` into `out`, calibrated on the inputs that `speak` passes to it."""
    kind = source.name
    names = [name for name in quantizable(model) if name.startswith(LAYERS.get(kind, ""))]
    scales = calibrate(model, names, speak)
    copy, described = load_model(source, kind)
    quantize_layers(copy, scales)
    set_scales(copy, scales)
    save_model(out / kind, copy.state_dict(), described | {"quantization": {"layers": list(scales)}})
    return out / kind


UTTERANCES = [utterance(length) for length in (3, 6, 31)]


@dataclasses.dataclass(frozen=True)
class Parity:
    folder: Path
    trained: Trained
    quantized: Trained
    config: VerifyConfig

    @property
    def bundle(self) -> Bundle:
        return read_bundle(self.folder)

    def verify(self, bundle: Bundle, quantized: Trained | None = None, **settings: Any) -> dict[str, Any]:
        """Check all candidates of a bundle on three utterances, separately and together."""
        config = dataclasses.replace(self.config, **settings)
        return verify_voice(bundle, self.trained, UTTERANCES, config, quantized=quantized or self.quantized)

    def failures(self, bundle: Bundle, quantized: Trained | None = None, **settings: Any) -> dict[str, str]:
        report = self.verify(bundle, quantized, **settings).items()
        return {name: found["failed"] for name, found in report if isinstance(found, dict) and not found["passed"]}


@pytest.fixture(scope="session")
def export_config() -> ExportConfig:
    return load("export", ExportConfig, ROOT / "params.yaml")


@pytest.fixture(scope="session")
def verify_config() -> VerifyConfig:
    """`verify` of params.yaml; a tiny graph is mostly names, so int8 may be as large as fp32."""
    return dataclasses.replace(
        load("verify", VerifyConfig, ROOT / "params.yaml"), int8_size=1.0, runtimes=["onnxruntime", "torch"]
    )


@pytest.fixture(scope="session")
def quantized(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    (acoustic, _), (vocoder, _) = load_acoustic(trained[0]), load_vocoder(trained[1])
    tokens = torch.from_numpy(utterance(31))[None]

    def speak(_: Any) -> None:
        vocoder(*acoustic.synthesize(tokens, torch.tensor([31]), torch.zeros(1, dtype=torch.int64), torch.ones(1)))

    folder = tmp_path_factory.mktemp("quantized")
    return write_quantized(acoustic, trained[0], speak, folder), write_quantized(vocoder, trained[1], speak, folder)


@pytest.fixture(scope="session")
def exported(
    trained: Trained, quantized: Trained, export_config: ExportConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The bundle with fp32, fp16, bf16 and int8; read-only."""
    sources = Sources(*trained, quantized=quantized, utterances=UTTERANCES)

    def export(folder: Path) -> None:
        write_json(folder / "measured.json", export_variants(sources, folder / "variants", CORPUS, export_config))

    folder = made_once(tmp_path_factory, "variants", export)
    return folder / "variants", read_json(folder / "measured.json")


@pytest.fixture(scope="session")
def variants(exported: tuple[Path, dict[str, Any]]) -> Path:
    return exported[0]


@pytest.fixture(scope="session")
def trained_prompted(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A tiny codec language model that takes prompts, and its codec."""
    return write_trained_codec_lm(tmp_path_factory.mktemp("trained_prompted"), prompt_frames=4)


@pytest.fixture(scope="session")
def quantized_prompted(trained_prompted: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    (speech, _), (codec, _) = load_language_model(trained_prompted[0]), load_codec(trained_prompted[1])
    tokens, lengths = torch.from_numpy(utterance(31))[None], torch.tensor([31])
    codes_BFG = torch.randint(0, speech.codes, (1, 40, speech.codebooks), generator=torch.Generator().manual_seed(0))

    def speak(_: Any) -> None:
        cache = DynamicCache(speech.config.layers)
        states = speech.encode_speech(tokens, lengths, torch.zeros(1, dtype=torch.int64))
        speech.prefill(states, lengths, codes_BFG[:, :4], torch.tensor([4]), cache)
        for step in range(30):
            place = torch.tensor([step % 3]), torch.tensor([5 + step])
            speech.step(codes_BFG[:, step], states[:, step], *place, cache)

    folder = tmp_path_factory.mktemp("quantized_prompted")
    return (
        write_quantized(speech, trained_prompted[0], speak, folder),
        write_quantized(codec, trained_prompted[1], lambda model: model.decode(codes_BFG), folder),
    )


@pytest.fixture(scope="session")
def codec_lm_variants(
    trained_prompted: Trained,
    quantized_prompted: Trained,
    export_config: ExportConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The bundle of `trained_prompted` with fp32 and int8; read-only."""
    sources = Sources(*trained_prompted, quantized=quantized_prompted, decoding=DECODING)

    def export(folder: Path) -> None:
        export_variants(sources, folder / "variants", CORPUS, export_config)

    return made_once(tmp_path_factory, "codec_lm_variants", export) / "variants"


@pytest.fixture(scope="session")
def parallel(variants: Path, trained: Trained, quantized: Trained, verify_config: VerifyConfig) -> Parity:
    return Parity(variants, trained, quantized, verify_config)


@pytest.fixture(scope="session")
def codec_lm(
    codec_lm_variants: Path, trained_prompted: Trained, quantized_prompted: Trained, verify_config: VerifyConfig
) -> Parity:
    config = dataclasses.replace(verify_config, runtimes=["onnxruntime"])
    return Parity(codec_lm_variants, trained_prompted, quantized_prompted, config)


@pytest.fixture(params=["parallel", "codec_lm"])
def parity(request: pytest.FixtureRequest) -> Parity:
    voice: Parity = request.getfixturevalue(request.param)
    return voice
