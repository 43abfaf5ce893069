"""One runtime with one variant on its way up the ladder. Knows the order of the rungs, nothing of other candidates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.export.fault import Fault
from sonorant.export.integers import check_integers
from sonorant.export.interface import check_files, check_interface
from sonorant.export.reference import ReferenceRuntime
from sonorant.export.rungs import Expected, check_padding, check_parts, check_values
from sonorant.export.tolerance import FROM_FLOAT, VerifyConfig
from sonorant.files import read_json
from sonorant.runtime.bundle import GRAPHS, Bundle
from sonorant.runtime.runtimes import LoadOptions, Runtime, load_runtime
from sonorant.tensorrt.rules import check_graph

SHORT = 3
"""Cases that ONNX' reference evaluator computes: the shortest."""
LONGEST_LINE = 300
"""Characters kept of what somebody else's code says went wrong."""
NO_KERNEL = re.compile(r"NOT_IMPLEMENTED.*?implementation for (\w+)")
"""How ONNX Runtime says that it lacks an operator in some type."""

Trained = tuple[Path, Path]


class NotRun(Exception):
    """A candidate cannot run on this machine, and why."""


@dataclass(frozen=True)
class Candidate:
    """What is checked, and against what."""

    bundle: Bundle
    runtime: str
    variant: str
    trained: Trained | None
    """The models that the variant was exported from."""
    expected: Expected
    """What those compute."""
    of_float: Expected
    """What the float models compute."""
    config: VerifyConfig

    @property
    def rungs(self) -> dict[str, Callable[[], Any]]:
        """Key in the report -> the check that gives the figures under it, in order."""
        files = {"files": self._files, "interface": self._interface, "static": self._static}
        if self.runtime.startswith("torch"):  # which runs the trained folders, no file of the bundle
            files = {}
        # ONNX Runtime's CPU kernels of fp16 are those of fp32 between casts, many of which it removes: so once more as the file says.
        written = {"written": self._written} if self.variant == "fp16" and self.runtime == "onnxruntime" else {}
        integers = {"integers": self._integers} if self.variant == "int8" and self.runtime == "onnxruntime" else {}
        from_float = {"float": self._from_float} if self.variant == "int8" else {}
        # Last: what is wrong is worth knowing before what is merely large.
        size = {"size": self._size} if self.variant == "int8" and files else {}
        return {
            **files,
            **integers,
            "load": self._load,
            "graphs": self._values,
            **from_float,
            **written,
            "padding": self._padding,
            "parts": self._parts,
            **size,
        }

    def _files(self) -> dict[str, Any]:
        found = check_files(self.bundle, self.variant)
        size, of_float = sum(found.values()), sum(check_files(self.bundle, "fp32").values())
        return {"bytes": size, "over_fp32": size / of_float, "graphs": found}

    def _interface(self) -> str:
        check_interface(self.bundle, self.variant)
        return "as every runtime counts on"

    def _static(self) -> dict[str, Any]:
        """A finding stops TensorRT alone: others do not have its rules."""
        findings = {graph: check_graph(self._file(graph)) for graph in GRAPHS}
        if self.runtime == "tensorrt" and any(findings.values()):
            graph = next(graph for graph in GRAPHS if findings[graph])
            raise Fault(f"graph {graph}: TensorRT would refuse it: {findings[graph][0]}")
        return {"findings": findings}

    def _integers(self) -> dict[str, Any]:
        return {graph: check_integers(graph, self._file(graph)) for graph in GRAPHS}

    def _load(self) -> str:
        _ = self._loaded
        return "loaded"

    def _values(self) -> dict[str, Any]:
        return check_values(self._loaded, self.expected, self._audio, self.config.tolerance(self.variant))

    def _from_float(self) -> dict[str, Any]:
        graphs = check_values(self._loaded, self.of_float, self._audio, self.config.tolerance(FROM_FLOAT))
        return {graph: {key: value for key, value in found.items() if key != "cases"} for graph, found in graphs.items()}

    def _padding(self) -> dict[str, Any]:
        return check_padding(self._loaded, self.expected.cases, self._audio, self.config.tolerance(self.variant))

    def _parts(self) -> dict[str, Any]:
        longest = max(self.expected.cases, key=lambda case: len(case.time))
        return check_parts(self._loaded, longest, self.bundle.description.context, self._audio, self.config.tolerance(self.variant))

    def _size(self) -> str:
        over_fp32, allowed = self._files()["over_fp32"], self.config.int8_size
        if over_fp32 > allowed:
            kept = ", ".join(self._float_layers()) or "none"
            raise Fault(
                f"the graphs have {over_fp32:.4f} of fp32's bytes, verify.int8_size allows {allowed:g}; layers left in float: {kept} "
                "(a larger quantize.max_layer_loss leaves fewer)"
            )
        return f"{over_fp32:.4f} of fp32's bytes"

    def _float_layers(self) -> list[str]:
        """Layers that `quantize` left in float, as `<kind of model> <layer>`."""
        return [
            f"{folder.name} {layer}"
            for folder in self.trained or ()
            for layer in read_json(folder / "model.json").get("quantization", {}).get("float_layers", [])
        ]

    @cached_property
    def _audio(self) -> MelConfig:
        return MelConfig(**asdict(self.bundle.description.audio))

    @cached_property
    def _loaded(self) -> Runtime:
        try:
            return load_runtime(self.runtime, self.bundle, LoadOptions(variant=self.variant, trained=self.trained))
        except SonorantError as error:
            lacking = NO_KERNEL.search(str(error))
            if lacking and self.variant in ("fp16", "bf16"):
                why = f"{self.runtime} has no kernel here for {lacking[1]} in {self.variant}; {self._by_reference()}"
                raise NotRun(why) from None
            if self.runtime == "onnxruntime":  # always installed: what it does not take is no fault of the machine
                raise Fault(str(error)) from None
            raise NotRun(str(error)) from None

    def _written(self) -> dict[str, Any]:
        """The graphs under ONNX' reference evaluator, in the very types of their files."""
        runtime = ReferenceRuntime({graph: self._file(graph) for graph in GRAPHS})
        short = sorted(self.expected.cases, key=lambda case: len(case.time) * case.batch)[:SHORT]
        expected = Expected(self.expected.runtime, short, self.expected.name)
        graphs = check_values(runtime, expected, self._audio, self.config.tolerance(self.variant))
        return {graph: {key: value for key, value in found.items() if key != "cases"} for graph, found in graphs.items()}

    def _by_reference(self) -> str:
        """What ONNX' reference evaluator says of a variant that nothing here runs, as part of a sentence."""
        try:
            graphs = self._written()
        except Fault as fault:
            return f"by onnx's reference evaluator on {SHORT} short cases it is wrong: {fault}"
        except Exception as error:  # of any class, as the operators' code raises it
            return f"onnx's reference evaluator does not run it either: {type(error).__name__}: {_line(error)}"
        figures = ", ".join(f"{graph} {found['max_abs_diff']:.2g}" for graph, found in graphs.items())
        return f"by onnx's reference evaluator on {SHORT} short cases it is within tolerance, largest differences {figures}"

    def _file(self, graph: str) -> Path:
        return self.bundle.graph_file(graph, self.variant)


def climb(candidate: Candidate) -> dict[str, Any] | str:
    """`{passed, failed, <rung>: figures}`, up to the first rung that fails, or "not run: <why>"."""
    found: dict[str, Any] = {"passed": False, "failed": None}
    for rung, check in candidate.rungs.items():
        try:
            found[rung] = check()
        except Fault as fault:
            return found | {"failed": f"{'values' if rung == 'graphs' else rung}: {fault}"}
        except NotRun as why:
            return f"not run: {why}"
        except Exception as error:  # of any class: a node that breaks, memory that runs out; the others have no part in it
            return found | {"failed": f"{'values' if rung == 'graphs' else rung}: {type(error).__name__}: {_line(error)}"}
    return found | {"passed": True}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:LONGEST_LINE]
