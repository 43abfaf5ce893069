"""Parity checks of one runtime with one variant. Each family subclasses `Candidate`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sonorant.audio.arrays import Integers
from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.export.graph_files import check_files, check_integers, check_interface
from sonorant.export.tolerance import Fault, Tolerance, VerifyConfig
from sonorant.files import read_json
from sonorant.plugins import load_family
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions, RuntimeRow, extra_runtimes, load_runtime, runtime_row

LONGEST_LINE = 300
"""Maximum number of characters of an error message."""
IN_FLOAT = "not run: the model has no int8 layer"
Trained = tuple[Path, Path]


class NotRun(Exception):
    """A candidate cannot run on this machine."""


@dataclass(frozen=True)
class Expected:
    """Output of the trained models in torch."""

    runtime: Any
    cases: Sequence[Any]
    name: str
    """Name for messages, such as "torch"."""


@dataclass(frozen=True)
class Candidate(ABC):
    """A runtime and a variant, with the reference output."""

    bundle: Bundle
    runtime: str
    variant: str
    trained: Trained | None
    """Folders of the models that were exported."""
    expected: Expected
    of_float: Expected
    config: VerifyConfig

    @staticmethod
    @abstractmethod
    def expect(bundle: Bundle, trained: Trained, utterances: Sequence[Integers], name: str) -> Expected:
        """Run the trained models on utterances of token ids (N, 3)."""

    @abstractmethod
    def computing(self) -> dict[str, Callable[[], Any]]:
        """Return the family's additional checks by name, in the form of `checks`."""

    @property
    def row(self) -> RuntimeRow:
        return runtime_row(self.runtime)

    @property
    def checks(self) -> dict[str, Callable[[], Any]]:
        """Checks in order, by key in the report; each returns its measurements."""
        files = {"files": self._files, "interface": self._interface, "static": self._static}
        if not self.row.standalone:  # runs the trained models
            files = {}
        integers = {"integers": self._integers} if self.variant == "int8" and self.row.on_cpu_kernels else {}
        size = {"size": self._size} if self.variant == "int8" and files else {}
        return {**files, **integers, "load": self._load, **self.computing(), **size}

    def _files(self) -> dict[str, Any]:
        found = check_files(self.bundle, self.variant)
        size, of_float = sum(found.values()), sum(check_files(self.bundle, "fp32").values())
        return {"bytes": size, "over_fp32": size / of_float, "graphs": found}

    def _interface(self) -> str:
        check_interface(self.bundle, self.variant)
        return "as every runtime expects"

    def _static(self) -> dict[str, Any]:
        """Check graphs; findings are errors only for strict runtimes."""
        checks = [extra.check_graph for extra in extra_runtimes().values()]
        findings = {
            graph: [finding for check in checks for finding in check(self.file(graph))] for graph in self.bundle.graphs
        }
        if self.row.strict and any(findings.values()):
            graph = next(graph for graph in self.bundle.graphs if findings[graph])
            raise Fault(f"graph {graph}: not supported by {self.row.name}: {findings[graph][0]}")
        return {"findings": findings}

    def _integers(self) -> dict[str, Any]:
        """Check integer computation in int8 graphs; a pretrained codec stays in float."""
        models = self._quantizations()
        return {
            graph: check_integers(graph, self.file(graph)) if model.get("layers") else IN_FLOAT
            for graph, model in models.items()
        }

    def _load(self) -> str:
        _ = self.loaded
        return "loaded"

    def _size(self) -> str:
        weighed = [
            graph for graph, model in self._quantizations().items() if model.get("layers") or model.get("float_layers")
        ]
        size, of_float = (
            sum(check_files(self.bundle, variant)[graph] for graph in weighed) for variant in ("int8", "fp32")
        )
        over_fp32, allowed = size / of_float, self.config.int8_size
        graphs = "the graphs" if len(weighed) == len(self.bundle.graphs) else f"the graphs {', '.join(weighed)}"
        if over_fp32 > allowed:
            raise Fault(
                f"{graphs} have {over_fp32:.4f} of fp32's bytes, but verify.int8_size allows {allowed:g}; increase "
                "quantize.max_layer_loss to keep fewer float_layers (listed in reports/quantization.json)"
            )
        return f"{graphs} have {over_fp32:.4f} of fp32's bytes"

    def _quantizations(self) -> dict[str, dict[str, Any]]:

        assert self.trained is not None
        speech, sound = (read_json(folder / "model.json").get("quantization", {}) for folder in self.trained)
        of_sound = load_family(self.bundle.description.family).waveform_graphs
        return {graph: sound if graph in of_sound else speech for graph in self.bundle.graphs}

    @cached_property
    def audio(self) -> MelConfig:
        return MelConfig(**asdict(self.bundle.description.audio))

    @cached_property
    def loaded(self) -> Any:
        """The loaded runtime. Raises the exception that `refused` returns."""
        try:
            return load_runtime(self.runtime, self.bundle, self.options())
        except SonorantError as error:
            raise self.refused(str(error)) from None

    def options(self) -> LoadOptions:
        return LoadOptions(variant=self.variant, trained=self.trained)

    def refused(self, why: str) -> Exception:
        """Return the exception for a runtime that does not load the variant."""
        # A runtime without requirements should load every variant.
        return NotRun(why) if self.row.needs else Fault(why)

    def tolerance(self, variant: str | None = None) -> Tolerance:
        return self.config.tolerance(variant or self.variant, self.bundle.description.family)

    def file(self, graph: str) -> Path:
        return self.bundle.graph_file(graph, self.variant)


def run_checks(candidate: Candidate) -> dict[str, Any] | str:
    """Run the checks until one fails. Returns `{passed, failed, <check>: measurements}` or "not run: <why>"."""
    found: dict[str, Any] = {"passed": False, "failed": None}
    for name, check in candidate.checks.items():
        told = "values" if name == "graphs" else name
        try:
            found[name] = check()
        except Fault as fault:
            return found | {"failed": f"{told}: {fault}"}
        except NotRun as why:
            return f"not run: {why}"
        except Exception as error:  # any class, such as a broken node or no memory
            return found | {"failed": f"{told}: {type(error).__name__}: {one_line(error)}"}
    return found | {"passed": True}


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:LONGEST_LINE]
