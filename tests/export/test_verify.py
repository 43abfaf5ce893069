import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.export.distances import batches, shortened, spread_lengths
from sonorant.export.tolerance import Fault, VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.families.parallel.parity_checks import Measured, check_padding, follow
from sonorant.plugins import load_family
from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.runtimes import LoadOptions, load_runtime
from tests.export.conftest import UTTERANCES, Parity
from tests.export.planted import EXPAND, FAULTS, OUT, Change, plant, scale_constant
from tests.support.runtimes import Replaced

GRAPHS = {family: load_family(family).graphs for family in ("parallel", "codec_lm")}


def assert_compared(found: dict[str, Any], graphs: tuple[str, ...]) -> None:
    """Assert that a passed candidate was checked per graph, in a batch and in parts."""
    for graph in graphs:
        assert 0 <= found["graphs"][graph]["max_abs_diff"] <= found["graphs"][graph]["tolerance"]
        assert {case["batch"] for case in found["graphs"][graph]["cases"]} == {1, 3}
    assert found["padding"]["rows"] == 3
    assert found["parts"]["parts"] > 1


def passed(report: dict[str, Any]) -> set[str]:
    return {name for name, found in report.items() if isinstance(found, dict) and found["passed"]}


def test_every_precision_of_a_sound_voice_passes(parallel: Parity) -> None:
    report = parallel.verify(parallel.bundle)
    assert passed(report) == {
        *("onnxruntime/fp32", "onnxruntime/fp16", "onnxruntime/int8"),
        *("torch/fp32", "torch/bf16", "torch/int8"),
    }
    assert report["onnxruntime/bf16"].startswith("not run: onnxruntime has no kernel here for ")
    assert "onnx's reference evaluator on 3 short cases is within tolerance" in report["onnxruntime/bf16"]
    assert report["tensorrt/fp32"] == "not run: tensorrt is not among verify.runtimes"
    for name in passed(report):
        assert_compared(report[name], GRAPHS["parallel"])
    int8 = report["onnxruntime/int8"]
    assert {"float", "integers", "static", "files"} <= set(int8)
    # int8 is nearer to its own fake-quantised models than to float.
    assert int8["graphs"]["decoder"]["log_mel_db"] < int8["float"]["decoder"]["log_mel_db"]


def test_a_sound_voice_of_codes_passes_under_every_runtime_that_is_here(codec_lm: Parity) -> None:
    here = ["onnxruntime", "torch", "torch-static"]
    report = codec_lm.verify(codec_lm.bundle, runtimes=[*here, "tensorrt"])
    assert passed(report) == {f"{runtime}/{variant}" for runtime in here for variant in ("fp32", "int8")}
    assert report["tensorrt/fp32"].startswith("not run: the runtime tensorrt does not support the family codec_lm")
    for name in passed(report):
        assert_compared(report[name], GRAPHS["codec_lm"] if name.startswith("onnx") else ("encoder", "vocoder"))
        assert report[name]["tokens"]["share"] == report[name]["padding"]["tokens"]["share"] == 1.0


@pytest.mark.parametrize(
    ("parity", "graph", "variant", "change", "line"),
    [
        pytest.param(family, graph, variant, change, line, id=f"{family} {graph} {variant} {name}")
        for family, faults in FAULTS.items()
        for graph, variant, name, change, line in faults
    ],
    indirect=["parity"],
)
def test_a_planted_fault_stops_its_variant_and_no_other_and_one_of_float32_the_stage(
    parity: Parity, graph: str, variant: str, change: Change, line: str, tmp_path: Path
) -> None:
    bundle = plant(parity.folder, graph, variant, change, tmp_path / "planted")
    if variant == "fp32":
        with pytest.raises(SonorantError, match=rf"^onnxruntime/fp32: {line}.*; export or train the voice again$"):
            parity.verify(bundle)
        return
    stopped = parity.failures(bundle)
    assert set(stopped) == {f"onnxruntime/{variant}"}
    assert re.match(line, stopped[f"onnxruntime/{variant}"])


@pytest.mark.parametrize(
    ("method", "output", "by"),
    [("encode", "states", 0.1), ("encode", "ends", 2), ("decode", "mel", 0.1), ("vocode", "samples", 0.1)],
)
def test_every_output_of_a_row_is_compared_with_the_row_alone(
    method: str, output: str, by: float, parallel: Parity
) -> None:
    right = load_runtime("onnxruntime", parallel.bundle, LoadOptions(variant="fp32"))
    cases = [follow(right, one, parallel.bundle.description) for one in batches(UTTERANCES, 1)]
    audio = MelConfig(**dataclasses.asdict(parallel.bundle.description.audio))
    tolerance = parallel.config.tolerance("fp32", "parallel")
    assert check_padding(Measured(right, audio, tolerance), cases)["rows"] == 3

    def other_in_batches(*inputs: np.ndarray, **named: np.ndarray) -> Any:
        outputs = getattr(right, method)(*inputs, **named)
        values = outputs[("states", "ends").index(output)] if method == "encode" else outputs
        if len(values) > 1:
            values[0] += np.array(by, values.dtype)
        return outputs

    with pytest.raises(Fault, match=rf"graph \w+, output {output}, length \d+, batch 3: .*the row alone"):
        check_padding(Measured(Replaced(right, **{method: other_in_batches}), audio, tolerance), cases)


@pytest.mark.parametrize(
    ("parity", "scale", "graphs"),
    [("parallel", OUT, ["decoder"]), ("codec_lm", EXPAND, ["prefill", "step"])],
    indirect=["parity"],
)
def test_quantised_models_that_are_far_from_float_are_found(
    parity: Parity, scale: str, graphs: list[str], tmp_path: Path
) -> None:
    """Graphs and quantised models agree, and both are wrong."""
    speech = Path(shutil.copytree(parity.quantized[0], tmp_path / parity.quantized[0].name))
    weights = torch.load(speech / "weights.pt", weights_only=True)
    weights[scale] /= 16
    torch.save(weights, speech / "weights.pt")
    bundle = parity.bundle
    for graph in graphs:
        bundle = plant(bundle.folder, graph, "int8", scale_constant(scale, 1 / 16), tmp_path / f"with {graph}")
    stopped = parity.failures(bundle, (speech, parity.quantized[1]))
    assert set(stopped) == {f"{runtime}/int8" for runtime in parity.config.runtimes}
    for line in stopped.values():
        assert re.match(
            rf"float: graph ({'|'.join(graphs)}), output \w+, length \d+, batch \d: differs from torch, ", line
        )


@pytest.mark.parametrize("graph", ["decoder", "vocoder"])
def test_too_little_context_is_found(graph: str, parity: Parity) -> None:
    bundle = parity.bundle
    narrow = dataclasses.replace(bundle.description.receptive_field, **{graph: 0})
    bundle = Bundle(bundle.folder, dataclasses.replace(bundle.description, receptive_field=narrow))
    with pytest.raises(SonorantError, match=rf"^onnxruntime/fp32: parts: graph {graph}, output .* in \d+ parts: diff"):
        parity.verify(bundle, runtimes=["onnxruntime"])


def test_a_damaged_file_stops_its_variant(parallel: Parity, tmp_path: Path) -> None:
    shutil.copytree(parallel.folder, tmp_path / "voice")
    with (tmp_path / "voice/decoder.int8.onnx").open("ab") as file:
        file.write(b"x")
    [(stopped, why)] = parallel.failures(read_bundle(tmp_path / "voice"), runtimes=["onnxruntime"]).items()
    assert stopped == "onnxruntime/int8" and re.match(r"files: .*decoder\.int8\.onnx: damaged", why)


def test_int8_that_is_too_large_is_stopped_after_all_other_checks(parallel: Parity) -> None:
    report = parallel.verify(parallel.bundle, int8_size=0.1, runtimes=["onnxruntime"])
    assert passed(report) == {"onnxruntime/fp32", "onnxruntime/fp16"}
    why = r"size: the graphs have 0\.\d{4} of fp32's bytes, but verify\.int8_size allows 0\.1; increase "
    assert re.match(why, report["onnxruntime/int8"]["failed"])
    assert {"graphs", "float", "padding", "parts"} <= set(report["onnxruntime/int8"])


def test_what_verify_needs_is_asked_for(parallel: Parity) -> None:
    with pytest.raises(SonorantError, match="has int8 graphs; give verify the quantised models"):
        verify_voice(parallel.bundle, parallel.trained, UTTERANCES, parallel.config)
    with pytest.raises(ValueError, match="unknown runtime 'onxruntime'; use one of: onnxruntime, "):
        parallel.verify(parallel.bundle, runtimes=["onxruntime"])


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
    config = dataclasses.replace(verify_config, **limits)
    assert [config.tolerance("int8", family).relative_error for family in ("parallel", "codec_lm")] == [0.01, 0.02]
    assert config.tolerance("fp32", "parallel") == config.tolerance("fp32", "codec_lm")
    with pytest.raises(ValueError, match="relative_error has no tolerance for int8 of family codec_lm"):
        dataclasses.replace(config, relative_error=config.relative_error | {"int8": {"parallel": 0.01}})
