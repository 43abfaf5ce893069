from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.export.candidate import Candidate, Expected, Trained
from sonorant.export.distances import batches, difference
from sonorant.export.onnx_graph import ExportConfig, write_graph
from sonorant.layers.model_folder import load_model
from sonorant.speech.bundle import Bundle, ReceptiveField
from sonorant.speech.runtimes import LoadOptions, load_runtime


@dataclass(frozen=True)
class ToyModels:
    """See `sonorant.export.bundling.Models`."""

    hummer: Any
    buzzer: Any
    described: dict[str, Any]
    waveform_described: dict[str, Any]

    @classmethod
    def load(cls, predictor: Path, waveform: Path) -> ToyModels:
        (hummer, described), (buzzer, about) = load_model(predictor, "toy_hummer"), load_model(waveform, "toy_buzzer")
        return cls(hummer, buzzer, described, about)

    receptive_field = ReceptiveField(decoder=0, vocoder=0)

    def check_pair(self, waveform: Path) -> None:
        """Any pair fits."""

    def write_graphs(self, files: dict[str, Path], config: ExportConfig) -> None:
        tokens = {"tokens": torch.ones(2, 7, 3, dtype=torch.int64), "lengths": torch.tensor([7, 5])}
        axes = {"tokens": {0: "batch", 1: "tokens"}, "lengths": {0: "batch"}}
        write_graph(self.hummer, tokens, axes, ("mel", "frames"), files["hum"], config)
        mel = {"mel": torch.zeros(2, self.described["audio"]["n_mels"], 9)}
        write_graph(self.buzzer, mel, {"mel": {0: "batch", 2: "frames"}}, ("samples",), files["buzz"], config)

    def write_prompt(self, path: Path, config: ExportConfig) -> bool:
        return False

    def graph_inputs(self, files: dict[str, Path], batches: Any) -> dict[str, Any]:
        """None: no 16-bit variants."""
        return {}

    def decoding(self, defaults: Any) -> None:
        """The toy decodes no codes."""


class ToyCandidate(Candidate):
    """Two graphs, each given torch's output of the previous step."""

    @staticmethod
    def expect(bundle: Bundle, trained: Trained, utterances: Sequence[NDArray[np.integer]], name: str) -> Expected:
        """torch's results for utterances, alone and together."""
        runtime = load_runtime("torch", bundle, LoadOptions(trained=trained))
        cases = []
        for inputs in batches(utterances, 1):
            given = (inputs["tokens"], inputs["lengths"])
            mel, frames = runtime.hum(*given)
            cases.append((given, mel, runtime.vocode(mel, frames)))
        return Expected(runtime, cases, name)

    def computing(self) -> dict[str, Callable[[], Any]]:
        return {"graphs": self._values}

    def _values(self) -> dict[str, Any]:
        largest = {"hum": 0.0, "buzz": 0.0}
        for inputs, mel, samples in self.expected.cases:
            got = {
                "hum": ("mel", self.loaded.hum(*inputs)[0], mel),
                "buzz": ("samples", self.loaded.vocode(mel, None), samples),
            }
            for graph, (output, found, wanted) in got.items():
                far = difference(output, found, wanted, self.audio, graph)
                far.check(self.tolerance(), graph, self.expected.name)
                largest[graph] = max(largest[graph], far.max_abs_diff)
        allowed = self.tolerance().max_abs_diff
        return {graph: {"max_abs_diff": value, "tolerance": allowed} for graph, value in largest.items()}
