"""Proof that a bundle's graphs compute what the trained models compute. Knows nothing of how the graphs were written.

Durations are rounded to whole frames. Where a sum of durations lies within rounding error of a half, torch and a runtime may
rightly differ by one frame, and what follows is shifted. So a case whose values differ is compared once more at a slightly other
speed: a tie does not survive that, a fault does. The report tells which cases were compared again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.export.cases import batches
from sonorant.export.voice import describe_graph
from sonorant.runtime.bundle import Bundle
from sonorant.runtime.runtimes import LoadOptions, Runtime, load_runtime

NUDGE = 1.003
"""Factor on the speed of a second comparison: moves every sum of durations."""
INTERFACE = {
    "acoustic": (
        {"tokens": "int64", "lengths": "int64", "speaker": "int64", "speed": "float32"},
        {"mel": "float32", "mel_lengths": "int64"},
    ),
    "vocoder": ({"mel": "float32"}, {"samples": "float32"}),
}
"""Names and dtypes of inputs and outputs that every runtime counts on."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """How close is equal."""

    max_abs_diff: float
    """Largest difference from torch, on log-mel (natural logarithm) and on samples (full scale 1)."""

    def __post_init__(self) -> None:
        if not 0 < self.max_abs_diff < 1:
            raise ValueError(f"max_abs_diff must lie between 0 and 1, not {self.max_abs_diff}")


@dataclass(frozen=True)
class Difference:
    """How far the outputs of one case are from torch's."""

    output: str
    """The output that differs most."""
    value: float
    """Largest absolute difference; infinite where the values cannot be compared."""
    words: str
    """The same for a person."""


def verify_voice(
    bundle: Bundle, trained: tuple[Path, Path], utterances: Sequence[NDArray[np.integer]], config: VerifyConfig
) -> dict[str, dict[str, Any]]:
    """Compare the bundle under ONNX Runtime with the trained models under torch.

    Args:
        bundle: the voice.
        trained: trained folders of the acoustic model and of the vocoder.
        utterances: token ids (N, 3) each, shortest first; compared alone and as padded batches, at several speeds.
        config: the tolerance.

    Returns `{graph: {max_abs_diff, tolerance, worst: {length, output}, cases: [{length, batch, output, max_abs_diff, ...}]}}`;
    `length` counts tokens for the acoustic graph and frames for the vocoder, of the longest in the batch.

    Raises SonorantError naming graph, output, length and difference where names, dtypes, shapes or values are not those of torch, or
    a value is not finite.
    """
    expected = load_runtime("torch", bundle, LoadOptions(trained=trained))
    actual = load_runtime("onnxruntime", bundle, LoadOptions())
    _check_interface(bundle)
    cases: dict[str, list[dict[str, Any]]] = {"acoustic": [], "vocoder": []}
    for inputs in tqdm(list(batches(utterances, len(bundle.description.speakers))), desc="verify", unit="case"):
        mel, acoustic = _acoustic_case(expected, actual, inputs, config.max_abs_diff)
        cases["acoustic"].append(acoustic)
        cases["vocoder"].append(_vocoder_case(expected, actual, mel, config.max_abs_diff))
    return {graph: _summary(compared, config.max_abs_diff) for graph, compared in cases.items()}


def _acoustic_case(
    expected: Runtime, actual: Runtime, inputs: Arrays, tolerance: float
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """torch's mel, for the vocoder to go on from, and the row of the report."""
    mel, difference = _compare_acoustic(expected, actual, inputs)
    again = difference.value > tolerance
    if again:
        mel, difference = _compare_acoustic(expected, actual, inputs | {"speed": inputs["speed"] * np.float32(NUDGE)})
    return mel, _case("acoustic", int(inputs["lengths"].max()), len(mel), difference, tolerance) | {"compared_again": again}


def _compare_acoustic(expected: Runtime, actual: Runtime, inputs: Arrays) -> tuple[NDArray[np.float32], Difference]:
    mel, mel_lengths = expected.acoustic(**inputs)
    got_mel, got_lengths = actual.acoustic(**inputs)
    return mel, compare({"mel_lengths": mel_lengths, "mel": mel}, {"mel_lengths": got_lengths, "mel": got_mel})


def _vocoder_case(expected: Runtime, actual: Runtime, mel: NDArray[np.float32], tolerance: float) -> dict[str, Any]:
    difference = compare({"samples": expected.vocoder(mel)}, {"samples": actual.vocoder(mel)})
    return _case("vocoder", mel.shape[2], len(mel), difference, tolerance)


def compare(expected: Arrays, actual: Arrays) -> Difference:
    """The largest difference over all outputs; one of dtype, shape or a value that is not finite counts as infinite."""
    worst = Difference(next(iter(expected)), 0.0, "equal")
    for output, wanted in expected.items():
        got = actual[output]
        if got.dtype != wanted.dtype or got.shape != wanted.shape:
            return Difference(output, np.inf, f"{got.dtype} {got.shape} instead of torch's {wanted.dtype} {wanted.shape}")
        if not np.isfinite(wanted).all():
            return Difference(output, np.inf, "torch itself gives NaN or infinity")
        if not np.isfinite(got).all():
            return Difference(output, np.inf, "NaN or infinity")
        value = float(np.abs(got.astype(np.float64) - wanted).max(initial=0.0))
        if value > worst.value:
            worst = Difference(output, value, f"differs by {value:.3g} from torch")
    return worst


def _case(graph: str, length: int, batch: int, difference: Difference, tolerance: float) -> dict[str, Any]:
    if difference.value > tolerance:
        raise SonorantError(
            f"graph {graph}, output {difference.output}, length {length}, batch {batch}: {difference.words} "
            f"(verify.max_abs_diff is {tolerance:g}); do not use this voice"
        )
    return {"length": length, "batch": batch, "output": difference.output, "max_abs_diff": difference.value}


def _summary(cases: list[dict[str, Any]], tolerance: float) -> dict[str, Any]:
    worst = max(cases, key=lambda case: case["max_abs_diff"])
    return {
        "max_abs_diff": worst["max_abs_diff"],
        "tolerance": tolerance,
        "worst": {"length": worst["length"], "output": worst["output"]},
        "cases": cases,
    }


def _check_interface(bundle: Bundle) -> None:
    for name, (inputs, outputs) in INTERFACE.items():
        described, found = bundle.description.graphs[name], describe_graph(bundle.graph_file(name))
        for kind, wanted in (("inputs", inputs), ("outputs", outputs)):
            tensors = getattr(found, kind)
            got = {tensor.name: tensor.dtype for tensor in tensors}
            if got != wanted:
                raise SonorantError(f"graph {name}: its {kind} are {got}, must be {wanted}; export the voice again")
            if tensors != getattr(described, kind):
                raise SonorantError(f"graph {name}: its {kind} are not those that voice.json describes; export the voice again")
