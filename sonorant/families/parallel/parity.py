"""Parity checks of the `parallel` family: three graphs, each of which receives torch's output of the previous graph."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from sonorant.export.candidate import Candidate, Expected, NotRun, Trained, one_line
from sonorant.export.distances import batches
from sonorant.export.tolerance import FROM_FLOAT, Fault
from sonorant.families.parallel.parity_checks import (
    Measured,
    check_chunks,
    check_padding,
    check_values,
    follow,
    without_cases,
)
from sonorant.families.parallel.synthesis import OUTPUTS, Arrays, GraphRuntime
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime


class ReferenceRuntime(GraphRuntime):
    def __init__(self, graphs: dict[str, Path]) -> None:
        self._evaluators = {graph: ReferenceEvaluator(str(graphs[graph])) for graph in OUTPUTS}

    def run(self, graph: str, inputs: Arrays) -> Arrays:
        results: Any = self._evaluators[graph].run(OUTPUTS[graph], dict(inputs))
        return dict(zip(OUTPUTS[graph], results, strict=True))


SHORT = 3
"""Number of cases, the shortest, for the slow reference evaluator."""
NO_KERNEL = re.compile(r"NOT_IMPLEMENTED.*?implementation for (\w+)")
"""Pattern of ONNX Runtime's message for an operator without a kernel for a type."""


class ParallelCandidate(Candidate):
    """Checks the encoder, decoder and vocoder of one variant under one runtime."""

    @staticmethod
    def expect(bundle: Bundle, trained: Trained, utterances: Sequence[NDArray[np.integer]], name: str) -> Expected:
        """Compute the trained models' results for utterances (N, 3), alone and in a batch."""
        runtime: Any = load_runtime("torch", bundle, LoadOptions(trained=trained))
        inputs = batches(utterances, len(bundle.description.speakers))
        return Expected(runtime, [follow(runtime, one, bundle.description) for one in inputs], name)

    def computing(self) -> dict[str, Callable[[], Any]]:
        # On CPUs, ONNX Runtime computes fp16 in fp32.
        written = {"written": self._written} if self.variant == "fp16" and self.row.on_cpu_kernels else {}
        from_float = {"float": self._from_float} if self.variant == "int8" else {}
        return {"graphs": self._values, **from_float, **written, "padding": self._padding, "parts": self._parts}

    def refused(self, why: str) -> Exception:
        """Return the error for a runtime that refused a graph; compute variants without kernels with ONNX's reference
        evaluator."""
        lacking = NO_KERNEL.search(why)
        if lacking and self.variant in ("fp16", "bf16"):
            return NotRun(
                f"{self.runtime} has no kernel here for {lacking[1]} in {self.variant}; {self._by_reference()}"
            )
        return super().refused(why)

    def _measured(self, runtime: Runtime, variant: str | None = None) -> Measured:
        return Measured(runtime, self.audio, self.tolerance(variant))

    def _values(self) -> dict[str, Any]:
        return check_values(self._measured(self.loaded), self.expected)

    def _from_float(self) -> dict[str, Any]:
        return without_cases(check_values(self._measured(self.loaded, FROM_FLOAT), self.of_float))

    def _padding(self) -> dict[str, Any]:
        return check_padding(self._measured(self.loaded), self.expected.cases)

    def _parts(self) -> dict[str, Any]:
        longest = max(self.expected.cases, key=lambda case: len(case.time))
        return check_chunks(self._measured(self.loaded), longest, self.bundle.description.receptive_field)

    def _written(self) -> dict[str, Any]:
        runtime = ReferenceRuntime({graph: self.file(graph) for graph in self.bundle.graphs})
        short = sorted(self.expected.cases, key=lambda case: len(case.time) * case.batch)[:SHORT]
        expected = Expected(self.expected.runtime, short, self.expected.name)
        return without_cases(check_values(self._measured(runtime), expected))

    def _by_reference(self) -> str:
        try:
            graphs = self._written()
        except Fault as fault:
            return f"onnx's reference evaluator on {SHORT} short cases is beyond tolerance: {fault}"
        except Exception as error:  # operators raise any class
            return f"onnx's reference evaluator does not run it either: {type(error).__name__}: {one_line(error)}"
        figures = ", ".join(f"{graph} {found['max_abs_diff']:.2g}" for graph, found in graphs.items())
        return f"onnx's reference evaluator on {SHORT} short cases is within tolerance; largest differences: {figures}"
