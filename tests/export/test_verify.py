"""`verify` finds faults planted in real graphs, names them and stops exactly that candidate; rounding passes."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.export.candidate import Expected, run_checks
from sonorant.export.comparison import batches, shortened, spread_lengths
from sonorant.export.tolerance import Fault, VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.families import load_family
from sonorant.families.parallel.parity import ParallelCandidate
from sonorant.families.parallel.parity_checks import check_padding, follow
from sonorant.files import read_json, write_json
from sonorant.runtime.bundle import Bundle, read_bundle
from sonorant.runtime.runtimes import LoadOptions, Runtime, load_runtime
from tests.export.conftest import UTTERANCES
from tests.export.planted import Change, change_constant, change_matrix, plant, times, with_nan

GRAPHS = load_family("parallel").graphs
Verify = Callable[[Bundle], dict[str, Any]]


@pytest.fixture
def verify(trained: tuple[Path, Path], quantized: tuple[Path, Path], verify_config: VerifyConfig) -> Verify:
    """The ladder of all candidates on three utterances, alone and together."""
    return lambda bundle: verify_voice(bundle, trained, UTTERANCES, verify_config, quantized=quantized)


def failures(report: dict[str, Any]) -> dict[str, str]:
    """Candidate to the check that stopped it."""
    return {name: found["failed"] for name, found in report.items() if isinstance(found, dict) and not found["passed"]}


def test_every_precision_of_a_sound_voice_passes(variants: Path, verify: Verify) -> None:
    report = verify(read_bundle(variants))
    passed = {name for name, found in report.items() if isinstance(found, dict) and found["passed"]}
    assert passed == {
        "onnxruntime/fp32",
        "onnxruntime/fp16",
        "onnxruntime/int8",
        "torch/fp32",
        "torch/bf16",
        "torch/int8",
    }
    assert report["onnxruntime/bf16"].startswith("not run: onnxruntime has no kernel here for ")
    assert "by onnx's reference evaluator on 3 short cases it is within tolerance" in report["onnxruntime/bf16"]
    assert report["tensorrt/fp32"] == "not run: tensorrt is not among verify.runtimes"
    for name in passed:
        for graph in GRAPHS:
            found = report[name]["graphs"][graph]
            assert 0 <= found["max_abs_diff"] <= found["tolerance"]
            assert {case["batch"] for case in found["cases"]} == {1, 3}
        assert report[name]["padding"]["rows"] == 3
        assert report[name]["parts"]["parts"] > 1
    int8 = report["onnxruntime/int8"]
    assert {"float", "integers", "static", "files"} <= set(int8)
    # int8 is nearer to its own fake-quantised models than to float: it was compared with the right ones.
    assert int8["graphs"]["decoder"]["log_mel_db"] < int8["float"]["decoder"]["log_mel_db"]


def retype(model: onnx.ModelProto) -> None:
    """Give the samples away in the graph's own type."""
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    cast = next(node for node in model.graph.node if "samples" in node.output)
    cast.attribute[0].CopyFrom(helper.make_attribute("to", TensorProto.FLOAT16))


PLANTED: dict[str, tuple[str, str, Change, str]] = {
    "constant": ("decoder", "fp16", change_matrix(times(1.2)), "values: graph decoder, output mel, length "),
    "nan": ("vocoder", "fp16", change_matrix(with_nan), "values: graph vocoder, output samples, length "),
    "scale": (
        "decoder",
        "int8",
        change_constant("decoder.out.input_scale", times(1 / 16)),
        "values: graph decoder, output mel, length ",
    ),
    "weight scale": (
        "vocoder",
        "int8",
        change_constant("out.weight_scale", times(1.5)),
        "values: graph vocoder, output samples, ",
    ),
    "sign": ("vocoder", "int8", lambda model: negate_samples(model), "values: graph vocoder, output samples, "),
    "zero-point": ("encoder", "int8", lambda model: move_zero_points(model), "integers: graph encoder: "),
    "misfit": ("vocoder", "int8", lambda model: reshape_samples(model), "values: Fail: "),
    "dtype": ("vocoder", "fp16", retype, "interface: graph vocoder: its outputs are {'samples': 'float16'}, must be "),
}


def negate_samples(model: onnx.ModelProto) -> None:
    """What no measure of loudness or spectrum can see."""
    node = next(node for node in model.graph.node if "samples" in node.output)
    node.output[list(node.output).index("samples")] = "right"
    model.graph.node.append(helper.make_node("Neg", ["right"], ["samples"]))


def reshape_samples(model: onnx.ModelProto) -> None:
    """Give the samples a shape that fits no utterance: it loads, and fails when it runs."""
    node = next(node for node in model.graph.node if "samples" in node.output)
    node.output[list(node.output).index("samples")] = "right"
    model.graph.initializer.append(helper.make_tensor("misfit", TensorProto.INT64, [2], [7, 11]))
    model.graph.node.append(helper.make_node("Reshape", ["right", "misfit"], ["samples"]))


def move_zero_points(model: onnx.ModelProto) -> None:
    """Point a QuantizeLinear at another zero."""
    node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    model.graph.initializer.append(helper.make_tensor("three", TensorProto.INT8, [], [3]))
    node.input[2] = "three"


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_stops_its_variant_and_no_other(
    fault: str, variants: Path, verify: Verify, tmp_path: Path
) -> None:
    graph, variant, change, message = PLANTED[fault]
    stopped = failures(verify(plant(variants, graph, variant, change, tmp_path / "planted")))
    assert set(stopped) == {f"onnxruntime/{variant}"}
    assert stopped[f"onnxruntime/{variant}"].startswith(message)
    if fault == "sign":
        assert re.search(
            r"differs from torch's fake-quantised model, correlation -\S+, must be at least 0\.9$",
            stopped["onnxruntime/int8"],
        )
    if fault == "nan":
        assert stopped["onnxruntime/fp16"].endswith("batch 1: NaN or infinity")


def test_a_graph_of_float32_that_breaks_while_it_runs_fails_the_stage_in_one_line(
    variants: Path, verify: Verify, tmp_path: Path
) -> None:
    with pytest.raises(
        SonorantError, match=r"^onnxruntime/fp32: values: \w+: .*Reshape.*; do not use this voice$"
    ) as raised:
        verify(plant(variants, "vocoder", "fp32", reshape_samples, tmp_path / "planted"))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("change", [change_matrix(times(1.2)), change_matrix(with_nan)], ids=["constant", "nan"])
def test_a_fault_in_float32_fails_the_stage(
    graph: str, change: Change, variants: Path, verify: Verify, tmp_path: Path
) -> None:
    with pytest.raises(
        SonorantError, match=rf"onnxruntime/fp32: values: graph {graph}, output \w+, length \d+, batch 1: "
    ):
        verify(plant(variants, graph, "fp32", change, tmp_path / "planted"))


def test_other_durations_are_found(variants: Path, verify: Verify, tmp_path: Path) -> None:
    longer = change_constant("duration.out.bias", lambda bias: bias + np.float32(0.3))
    with pytest.raises(SonorantError, match=r"graph encoder, output ends, .*: a token ends \d+ frames off torch"):
        verify(plant(variants, "encoder", "fp32", longer, tmp_path / "planted"))


def unmask(model: onnx.ModelProto) -> None:
    """Let the vocoder take all frames for real."""
    node = next(node for node in model.graph.node if node.op_type == "Less")
    zeros = (
        c.name
        for c in model.graph.initializer
        if c.data_type == TensorProto.INT64 and not numpy_helper.to_array(c).any()
    )
    node.op_type = "GreaterOrEqual"
    node.input[:] = [node.input[0], next(zeros)]


def test_models_that_see_padding_themselves_are_found(
    variants: Path, trained: tuple[Path, Path], verify_config: VerifyConfig, tmp_path: Path
) -> None:
    """The graph computes what its models do, batches included, so only a row beside the same utterance alone can
    tell."""
    bundle = plant(variants, "vocoder", "fp32", unmask, tmp_path / "planted")
    itself = load_runtime("onnxruntime", bundle, LoadOptions(variant="fp32"))
    expected = Expected(itself, [follow(itself, one) for one in batches(UTTERANCES, 1)], "itself")
    found = run_checks(ParallelCandidate(bundle, "onnxruntime", "fp32", trained, expected, expected, verify_config))
    assert isinstance(found, dict) and "graphs" in found
    assert str(found["failed"]).startswith("padding: graph vocoder, output samples, length ")
    assert "batch 3: differs from the row alone, " in str(found["failed"])


@dataclasses.dataclass
class InBatches:
    """A runtime of which one output of the first row differs as soon as there are others."""

    right: Runtime
    output: str
    by: float

    def encode(self, **inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        states, ends = self.right.encode(**inputs)
        return self._moved("states", states), self._moved("ends", ends)

    def decode(self, states: np.ndarray, ends: np.ndarray, time: np.ndarray) -> np.ndarray:
        return self._moved("mel", self.right.decode(states, ends, time))

    def vocode(self, mel: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self._moved("samples", self.right.vocode(mel, lengths))

    def _moved(self, output: str, values: np.ndarray) -> np.ndarray:
        if output == self.output and len(values) > 1:
            values = values.copy()
            values[0] += np.array(self.by, values.dtype)
        return values


@pytest.mark.parametrize(("output", "by"), [("states", 0.1), ("ends", 2), ("mel", 0.1), ("samples", 0.1)])
def test_every_output_of_a_row_is_compared_with_the_row_alone(
    output: str, by: float, variants: Path, verify_config: VerifyConfig
) -> None:
    bundle = read_bundle(variants)
    right = load_runtime("onnxruntime", bundle, LoadOptions(variant="fp32"))
    cases = [follow(right, one) for one in batches(UTTERANCES, 1)]
    audio = MelConfig(**dataclasses.asdict(bundle.description.audio))
    assert check_padding(right, cases, audio, verify_config.tolerance("fp32", "parallel"))["rows"] == 3
    with pytest.raises(Fault, match=rf"graph \w+, output {output}, length \d+, batch 3: .*the row alone"):
        check_padding(InBatches(right, output, by), cases, audio, verify_config.tolerance("fp32", "parallel"))  # type: ignore[arg-type]


def test_quantised_models_that_are_far_from_float_are_found(
    variants: Path,
    trained: tuple[Path, Path],
    quantized: tuple[Path, Path],
    verify_config: VerifyConfig,
    tmp_path: Path,
) -> None:
    """A scale spoilt before the export: graph and quantised models agree, and both are wrong."""
    spoilt = times(1 / 16)
    folders = tmp_path / "acoustic", tmp_path / "vocoder"
    for source, folder in zip(quantized, folders, strict=True):
        shutil.copytree(source, folder)
    weights = torch.load(folders[0] / "weights.pt", weights_only=True)
    weights["decoder.out.input_scale"] /= 16
    torch.save(weights, folders[0] / "weights.pt")
    bundle = plant(
        variants, "decoder", "int8", change_constant("decoder.out.input_scale", spoilt), tmp_path / "planted"
    )
    stopped = failures(verify_voice(bundle, trained, UTTERANCES, verify_config, quantized=folders))
    assert set(stopped) == {"onnxruntime/int8", "torch/int8"}
    for line in stopped.values():
        assert re.match(r"float: graph decoder, output mel, length \d+, batch 1: differs from torch, ", line)


def test_a_graph_that_sees_padding_is_found(variants: Path, verify: Verify, tmp_path: Path) -> None:
    """One that is right for every utterance alone."""
    stopped = failures(verify(plant(variants, "vocoder", "int8", unmask, tmp_path / "planted")))
    assert set(stopped) == {"onnxruntime/int8"}
    assert "graph vocoder, output samples" in stopped["onnxruntime/int8"]
    assert "batch 3" in stopped["onnxruntime/int8"]


def test_too_little_context_is_found(variants: Path, verify: Verify) -> None:
    bundle = read_bundle(variants)
    narrow = dataclasses.replace(bundle.description.receptive_field, vocoder=1)
    bundle = Bundle(bundle.folder, dataclasses.replace(bundle.description, receptive_field=narrow))
    with pytest.raises(
        SonorantError, match=r"onnxruntime/fp32: parts: graph vocoder, output samples, .* in \d+ parts: differs"
    ):
        verify(bundle)


def test_a_damaged_file_stops_its_variant(variants: Path, verify: Verify, tmp_path: Path) -> None:
    shutil.copytree(variants, tmp_path / "voice")
    with (tmp_path / "voice" / "decoder.int8.onnx").open("ab") as file:
        file.write(b"x")
    stopped = failures(verify(read_bundle(tmp_path / "voice")))
    assert set(stopped) == {"onnxruntime/int8"}
    assert "files: " in stopped["onnxruntime/int8"]
    assert "decoder.int8.onnx: damaged" in stopped["onnxruntime/int8"]


def test_int8_that_is_too_large_is_stopped(
    variants: Path,
    trained: tuple[Path, Path],
    quantized: tuple[Path, Path],
    verify_config: VerifyConfig,
    tmp_path: Path,
) -> None:
    """By name of the layers left in float and of the setting that left them, once everything else was found right."""
    folders = tmp_path / "acoustic", tmp_path / "vocoder"
    for source, folder in zip(quantized, folders, strict=True):
        shutil.copytree(source, folder)
        described = read_json(folder / "model.json")
        described["quantization"]["float_layers"] = ["enter", "out"] if folder.name == "vocoder" else []
        write_json(folder / "model.json", described)
    strict = dataclasses.replace(verify_config, int8_size=0.1, runtimes=["onnxruntime"])
    report = verify_voice(read_bundle(variants), trained, UTTERANCES[:1], strict, quantized=folders)
    assert set(failures(report)) == {"onnxruntime/int8"}
    assert re.fullmatch(
        r"size: the graphs have 0\.\d{4} of fp32's bytes, verify\.int8_size allows 0\.1; "
        r"layers left in float: vocoder enter, vocoder out "
        r"\(a larger quantize\.max_layer_loss leaves fewer\)",
        report["onnxruntime/int8"]["failed"],
    )
    assert {"graphs", "float", "padding", "parts"} <= set(report["onnxruntime/int8"])


def test_int8_without_its_models_is_refused(
    variants: Path, trained: tuple[Path, Path], verify_config: VerifyConfig
) -> None:
    with pytest.raises(SonorantError, match="has int8 graphs; verify needs the quantised models"):
        verify_voice(read_bundle(variants), trained, UTTERANCES, verify_config)


def test_an_unknown_runtime_is_refused(variants: Path, trained: tuple[Path, Path], verify_config: VerifyConfig) -> None:
    with pytest.raises(
        SonorantError, match=r"verify\.runtimes: unknown runtime 'onxruntime'; there are: onnxruntime, "
    ):
        verify_voice(
            read_bundle(variants), trained, UTTERANCES, dataclasses.replace(verify_config, runtimes=["onxruntime"])
        )


def test_cases_hold_every_utterance_alone_and_in_a_padded_batch() -> None:
    cases = list(batches(UTTERANCES, speakers=2))
    assert [case["lengths"].tolist() for case in cases] == [[3], [6], [31], [3, 6, 31]]
    assert {float(s) for case in cases for s in case["speed"]} == {0.5, 1.0, 2.0}
    assert {int(s) for case in cases for s in case["speaker"]} == {0, 1}
    assert not cases[-1]["tokens"][0, 3:].any()


def test_chosen_lengths_reach_from_shortest_to_longest() -> None:
    lengths = np.array([50, 7, 7, 99, 12, 31, 80, 64])
    assert [int(lengths[i]) for i in spread_lengths(lengths, 4)] == [7, 31, 64, 99]
    assert len(spread_lengths(lengths, 100)) == 7
    assert spread_lengths(np.array([5]), 8) == [0]
    start, end = UTTERANCES[2][[0, -1]].tolist()
    assert shortened(UTTERANCES[2], 1).tolist() == [start, UTTERANCES[2][1].tolist(), end]


def test_a_tolerance_may_differ_between_families_and_is_there_for_each(verify_config: VerifyConfig) -> None:
    limits = {"relative_error": verify_config.relative_error | {"int8": {"parallel": 0.01, "codec_lm": 0.02}}}
    config = dataclasses.replace(verify_config, **limits)  # type: ignore[arg-type]
    assert [config.tolerance("int8", family).relative_error for family in ("parallel", "codec_lm")] == [0.01, 0.02]
    assert config.tolerance("fp32", "parallel") == config.tolerance("fp32", "codec_lm")
    for wrong, message in (
        ({"parallel": 0.01}, "has no tolerance for int8 of family codec_lm"),
        (0.0, "must be above 0"),
    ):
        with pytest.raises(ValueError, match=f"^relative_error {message}"):
            dataclasses.replace(config, relative_error=config.relative_error | {"int8": wrong})  # type: ignore[arg-type]
