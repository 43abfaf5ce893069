"""The variants fp16 and bf16 of exported graphs, measured on real utterances. Knows nothing of models or bundles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sonorant.export.cases import Arrays
from sonorant.export.half import FORMATS, to_half
from sonorant.export.onnx import ExportConfig
from sonorant.export.ranges import Kept, NodeRange, keep, measure
from sonorant.runtime.onnx import OnnxRuntime

TOLD = 5
"""Nodes of the largest values, and of the largest errors, in the report."""


def export_halves(
    files: dict[str, Path], batches: Sequence[Arrays], folder: Path, config: ExportConfig
) -> tuple[dict[str, dict[str, Path]], dict[str, Any]]:
    """Write `<graph>.<format>.onnx` for every format from float32 graphs.

    Args:
        files: the float32 graph by name.
        batches: real inputs of the encoder.
        folder: where to write.
        config: when a node stays in float32.

    Returns the written files by variant and graph, and the report: `{variant: {graph: {nodes, kept: [{node, operator, reason}],
    largest: [{node, operator, largest, loss}], loss: [the same]}}}`, the last two worst first.
    """
    inputs = _inputs(OnnxRuntime(files, threads=1), batches)
    written: dict[str, dict[str, Path]] = {}
    report: dict[str, Any] = {}
    for name, half in FORMATS.items():
        written[name], report[name] = {}, {}
        for graph, file in files.items():
            model = onnx.load(file)
            ranges = measure(model, inputs[graph], half)
            kept = keep(model, ranges, half, headroom=config.headroom, loss=config.max_loss)
            written[name][graph] = folder / f"{graph}.{name}.onnx"
            halved = to_half(model, half, [node.node for node in kept])
            written[name][graph].write_bytes(halved.SerializeToString(deterministic=True))
            report[name][graph] = _report(ranges, kept)
    return written, report


def _inputs(runtime: OnnxRuntime, batches: Sequence[Arrays]) -> dict[str, list[Arrays]]:
    """What each graph is given on the way from tokens to samples."""
    inputs: dict[str, list[Arrays]] = {"encoder": list(batches), "decoder": [], "vocoder": []}
    for batch in batches:
        states, ends = runtime.encode(**batch)
        time = np.arange(ends[:, -1].max())
        inputs["decoder"].append({"states": states, "ends": ends, "time": time})
        inputs["vocoder"].append({"mel": runtime.decode(states, ends, time), "lengths": ends[:, -1]})
    return inputs


def _report(ranges: Sequence[NodeRange], kept: Sequence[Kept]) -> dict[str, Any]:
    # JSON knows no infinity: what overflows is told by its reason.
    finite = [node for node in ranges if node.loss < float("inf") and node.largest < float("inf")]
    return {
        "nodes": len(ranges),
        "kept": [asdict(node) for node in kept],
        "largest": [asdict(node) for node in sorted(finite, key=lambda node: -node.largest)[:TOLD]],
        "loss": [asdict(node) for node in sorted(finite, key=lambda node: -node.loss)[:TOLD]],
    }
