"""Proof that a bundle's graphs compute what the trained models compute. Knows nothing of how the graphs were written.

Durations are rounded to whole frames. Where a sum of durations lies within rounding error of a half, torch and a runtime may
rightly differ by one frame. So an encoder whose values differ is compared once more at a slightly other speed: a tie does not survive
that, a fault does. The report tells which cases were compared again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.export.cases import batches
from sonorant.export.voice import describe_graph
from sonorant.runtime.bundle import GRAPHS, Bundle
from sonorant.runtime.runtimes import LoadOptions, Runtime, load_runtime

NUDGE = 1.003
"""Factor on the speed of a second comparison: moves every sum of durations."""
INTERFACE = {
    "encoder": (
        {"tokens": "int64", "lengths": "int64", "speaker": "int64", "speed": "float32"},
        {"states": "float32", "ends": "int64"},
    ),
    "decoder": ({"states": "float32", "ends": "int64", "time": "int64"}, {"mel": "float32"}),
    "vocoder": ({"mel": "float32", "lengths": "int64"}, {"samples": "float32"}),
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
    `length` counts tokens for the encoder and frames for the others, of the longest in the batch.

    Raises SonorantError naming graph, output, length and difference where names, dtypes, shapes or values are not those of torch, or
    a value is not finite.
    """
    expected = load_runtime("torch", bundle, LoadOptions(trained=trained))
    actual = load_runtime("onnxruntime", bundle, LoadOptions())
    _check_interface(bundle)
    cases: dict[str, list[dict[str, Any]]] = {graph: [] for graph in GRAPHS}
    for inputs in tqdm(list(batches(utterances, len(bundle.description.speakers))), desc="verify", unit="case"):
        for graph, case in zip(GRAPHS, _cases(expected, actual, inputs, config.max_abs_diff), strict=True):
            cases[graph].append(case)
    return {graph: _summary(compared, config.max_abs_diff) for graph, compared in cases.items()}


def _cases(expected: Runtime, actual: Runtime, inputs: Arrays, tolerance: float) -> Iterator[dict[str, Any]]:
    """A row of the report for each graph. Each is given what torch gave before it, so that only its own faults count."""
    batch = len(inputs["lengths"])
    (states, ends), encoder = _compare_encoder(expected, actual, inputs)
    again = encoder.value > tolerance
    if again:
        (states, ends), encoder = _compare_encoder(expected, actual, inputs | {"speed": inputs["speed"] * np.float32(NUDGE)})
    yield _case("encoder", int(inputs["lengths"].max()), batch, encoder, tolerance) | {"compared_again": again}
    frames = ends[:, -1]
    time = np.arange(frames.max())
    mel = expected.decode(states, ends, time)
    yield _case("decoder", len(time), batch, compare({"mel": mel}, {"mel": actual.decode(states, ends, time)}), tolerance)
    samples = compare({"samples": expected.vocode(mel, frames)}, {"samples": actual.vocode(mel, frames)})
    yield _case("vocoder", len(time), batch, samples, tolerance)


def _compare_encoder(
    expected: Runtime, actual: Runtime, inputs: Arrays
) -> tuple[tuple[NDArray[np.float32], NDArray[np.int64]], Difference]:
    states, ends = expected.encode(**inputs)
    got_states, got_ends = actual.encode(**inputs)
    return (states, ends), compare({"states": states, "ends": ends}, {"states": got_states, "ends": got_ends})


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
