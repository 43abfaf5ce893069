"""The parity checks of the family parallel: three graphs, each given torch's output of the one before. ONNX's reference
evaluator computes formats that no runtime here has kernels for, slowly, in the file's own types."""

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
from sonorant.families.parallel.parity_checks import check_chunks, check_padding, check_values, follow, without_cases
from sonorant.families.parallel.synthesis import OUTPUTS, Arrays, GraphRuntime
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions, load_runtime


class ReferenceRuntime(GraphRuntime):
    """One evaluator a graph."""

    def __init__(self, graphs: dict[str, Path]) -> None:
        self._evaluators = {graph: ReferenceEvaluator(str(graphs[graph])) for graph in OUTPUTS}
        self.prosody = "pitch" in self._evaluators["encoder"].input_names

    def run(self, graph: str, inputs: Arrays) -> Arrays:
        results: Any = self._evaluators[graph].run(OUTPUTS[graph], dict(inputs))
        return dict(zip(OUTPUTS[graph], results, strict=True))


SHORT = 3
"""Cases that ONNX' reference evaluator computes: the shortest."""
NO_KERNEL = re.compile(r"NOT_IMPLEMENTED.*?implementation for (\w+)")
"""How ONNX Runtime says that it lacks an operator in some type."""


class ParallelCandidate(Candidate):
    """Encoder, decoder and vocoder of one variant under one runtime."""

    def computing(self) -> dict[str, Callable[[], Any]]:
        """Values, distance from float, fp16 as written, padding, parts."""
        # ONNX Runtime's CPU kernels of fp16 are those of fp32 between casts, many of which it removes: so once more as
        # the file says.
        written = {"written": self._written} if self.variant == "fp16" and self.row.on_cpu_kernels else {}
        from_float = {"float": self._from_float} if self.variant == "int8" else {}
        return {"graphs": self._values, **from_float, **written, "padding": self._padding, "parts": self._parts}

    def refused(self, why: str) -> Exception:
        """As of any candidate; a variant that lacks kernels alone is computed by ONNX' reference evaluator."""
        lacking = NO_KERNEL.search(why)
        if lacking and self.variant in ("fp16", "bf16"):
            return NotRun(
                f"{self.runtime} has no kernel here for {lacking[1]} in {self.variant}; {self._by_reference()}"
            )
        return super().refused(why)

    def _values(self) -> dict[str, Any]:
        return check_values(self.loaded, self.expected, self.audio, self.tolerance())

    def _from_float(self) -> dict[str, Any]:
        return without_cases(check_values(self.loaded, self.of_float, self.audio, self.tolerance(FROM_FLOAT)))

    def _padding(self) -> dict[str, Any]:
        return check_padding(self.loaded, self.expected.cases, self.audio, self.tolerance())

    def _parts(self) -> dict[str, Any]:
        longest = max(self.expected.cases, key=lambda case: len(case.time))
        return check_chunks(self.loaded, longest, self.bundle.description.receptive_field, self.audio, self.tolerance())

    def _written(self) -> dict[str, Any]:
        """The graphs under ONNX' reference evaluator, in the very types of their files."""
        runtime = ReferenceRuntime({graph: self.file(graph) for graph in self.bundle.graphs})
        short = sorted(self.expected.cases, key=lambda case: len(case.time) * case.batch)[:SHORT]
        expected = Expected(self.expected.runtime, short, self.expected.name)
        return without_cases(check_values(runtime, expected, self.audio, self.tolerance()))

    def _by_reference(self) -> str:
        """What ONNX' reference evaluator says of a variant that nothing here runs, as part of a sentence."""
        try:
            graphs = self._written()
        except Fault as fault:
            return f"by onnx's reference evaluator on {SHORT} short cases it is wrong: {fault}"
        except Exception as error:  # of any class, as the operators' code raises it
            return f"onnx's reference evaluator does not run it either: {type(error).__name__}: {one_line(error)}"
        figures = ", ".join(f"{graph} {found['max_abs_diff']:.2g}" for graph, found in graphs.items())
        return (
            f"by onnx's reference evaluator on {SHORT} short cases it is within tolerance, largest differences "
            f"{figures}"
        )


def expect_parallel(bundle: Bundle, trained: Trained, utterances: Sequence[NDArray[np.integer]], name: str) -> Expected:
    """What the trained models compute of utterances (N, 3) each, alone and together, at several speeds."""
    runtime: Any = load_runtime("torch", bundle, LoadOptions(trained=trained))
    inputs = batches(utterances, len(bundle.description.speakers))
    return Expected(runtime, [follow(runtime, one, bundle.description) for one in inputs], name)
