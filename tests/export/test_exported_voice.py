"""The exported graphs compute what torch computes, for any length and batch, and the same models give the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.export.onnx import ExportConfig
from sonorant.export.verify import VerifyConfig, verify_voice
from sonorant.export.voice import export_voice
from sonorant.runtime.bundle import content_hash, read_bundle
from sonorant.runtime.runtimes import LoadOptions, load_runtime
from tests.tiny_voice import AUDIO, write_trained

LENGTHS = (3, 4, 5, 9, 16, 33, 60, 121, 257)
ROOT = Path(__file__).parents[2]
CONFIG = ExportConfig(opset=20)


def utterance(length: int) -> np.ndarray:
    """Random tokens (length, 3) between a start and an end symbol."""
    rng = np.random.default_rng(length)
    tokens = np.stack([rng.integers(3, 40, length), rng.integers(0, 3, length), rng.integers(0, 2, length)], 1)
    tokens[[0, -1]] = [[1, 0, 0], [2, 0, 0]]
    return tokens


def test_graphs_equal_torch_on_every_length(voice_bundle: Path, trained: tuple[Path, Path]) -> None:
    report = verify_voice(read_bundle(voice_bundle), trained, [utterance(n) for n in LENGTHS], VerifyConfig(max_abs_diff=1e-4))
    lengths = {(case["length"], case["batch"]) for case in report["acoustic"]["cases"]}
    assert {(n, 1) for n in LENGTHS} <= lengths
    assert any(batch > 1 for _, batch in lengths)
    assert len(report["vocoder"]["cases"]) == len(report["acoustic"]["cases"])


def test_flow_decoder_equals_torch(tmp_path: Path) -> None:
    trained = write_trained(tmp_path, decoder="flow")
    export_voice(*trained, tmp_path / "voice", CONFIG)
    verify_voice(read_bundle(tmp_path / "voice"), trained, [utterance(n) for n in (3, 20, 61)], VerifyConfig(max_abs_diff=1e-4))


def test_a_padded_row_equals_the_same_utterance_alone(voice_bundle: Path) -> None:
    runtime = load_runtime("onnxruntime", read_bundle(voice_bundle), LoadOptions(threads=1))
    rows = [utterance(5), utterance(40)]
    tokens = np.zeros((2, 40, 3), np.int64)
    for row, one in enumerate(rows):
        tokens[row, : len(one)] = one
    speaker, speed = np.array([0, 1]), np.array([1.0, 1.5], np.float32)
    mel, mel_lengths = runtime.acoustic(tokens, np.array([5, 40]), speaker, speed)
    for row, one in enumerate(rows):
        alone, frames = runtime.acoustic(one[None], np.array([len(one)]), speaker[row : row + 1], speed[row : row + 1])
        assert frames[0] == mel_lengths[row]
        np.testing.assert_allclose(mel[row, :, : frames[0]], alone[0], atol=1e-4)


def test_the_stage_in_another_process_gives_the_same_bundle(voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tasks.export", "--acoustic", trained[0], "--vocoder", trained[1], "--out", tmp_path / "again"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert content_hash(read_bundle(tmp_path / "again")) == content_hash(read_bundle(voice_bundle))


def test_graphs_tell_their_interface_and_nothing_of_the_machine(voice_bundle: Path) -> None:
    graphs = read_bundle(voice_bundle).description.graphs
    shapes = {t.name: t.shape for graph in graphs.values() for t in (*graph.inputs, *graph.outputs)}
    assert shapes == {
        "tokens": ("batch", "tokens", 3),
        "lengths": ("batch",),
        "speaker": ("batch",),
        "speed": ("batch",),
        "mel": ("batch", AUDIO["n_mels"], "frames"),
        "mel_lengths": ("batch",),
        "samples": ("batch", "256*frames"),
    }
    for file in voice_bundle.iterdir():
        assert b".py" not in file.read_bytes(), f"{file.name} holds source lines"


def test_models_of_different_mels_are_refused(trained: tuple[Path, Path], tmp_path: Path) -> None:
    _, other = write_trained(tmp_path, audio=AUDIO | {"f_max": 7000.0})
    with pytest.raises(SonorantError, match=r"another mel .*audio\.f_max is 7000\.0, not 8000\.0"):
        export_voice(trained[0], other, tmp_path / "voice", CONFIG)
    assert not (tmp_path / "voice").exists()


@pytest.mark.parametrize("opset", [17, 24])
def test_opset_out_of_range_is_refused(opset: int) -> None:
    with pytest.raises(ValueError, match="opset"):
        ExportConfig(opset=opset)
