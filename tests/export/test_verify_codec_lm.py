"""The ladder of voices that speak code by code: faults planted in real graphs and runtimes are found where they are;
rounding passes."""

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
from onnx import TensorProto, helper

from sonorant.decoding.state import State
from sonorant.errors import SonorantError
from sonorant.export.candidate import Expected
from sonorant.export.comparison import Arrays
from sonorant.export.tolerance import Fault, VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.families.codec_lm.parity import TokenCandidate, expect_tokens
from sonorant.families.codec_lm.parity_checks import check_padding, check_tokens, each_row
from sonorant.files import read_json, write_json
from sonorant.runtime.bundle import Bundle, read_bundle
from sonorant.runtime.runtimes import LoadOptions, TokenRuntime, load_runtime
from tests.export.conftest import UTTERANCES
from tests.export.planted import Change, change_constant, change_matrix, plant, times, with_nan
from tests.export.test_verify import failures, negate_samples

Verify = Callable[[Bundle], dict[str, Any]]
GRAPHS = ("encoder", "prefill", "step", "vocoder")


@pytest.fixture
def verify(
    trained_prompted: tuple[Path, Path], quantized_prompted: tuple[Path, Path], verify_config: VerifyConfig
) -> Verify:
    """The ladder of all candidates under ONNX Runtime on three utterances, alone and together."""
    config = dataclasses.replace(verify_config, runtimes=["onnxruntime"])
    return lambda bundle: verify_voice(bundle, trained_prompted, UTTERANCES, config, quantized=quantized_prompted)


@pytest.fixture(scope="session")
def expected(codec_lm_variants: Path, trained_prompted: tuple[Path, Path]) -> Expected:
    """What torch makes of the three utterances."""
    return expect_tokens(read_bundle(codec_lm_variants), trained_prompted, UTTERANCES, "torch")


def test_a_sound_voice_passes_under_every_runtime_that_is_here(
    codec_lm_variants: Path,
    trained_prompted: tuple[Path, Path],
    quantized_prompted: tuple[Path, Path],
    verify_config: VerifyConfig,
) -> None:
    config = dataclasses.replace(verify_config, runtimes=["onnxruntime", "torch", "torch-static", "tensorrt"])
    report = verify_voice(
        read_bundle(codec_lm_variants), trained_prompted, UTTERANCES, config, quantized=quantized_prompted
    )
    assert failures(report) == {}
    passed = {name for name, found in report.items() if isinstance(found, dict)}
    assert passed == {
        f"{runtime}/{variant}" for runtime in ("onnxruntime", "torch", "torch-static") for variant in ("fp32", "int8")
    }
    assert report["tensorrt/fp32"].startswith("not run: the runtime tensorrt does not speak the family codec_lm")
    for name in passed:
        found, own = report[name], GRAPHS if name.startswith("onnx") else ("encoder", "vocoder")
        assert found["tokens"]["share"] == found["padding"]["tokens"]["share"] == 1.0
        assert found["padding"]["rows"] == 3 and found["parts"]["parts"] > 1
        for graph in GRAPHS:
            assert (not isinstance(found["graphs"][graph], str)) == (graph in own)
        for graph in own:
            assert 0 <= found["graphs"][graph]["max_abs_diff"] <= found["graphs"][graph]["tolerance"]
            assert {case["batch"] for case in found["graphs"][graph]["cases"]} == {1, 3}
    int8 = report["onnxruntime/int8"]
    assert {"float", "integers", "static", "files", "size"} <= set(int8)
    assert int8["graphs"]["step"]["relative_error"] < int8["float"]["step"]["relative_error"]


def reverse_heads(model: onnx.ModelProto) -> None:
    """Give the first layer's keys away with their heads in another order."""
    node = next(node for node in model.graph.node if "key_0" in node.output)
    node.output[list(node.output).index("key_0")] = "right"
    model.graph.initializer.append(helper.make_tensor("order", TensorProto.INT64, [2], [1, 0]))
    model.graph.node.append(helper.make_node("Gather", ["right", "order"], ["key_0"], axis=1))


def one_position_on(model: onnx.ModelProto) -> None:
    """Take each step for the one after it."""
    for node in model.graph.node:
        node.input[:] = ["later" if name == "position" else name for name in node.input]
    model.graph.initializer.append(helper.make_tensor("one", TensorProto.INT64, [], [1]))
    model.graph.node.insert(0, helper.make_node("Add", ["position", "one"], ["later"]))


def look_ahead(model: onnx.ModelProto) -> None:
    """Let positions see what comes after them, and not what was before."""
    node = next(node for node in model.graph.node if node.op_type == "LessOrEqual")
    node.op_type = "GreaterOrEqual"


def see_empty_slots(model: onnx.ModelProto) -> None:
    """Let a step see slots that hold nothing yet."""
    node = next(node for node in model.graph.node if node.op_type == "And")
    node.op_type = "Or"


def rename_logits(model: onnx.ModelProto) -> None:
    for names in [node.output for node in model.graph.node]:
        names[:] = ["likelihoods" if name == "logits" else name for name in names]
    next(output for output in model.graph.output if output.name == "logits").name = "likelihoods"


def move_zero_point(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    model.graph.initializer.append(helper.make_tensor("three", TensorProto.INT8, [], [3]))
    node.input[2] = "three"


EXPAND = "transformer.layers.0.expand.input_scale"
IN_FP32: dict[str, tuple[str, Change, str]] = {
    "constant": ("encoder", change_matrix(times(1.2)), "values: graph encoder, output states, length "),
    "transposed cache": ("prefill", reverse_heads, "values: graph prefill, output key_0, length "),
    "mask that looks ahead": ("prefill", look_ahead, "values: graph prefill, output "),
    "off-by-one position": ("step", one_position_on, "values: graph step, output "),
    "empty slots": ("step", see_empty_slots, "values: graph step, output "),
    "nan": ("step", change_matrix(with_nan), "values: graph step, output "),
    "sign": ("vocoder", negate_samples, "values: graph vocoder, output samples, length "),
    "name": ("step", rename_logits, "interface: graph step: its outputs are "),
}
IN_INT8: dict[str, tuple[str, Change, str]] = {
    "scale": ("step", change_constant(EXPAND, times(1 / 16)), "values: graph step, output "),
    "scale of prefill": ("prefill", change_constant(EXPAND, times(1 / 16)), "values: graph prefill, output "),
    "weights": ("vocoder", change_constant("out.weight_scale", times(1.5)), "values: graph vocoder, output samples, "),
    "zero-point": ("step", move_zero_point, "integers: graph step: "),
}


@pytest.mark.parametrize("fault", IN_FP32)
def test_a_fault_planted_in_float32_fails_the_stage(
    fault: str, codec_lm_variants: Path, verify: Verify, tmp_path: Path
) -> None:
    graph, change, message = IN_FP32[fault]
    with pytest.raises(SonorantError, match=rf"^onnxruntime/fp32: {re.escape(message)}"):
        verify(plant(codec_lm_variants, graph, "fp32", change, tmp_path / "planted"))


@pytest.mark.parametrize("fault", IN_INT8)
def test_a_fault_planted_in_int8_stops_it_alone(
    fault: str, codec_lm_variants: Path, verify: Verify, tmp_path: Path
) -> None:
    graph, change, message = IN_INT8[fault]
    stopped = failures(verify(plant(codec_lm_variants, graph, "int8", change, tmp_path / "planted")))
    assert set(stopped) == {"onnxruntime/int8"}
    assert stopped["onnxruntime/int8"].startswith(message)


def test_a_damaged_file_stops_its_variant(codec_lm_variants: Path, verify: Verify, tmp_path: Path) -> None:
    shutil.copytree(codec_lm_variants, tmp_path / "voice")
    with (tmp_path / "voice" / "step.int8.onnx").open("ab") as file:
        file.write(b"x")
    stopped = failures(verify(read_bundle(tmp_path / "voice")))
    assert set(stopped) == {"onnxruntime/int8"}
    assert re.match(r"files: .*step\.int8\.onnx: damaged", stopped["onnxruntime/int8"])


def test_a_codec_that_stays_in_float_is_not_asked_for_integers_and_no_other_is_spared(
    codec_lm_variants: Path,
    quantized_prompted: tuple[Path, Path],
    expected: Expected,
    verify_config: VerifyConfig,
    tmp_path: Path,
) -> None:
    as_float = onnx.load(codec_lm_variants / "vocoder.fp32.onnx")
    bundle = plant(codec_lm_variants, "vocoder", "int8", lambda model: model.CopyFrom(as_float), tmp_path / "planted")
    pretrained = Path(shutil.copytree(quantized_prompted[1], tmp_path / "codec"))
    description = read_json(pretrained / "model.json")
    write_json(pretrained / "model.json", description | {"quantization": {"layers": []}})

    def integers(sound: Path) -> Any:
        trained = quantized_prompted[0], sound
        return TokenCandidate(bundle, "onnxruntime", "int8", trained, expected, expected, verify_config).checks[
            "integers"
        ]()

    found = integers(pretrained)
    assert found["vocoder"] == "not run: its model has no layer in int8" and found["step"]["layers"] > 1
    with pytest.raises(Fault, match=r"^graph vocoder: no layer has weights stored as int8"):
        integers(quantized_prompted[1])


def test_a_codec_that_others_trained_is_not_weighed_and_one_of_our_own_is(
    codec_lm_variants: Path,
    quantized_prompted: tuple[Path, Path],
    expected: Expected,
    verify_config: VerifyConfig,
    tmp_path: Path,
) -> None:
    """Both stayed in float: one has no layer that int8 could hold, the other has lost too much in each."""
    as_float = onnx.load(codec_lm_variants / "vocoder.fp32.onnx")
    bundle = plant(codec_lm_variants, "vocoder", "int8", lambda model: model.CopyFrom(as_float), tmp_path / "planted")
    sizes = {
        variant: [bundle.graph_file(graph, variant).stat().st_size for graph in GRAPHS] for variant in ("int8", "fp32")
    }
    share, of_all = (sum(sizes["int8"][:weighed]) / sum(sizes["fp32"][:weighed]) for weighed in (3, 4))
    assert share < of_all

    def size(float_layers: list[str], allowed: float) -> Any:
        codec = Path(shutil.copytree(quantized_prompted[1], tmp_path / "codec", dirs_exist_ok=True))
        description = read_json(quantized_prompted[1] / "model.json")
        write_json(codec / "model.json", description | {"quantization": {"layers": [], "float_layers": float_layers}})
        config = dataclasses.replace(verify_config, int8_size=allowed)
        trained = quantized_prompted[0], codec
        return TokenCandidate(bundle, "onnxruntime", "int8", trained, expected, expected, config).checks["size"]()

    told = f"the graphs encoder, prefill, step have {share:.4f} of fp32's bytes"
    assert size([], share) == told
    told += ", verify.int8_size allows 0.1; no layer is left"
    with pytest.raises(Fault, match=f"^{told}"):
        size([], 0.1)
    with pytest.raises(
        Fault, match=f"^the graphs have {of_all:.4f} of fp32's bytes, .* layers left in float: codec enter "
    ):
        size(["enter"], share)


def test_quantised_models_that_are_far_from_float_are_found(
    codec_lm_variants: Path,
    trained_prompted: tuple[Path, Path],
    quantized_prompted: tuple[Path, Path],
    verify_config: VerifyConfig,
    tmp_path: Path,
) -> None:
    """A scale spoilt before the export: graphs and quantised model agree, and both are wrong."""
    shutil.copytree(quantized_prompted[0], tmp_path / "language_model")
    weights = torch.load(tmp_path / "language_model" / "weights.pt", weights_only=True)
    weights[EXPAND] /= 16
    torch.save(weights, tmp_path / "language_model" / "weights.pt")
    bundle = plant(codec_lm_variants, "prefill", "int8", change_constant(EXPAND, times(1 / 16)), tmp_path / "prefill")
    bundle = plant(bundle.folder, "step", "int8", change_constant(EXPAND, times(1 / 16)), tmp_path / "both")
    config = dataclasses.replace(verify_config, runtimes=["onnxruntime"])
    folders = tmp_path / "language_model", quantized_prompted[1]
    stopped = failures(verify_voice(bundle, trained_prompted, UTTERANCES, config, quantized=folders))
    assert set(stopped) == {"onnxruntime/int8"}
    assert re.match(r"float: graph (prefill|step), output \w+, .*: differs from torch, ", stopped["onnxruntime/int8"])


def test_windows_of_codes_without_their_context_are_found(codec_lm_variants: Path, verify: Verify) -> None:
    bundle = read_bundle(codec_lm_variants)
    narrow = dataclasses.replace(bundle.description.receptive_field, vocoder=0)
    bundle = Bundle(bundle.folder, dataclasses.replace(bundle.description, receptive_field=narrow))
    with pytest.raises(
        SonorantError, match=r"onnxruntime/fp32: parts: graph vocoder, output samples, .* in \d+ parts: differs"
    ):
        verify(bundle)


@dataclasses.dataclass
class Faulty:
    """A runtime whose stepper changes the state before each step: what no graph by itself can show."""

    right: TokenRuntime
    change: Callable[[State], State]

    def encode(self, tokens: np.ndarray, lengths: np.ndarray, speaker: np.ndarray) -> np.ndarray:
        return self.right.encode(tokens, lengths, speaker)

    def vocode(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self.right.vocode(codes, lengths)

    def stepper(self) -> FaultyStepper:
        return FaultyStepper(self.right.stepper(), self.change)


@dataclasses.dataclass
class FaultyStepper:
    """Of a `Faulty` runtime."""

    right: Any
    change: Callable[[State], State]

    def begin(self, *fed: Any) -> None:
        self.right.begin(*fed)

    def run(self, state: State, steps: int) -> State:
        for _ in range(steps):
            state = self.right.run(self.change(state), 1)
        return state


FAULTS: dict[str, Callable[[State], State]] = {
    "position": lambda state: state._replace(position_B=state.position_B + 1),
    "age": lambda state: state._replace(age_B=np.zeros_like(state.age_B)),
    "codes": lambda state: state._replace(codes_BG=state.codes_BG[:, ::-1].copy()),
    "pointer": lambda state: state._replace(pointer_B=np.maximum(state.pointer_B - 1, 0)),
    "survival": lambda state: state._replace(log_survival_B=np.zeros_like(state.log_survival_B)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tokens_tell_of_faults_between_the_graphs(fault: str, codec_lm_variants: Path, expected: Expected) -> None:
    right = load_runtime("onnxruntime", read_bundle(codec_lm_variants), LoadOptions(variant="fp32"))
    likelihoods = expected.runtime.likelihoods
    found = check_tokens(right, expected, likelihoods, 1.0, 1e-3)
    assert found["identical"] and found["decisions"] > 100
    faulty = Faulty(right, FAULTS[fault])
    with pytest.raises(
        Fault,
        match=r"^graph step, output tokens, length \d+, batch \d: \S+% of the greedy tokens are not those of torch,",
    ):
        check_tokens(faulty, expected, likelihoods, 1.0, 1e-3)
    with pytest.raises(Fault, match=r"of the greedy tokens are not those of torch in a batch"):
        check_tokens(faulty, each_row(expected), likelihoods, 1.0, 1e-3)


def test_a_row_that_ends_at_another_frame_is_found(codec_lm_variants: Path, expected: Expected) -> None:
    """The pointer stays on the last phoneme whether it has left it or not: told torch's tokens, only the end itself
    differs."""
    right = load_runtime("onnxruntime", read_bundle(codec_lm_variants), LoadOptions(variant="fp32"))

    def wait(state: State) -> State:
        standing = state.pointer_B == lengths_B - 1
        return state._replace(log_survival_B=np.where(standing, np.float32(100), state.log_survival_B))

    case = min(expected.cases, key=lambda case: case.tokens)
    lengths_B = case.inputs["lengths"]
    alone = dataclasses.replace(expected, cases=[case])
    with pytest.raises(Fault, match=rf"^graph step, output tokens, length {case.lengths[0] - 1}, batch 1: "):
        check_tokens(Faulty(right, wait), alone, expected.runtime.likelihoods, 1.0, 1e-3)


def test_a_choice_between_equals_is_no_fault_and_a_share_may_be_allowed(
    codec_lm_variants: Path, expected: Expected
) -> None:
    right = load_runtime("onnxruntime", read_bundle(codec_lm_variants), LoadOptions(variant="fp32"))
    faulty, likelihoods = Faulty(right, FAULTS["age"]), expected.runtime.likelihoods
    allowed = check_tokens(faulty, expected, likelihoods, 0.01, 1e-3)
    assert not allowed["identical"] and 0.01 < allowed["share"] < 1.0 and allowed["ties"] == 0
    tied = check_tokens(faulty, expected, likelihoods, 1.0, 1e9)  # as if all codes were equally likely
    assert tied["share"] == 1.0 and tied["ties"] > 0 and not tied["identical"]


def test_every_output_of_a_row_is_compared_with_the_row_alone(
    codec_lm_variants: Path, expected: Expected, verify_config: VerifyConfig, trained_prompted: tuple[Path, Path]
) -> None:
    candidate = TokenCandidate(
        read_bundle(codec_lm_variants), "onnxruntime", "fp32", trained_prompted, expected, expected, verify_config
    )
    sound = candidate.measured()
    assert check_padding(sound, expected.cases)["rows"] == 3

    def moved(graph: str, inputs: Arrays) -> Arrays:
        assert sound.graphs is not None
        outputs = sound.graphs(graph, inputs)
        if graph == "step" and len(inputs["codes"]) > 1:
            outputs["new_value_1"] = outputs["new_value_1"] + np.float32(0.1)
        return outputs

    with pytest.raises(Fault, match=r"graph step, output new_value_1, length \d+, batch 3: differs from the row alone"):
        check_padding(dataclasses.replace(sound, graphs=moved), expected.cases)
    with pytest.raises(Fault, match=r"graph encoder, output states, length \d+, batch 3: differs from the row alone"):
        check_padding(dataclasses.replace(sound, runtime=InBatches(sound.runtime)), expected.cases)


@dataclasses.dataclass
class InBatches:
    """A runtime whose states differ as soon as there are others."""

    right: TokenRuntime

    def encode(self, tokens: np.ndarray, lengths: np.ndarray, speaker: np.ndarray) -> np.ndarray:
        return self.right.encode(tokens, lengths, speaker) + np.float32(0.1 * (len(tokens) > 1))

    def vocode(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return self.right.vocode(codes, lengths)

    def stepper(self) -> Any:
        return self.right.stepper()


def test_a_row_of_a_case_is_what_torch_makes_of_it_alone(expected: Expected) -> None:
    """The cases' own cutting, on the reference: states, caches, steps and path of a row."""
    together = next(case for case in expected.cases if case.batch == 3)
    for number in range(3):
        row = together.row(number)
        np.testing.assert_allclose(row.states, expected.runtime.runtime.encode(**row.inputs), atol=1e-5)
        told = zip(expected.runtime.likelihoods(row), expected.runtime.likelihoods(together), strict=True)
        for step, (alone, in_batch) in enumerate(told):
            if step < row.lengths[0]:
                for one, all_of_them in zip(alone, in_batch, strict=True):
                    np.testing.assert_allclose(one[0], all_of_them[number], atol=1e-4)
        assert row.codes.shape[1] == row.lengths[0] > 0 and row.rules.budget_B.shape == (1,)
        assert (row.prefilled["position"] >= 0).sum() == 1 + row.tokens + row.prompt_lengths[0]
