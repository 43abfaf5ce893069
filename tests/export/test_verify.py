"""`verify` finds faults planted in real graphs, names them, and lets rounding pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from sonorant.errors import SonorantError
from sonorant.export.cases import batches, shortened, spread_lengths
from sonorant.export.verify import VerifyConfig, compare, verify_voice
from sonorant.runtime.bundle import GRAPHS, Bundle, GraphFile, read_bundle, write_bundle

CONFIG = VerifyConfig(max_abs_diff=1e-3)
UTTERANCES = [np.array([[1, 0, 0], *[[5 + i % 30, i % 3, i % 2] for i in range(n)], [2, 0, 0]]) for n in (1, 4, 30)]


def plant(bundle: Path, graph: str, change: Callable[[onnx.ModelProto], None], out: Path) -> Bundle:
    """A bundle whose graph is changed and whose description agrees with the change: only computing with it can tell."""
    described = read_bundle(bundle).description
    model = onnx.load(bundle / f"{graph}.fp32.onnx")
    change(model)
    out.mkdir()
    changed = out / f"{graph}.fp32.onnx"
    onnx.save(model, changed)
    graphs = described.graphs | {
        graph: dataclasses.replace(described.graphs[graph], variants={"fp32": GraphFile.of(changed, "fp32")})
    }
    others = [bundle / f"{other}.fp32.onnx" for other in GRAPHS if other != graph]
    write_bundle(out / "voice", dataclasses.replace(described, graphs=graphs), [changed, *others])
    return read_bundle(out / "voice")


def change_largest(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[onnx.ModelProto], None]:
    """Apply `change` to the last learned matrix of a graph."""

    def apply(model: onnx.ModelProto) -> None:
        weight = next(w for w in reversed(model.graph.initializer) if len(w.dims) == 2 and w.data_type == onnx.TensorProto.FLOAT)
        weight.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(weight).copy()), weight.name))

    return apply


def with_nan(weight: np.ndarray) -> np.ndarray:
    weight[0, 0] = np.nan
    return weight


@pytest.mark.parametrize(("graph", "output"), [("encoder", "ends"), ("decoder", "mel"), ("vocoder", "samples")])
def test_a_changed_constant_is_found_and_named(
    graph: str, output: str, voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle = plant(voice_bundle, graph, change_largest(lambda weight: weight * np.float32(1.2)), tmp_path / "planted")
    with pytest.raises(
        SonorantError, match=rf"graph {graph}, output {output}, length \d+, batch 1: differs by [\d.e-]+ from torch"
    ):
        verify_voice(bundle, trained, UTTERANCES, CONFIG)


@pytest.mark.parametrize("graph", GRAPHS)
def test_nan_is_found(graph: str, voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    bundle = plant(voice_bundle, graph, change_largest(with_nan), tmp_path / "planted")
    with pytest.raises(SonorantError, match=rf"graph {graph}, output \w+, length \d+, batch 1: (NaN or infinity|differs by 9)"):
        verify_voice(bundle, trained, UTTERANCES, CONFIG)


def test_other_durations_are_found(voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    def longer(model: onnx.ModelProto) -> None:
        bias = next(w for w in model.graph.initializer if w.name.endswith("duration.out.bias"))
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.3), bias.name))

    with pytest.raises(SonorantError, match=r"graph encoder, output ends, .*differs by"):
        verify_voice(plant(voice_bundle, "encoder", longer, tmp_path / "planted"), trained, UTTERANCES, CONFIG)


def test_another_name_is_found(voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    def rename(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.output[:] = ["audio" if name == "samples" else name for name in node.output]
        model.graph.output[0].name = "audio"

    with pytest.raises(SonorantError, match=r"graph vocoder: its outputs are .*audio.*, must be .*samples"):
        verify_voice(plant(voice_bundle, "vocoder", rename, tmp_path / "planted"), trained, UTTERANCES, CONFIG)


def test_a_file_that_is_no_graph_is_refused(voice_bundle: Path, trained: tuple[Path, Path], tmp_path: Path) -> None:
    described = read_bundle(voice_bundle).description
    file = tmp_path / "vocoder.fp32.onnx"
    file.write_bytes(b"no graph")
    graph = dataclasses.replace(described.graphs["vocoder"], variants={"fp32": GraphFile.of(file, "fp32")})
    changed = dataclasses.replace(described, graphs=described.graphs | {"vocoder": graph})
    write_bundle(tmp_path / "voice", changed, [file, *(voice_bundle / f"{graph}.fp32.onnx" for graph in GRAPHS[:2])])
    with pytest.raises(SonorantError, match=r"vocoder\.fp32\.onnx: ONNX Runtime does not load it"):
        verify_voice(read_bundle(tmp_path / "voice"), trained, UTTERANCES, CONFIG)


def test_compare_counts_every_kind_of_difference() -> None:
    one = np.ones((2, 3), np.float32)
    assert compare({"a": one}, {"a": one.copy()}).value == 0
    assert compare({"a": one, "b": one}, {"a": one, "b": one + np.float32(0.25)}) == compare(
        {"b": one}, {"b": one + np.float32(0.25)}
    )
    for wrong in (one[:1], one.astype(np.float64), np.full_like(one, np.nan)):
        assert compare({"a": one}, {"a": wrong}).value == np.inf


def test_cases_hold_every_utterance_alone_and_in_a_padded_batch() -> None:
    cases = list(batches(UTTERANCES, speakers=2))
    assert [case["lengths"].tolist() for case in cases] == [[3], [6], [32], [3, 6, 32]]
    assert {float(s) for case in cases for s in case["speed"]} == {0.5, 1.0, 2.0}
    assert {int(s) for case in cases for s in case["speaker"]} == {0, 1}
    assert not cases[-1]["tokens"][0, 3:].any()


def test_chosen_lengths_reach_from_shortest_to_longest() -> None:
    lengths = np.array([50, 7, 7, 99, 12, 31, 80, 64])
    assert [int(lengths[i]) for i in spread_lengths(lengths, 4)] == [7, 31, 64, 99]
    assert len(spread_lengths(lengths, 100)) == 7
    assert spread_lengths(np.array([5]), 8) == [0]
    assert shortened(UTTERANCES[2], 1).tolist() == [[1, 0, 0], [5, 0, 0], [2, 0, 0]]
