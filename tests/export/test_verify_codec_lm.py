import dataclasses
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sonorant.export.candidate import Expected
from sonorant.export.distances import Arrays
from sonorant.export.tolerance import Fault
from sonorant.extras.codec_lm.decoding.session import TokenRuntime
from sonorant.extras.codec_lm.decoding.state import State
from sonorant.extras.codec_lm.parity import TokenCandidate
from sonorant.extras.codec_lm.parity_checks import check_padding, check_tokens, each_row
from sonorant.files import read_json, write_json
from sonorant.speech.runtimes import LoadOptions, load_runtime
from tests.export.conftest import UTTERANCES, Parity
from tests.export.planted import plant
from tests.support.runtimes import Replaced


@pytest.fixture(scope="session")
def expected(codec_lm: Parity) -> Expected:
    return TokenCandidate.expect(codec_lm.bundle, codec_lm.trained, UTTERANCES, "torch")


@pytest.fixture(scope="session")
def right(codec_lm: Parity) -> TokenRuntime:
    loaded: TokenRuntime = load_runtime("onnxruntime", codec_lm.bundle, LoadOptions(variant="fp32"))
    return loaded


def replace_by(other: onnx.ModelProto, model: onnx.ModelProto) -> None:
    model.CopyFrom(other)


@pytest.fixture
def with_float_codec(codec_lm: Parity, expected: Expected, tmp_path: Path) -> Callable[..., TokenCandidate]:
    """with_float_codec(quantization=None, allowed=1.0) -> int8 candidate with a float codec."""
    folder = codec_lm.folder
    for graph in ("decoder", "vocoder"):
        as_float = onnx.load(codec_lm.folder / f"{graph}.fp32.onnx")
        bundle = plant(folder, graph, "int8", partial(replace_by, as_float), tmp_path / graph)
        folder = bundle.folder
    speech, sound = codec_lm.quantized

    def make(quantization: dict[str, list[str]] | None = None, allowed: float = 1.0) -> TokenCandidate:
        codec = Path(shutil.copytree(sound, tmp_path / "codec", dirs_exist_ok=True))
        if quantization is not None:
            write_json(codec / "model.json", read_json(sound / "model.json") | {"quantization": quantization})
        config = dataclasses.replace(codec_lm.config, int8_size=allowed)
        return TokenCandidate(bundle, "onnxruntime", "int8", (speech, codec), expected, expected, config)

    return make


def test_a_codec_that_stays_in_float_is_not_asked_for_integers_and_no_other_is_spared(
    with_float_codec: Callable[..., TokenCandidate],
) -> None:
    found = with_float_codec({"layers": []}).checks["integers"]()
    assert found["decoder"] == found["vocoder"] == "not run: the model has no int8 layer"
    assert found["step"]["layers"] > 1
    with pytest.raises(Fault, match=r"^graph decoder: no layer has weights stored as int8"):
        with_float_codec().checks["integers"]()


def test_a_codec_that_others_trained_is_not_weighed_and_one_of_our_own_is(
    with_float_codec: Callable[..., TokenCandidate],
) -> None:
    """Both stay in float: one has no quantisable layer, the other loses too much."""
    bundle = with_float_codec().bundle
    int8, fp32 = (
        [bundle.graph_file(graph, variant).stat().st_size for graph in bundle.graphs] for variant in ("int8", "fp32")
    )
    share, of_all = sum(int8[:3]) / sum(fp32[:3]), sum(int8) / sum(fp32)
    assert share < of_all

    def size(float_layers: list[str], allowed: float) -> object:
        return with_float_codec({"layers": [], "float_layers": float_layers}, allowed).checks["size"]()

    told = f"the graphs encoder, prefill, step have {share:.4f} of fp32's bytes"
    assert size([], share) == told
    with pytest.raises(Fault, match=f"^{told}, but verify.int8_size allows 0.1; increase quantize.max_layer_loss"):
        size([], 0.1)
    told = f"^the graphs have {of_all:.4f} of fp32's bytes, "
    with pytest.raises(Fault, match=told):
        size(["enter"], share)


@dataclasses.dataclass
class FaultyStepper:
    """Changes the state before each step, which no single graph shows."""

    right: Any
    change: Callable[[State], State]

    def begin(self, *fed: Any) -> None:
        self.right.begin(*fed)

    def run(self, state: State, steps: int) -> State:
        for _ in range(steps):
            state = self.right.run(self.change(state), 1)
        return state


def faulty(right: TokenRuntime, change: Callable[[State], State]) -> Replaced:
    return Replaced(right, stepper=lambda: FaultyStepper(right.stepper(), change))


FAULTS: dict[str, Callable[[State], State]] = {
    "position": lambda state: state._replace(position_B=state.position_B + 1),
    "age": lambda state: state._replace(age_B=np.zeros_like(state.age_B)),
    "pointer": lambda state: state._replace(pointer_B=np.maximum(state.pointer_B - 1, 0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tokens_tell_of_faults_between_the_graphs(fault: str, right: TokenRuntime, expected: Expected) -> None:
    likelihoods = expected.runtime.likelihoods
    found = check_tokens(right, expected, likelihoods, 1.0, 1e-3)
    assert found["identical"] and found["decisions"] > 100
    wrong = faulty(right, FAULTS[fault])
    with pytest.raises(
        Fault,
        match=r"^graph step, output tokens, length \d+, batch \d: \S+% of the greedy tokens differ from those of torch",
    ):
        check_tokens(wrong, expected, likelihoods, 1.0, 1e-3)
    with pytest.raises(Fault, match=r"of the greedy tokens differ from those of torch in a batch"):
        check_tokens(wrong, each_row(expected), likelihoods, 1.0, 1e-3)


def test_a_row_that_ends_at_another_frame_is_found(right: TokenRuntime, expected: Expected) -> None:
    """The tokens are equal; only the end differs."""
    case = min(expected.cases, key=lambda case: case.tokens)
    lengths_B = case.inputs["lengths"]

    def wait(state: State) -> State:
        standing = state.pointer_B == lengths_B - 1
        return state._replace(log_survival_B=np.where(standing, np.float32(100), state.log_survival_B))

    alone = dataclasses.replace(expected, cases=[case])
    with pytest.raises(Fault, match=rf"^graph step, output tokens, length {case.lengths[0] - 1}, batch 1: "):
        check_tokens(faulty(right, wait), alone, expected.runtime.likelihoods, 1.0, 1e-3)


def test_a_choice_between_equals_is_no_fault_and_a_share_may_be_allowed(
    right: TokenRuntime, expected: Expected
) -> None:
    wrong, likelihoods = faulty(right, FAULTS["age"]), expected.runtime.likelihoods
    allowed = check_tokens(wrong, expected, likelihoods, 0.01, 1e-3)
    assert not allowed["identical"] and 0.01 < allowed["share"] < 1.0 and allowed["ties"] == 0
    tied = check_tokens(wrong, expected, likelihoods, 1.0, 1e9)  # as if all codes were equally likely
    assert tied["share"] == 1.0 and tied["ties"] > 0 and not tied["identical"]


def test_every_output_of_a_row_is_compared_with_the_row_alone(codec_lm: Parity, expected: Expected) -> None:
    sound = TokenCandidate(
        codec_lm.bundle, "onnxruntime", "fp32", codec_lm.trained, expected, expected, codec_lm.config
    ).measured()
    assert check_padding(sound, expected.cases)["rows"] == 3

    def moved(graph: str, inputs: Arrays) -> Arrays:
        outputs = sound.graphs(graph, inputs)
        if graph == "step" and len(inputs["codes"]) > 1:
            outputs["new_value_1"] = outputs["new_value_1"] + np.float32(0.1)
        return outputs

    def encode(tokens: np.ndarray, lengths: np.ndarray, speaker: np.ndarray) -> np.ndarray:
        return sound.runtime.encode(tokens, lengths, speaker) + np.float32(0.1 * (len(tokens) > 1))

    for wrong, output in (
        ({"graphs": moved}, "graph step, output new_value_1"),
        ({"runtime": Replaced(sound.runtime, encode=encode)}, "graph encoder, output states"),
    ):
        with pytest.raises(Fault, match=rf"{output}, length \d+, batch 3: differs from the row alone"):
            check_padding(dataclasses.replace(sound, **wrong), expected.cases)
