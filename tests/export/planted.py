"""Faults planted in the files of a real bundle, whose description agrees with them: only computing with a graph can
tell."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from sonorant.runtime.bundle import Bundle, read_bundle
from tests.evaluation.variants import replace_graph

Change = Callable[[onnx.ModelProto], None]


def plant(bundle: Path, graph: str, variant: str, change: Change, out: Path) -> Bundle:
    """A copy of a bundle with one graph changed."""
    shutil.copytree(bundle, out)
    model = onnx.load(out / f"{graph}.{variant}.onnx")
    change(model)
    changed = out.parent / "changed.onnx"
    onnx.save(model, changed)
    replace_graph(out, graph, variant, changed)
    return read_bundle(out)


def change_constant(match: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Apply `change` to the last constant whose name holds `match`."""

    def apply(model: onnx.ModelProto) -> None:
        constant = next(constant for constant in reversed(model.graph.initializer) if match in constant.name)
        values = change(numpy_helper.to_array(constant).copy())
        constant.CopyFrom(numpy_helper.from_array(values, constant.name))

    return apply


def change_matrix(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Apply `change` to the last learned matrix."""

    def apply(model: onnx.ModelProto) -> None:
        floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
        matrix = next(w for w in reversed(model.graph.initializer) if len(w.dims) == 2 and w.data_type in floats)
        matrix.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(matrix).copy()), matrix.name))

    return apply


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    """Multiply by a factor, in the constant's own type."""
    return lambda values: (values * factor).astype(values.dtype)


def with_nan(values: np.ndarray) -> np.ndarray:
    """One value that is none."""
    values.flat[0] = np.nan
    return values
