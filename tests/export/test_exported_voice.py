from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from sonorant.audio.mel import MelConfig, log_mel
from sonorant.audio.pitch import ROWS, SOURCE_ROWS, SourceRows, track_pitch
from sonorant.errors import SonorantError
from sonorant.evaluation.renderings import copier
from sonorant.export.bundling import Sources, export_variants, export_voice, read_tensors
from sonorant.export.onnx_graph import ExportConfig
from sonorant.export.tolerance import VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.extras.tensorrt.rules import check_graph
from sonorant.families.parallel.prosody import PROSODY
from sonorant.families.parallel.saved import load_vocoder
from sonorant.speech.bundle import read_bundle
from sonorant.speech.voice import Voice
from tests.support.runtimes import utterance
from tests.support.tiny_voice import AUDIO, CORPUS, write_trained

CONFIG = ExportConfig(opset=20)


def test_flow_decoder_equals_torch_and_keeps_tensorrts_rules(
    flow_bundle: Path, trained_flow: tuple[Path, Path], verify_config: VerifyConfig
) -> None:
    verify_voice(read_bundle(flow_bundle), trained_flow, [utterance(n) for n in (3, 20, 61)], verify_config)
    assert check_graph(flow_bundle / "decoder.fp32.onnx") == []


def test_float_models_are_refused_as_int8(trained: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match="acoustic: no layer of this model is quantised"):
        export_variants(Sources(*trained, quantized=trained), tmp_path / "voice", CORPUS, CONFIG)
    assert not (tmp_path / "voice").exists()


def test_variants_share_their_interface_keep_tensorrts_rules_and_halves_are_half(variants: Path) -> None:
    description = read_bundle(variants).description
    for name, graph in description.graphs.items():
        assert list(graph.variants) == ["fp32", "fp16", "bf16", "int8"]
        assert graph.default_variant == "fp32"
        for variant in graph.variants:
            assert read_tensors(variants / f"{name}.{variant}.onnx") == (graph.inputs, graph.outputs)
            assert check_graph(variants / f"{name}.{variant}.onnx") == []
        sizes = {variant: _weights(variants / f"{name}.{variant}.onnx") for variant in graph.variants}
        # So small a vocoder is mostly noise and tables, which stay fp32.
        assert sizes["fp16"] < (0.9 if name == "vocoder" else 0.65) * sizes["fp32"]
        assert sizes["int8"] < sizes["fp32"]


def test_the_copy_of_a_recording_is_the_vocoder_on_its_mel_and_pitch(
    voice_bundle: Path, trained: tuple[Path, Path]
) -> None:
    time_S = np.arange(8000) / 16000
    recording = (0.3 * np.sin(2 * np.pi * 140 * time_S) * np.sin(2 * np.pi * 3 * time_S)).astype(np.float32)
    copy = copier(Voice.load(voice_bundle), trained[1])(recording)

    vocoder, _ = load_vocoder(trained[1])
    mel_MT = log_mel(torch.from_numpy(recording), MelConfig(**AUDIO)).numpy()
    padded = np.pad(recording, (0, mel_MT.shape[1] * 256 - len(recording)))
    known_DT = np.concatenate([mel_MT, track_pitch(padded, 16000, 256, mel_MT.shape[1]).T])
    with torch.inference_mode():
        wanted = vocoder(torch.from_numpy(SourceRows(16000, 256).append(known_DT[None])))[0, : len(recording)]
    assert np.abs(copy).max() > 0
    np.testing.assert_allclose(copy, wanted.clamp(-1, 1).numpy(), atol=1e-4)


def _weights(path: Path) -> int:
    return sum(numpy_helper.to_array(tensor).nbytes for tensor in onnx.load(path).graph.initializer)


def test_graphs_tell_their_interface_and_nothing_of_the_machine(voice_bundle: Path) -> None:
    graphs = read_bundle(voice_bundle).description.graphs
    shapes = {
        name: tuple({t.name: t.shape for t in tensors} for tensors in (graph.inputs, graph.outputs))
        for name, graph in graphs.items()
    }
    each, frames = ("batch",), ("batch", AUDIO["n_mels"] + ROWS, "frames")
    text = {"tokens": ("batch", "tokens", 3), "lengths": each, "speaker": each}
    said = {"states": ("batch", "tokens", 16 + PROSODY), "ends": ("batch", "tokens")}
    heard = {"mel": ("batch", AUDIO["n_mels"] + ROWS + SOURCE_ROWS, "frames"), "lengths": each}
    assert shapes == {
        "encoder": (text | {"speed": each, "pitch": each, "energy": each}, said),
        "decoder": (said | {"time": ("frames",)}, {"mel": frames}),
        "vocoder": (heard, {"samples": ("batch", "256*frames")}),
    }
    for file in voice_bundle.iterdir():
        assert b".py" not in file.read_bytes(), f"{file.name} holds source lines"


def test_models_of_different_mels_are_refused(trained: tuple[Path, Path], tmp_path: Path) -> None:
    _, other = write_trained(tmp_path, audio=AUDIO | {"f_max": 7000.0})
    with pytest.raises(SonorantError, match=r"other mel settings .*audio\.f_max is 7000\.0, not 8000\.0"):
        export_voice(trained[0], other, tmp_path / "voice", CORPUS, CONFIG)
    assert not (tmp_path / "voice").exists()
