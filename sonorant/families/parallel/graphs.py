"""Export the trained models of the `parallel` family as graphs of a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sonorant.audio.pitch import ROWS, SOURCE_ROWS, with_source
from sonorant.export.distances import Arrays
from sonorant.export.onnx_graph import ExportConfig, Traced, write_graph
from sonorant.families.parallel.acoustic import AcousticModel
from sonorant.families.parallel.onnx_runtime import OnnxRuntime
from sonorant.families.parallel.prosody import PROSODY
from sonorant.families.parallel.saved import load_acoustic, load_vocoder
from sonorant.families.parallel.vocoder import Vocoder
from sonorant.speech.bundle import ReceptiveField
from sonorant.speech.decoding import DecodingConfig, DecodingDescription


@dataclass(frozen=True)
class ParallelModels:
    """An acoustic model and a vocoder; implements `sonorant.export.bundling.Models`."""

    predictor: AcousticModel
    waveform: Vocoder
    described: dict[str, Any]
    waveform_described: dict[str, Any]

    @classmethod
    def load(cls, predictor: Path, waveform: Path) -> ParallelModels:
        """Read the trained folders. Raises SonorantError if a folder contains a different kind of model."""
        (acoustic, described), (vocoder, waveform_described) = load_acoustic(predictor), load_vocoder(waveform)
        return cls(acoustic, vocoder, described, waveform_described)

    def check_pair(self, waveform: Path) -> None:
        """Accept any pair of models."""

    def write_graphs(self, files: dict[str, Path], config: ExportConfig) -> None:
        model, each, tokens = self.predictor, {0: "batch"}, {0: "batch", 1: "tokens"}
        example = {
            "tokens": torch.ones(2, 7, 3, dtype=torch.int64),
            "lengths": torch.tensor([7, 5]),
            "speaker": torch.zeros(2, dtype=torch.int64),
            "speed": torch.ones(2),
            "pitch": torch.zeros(2),
            "energy": torch.zeros(2),
        }
        inputs = dict.fromkeys(example, each) | {"tokens": tokens}
        write_graph(_Encoding(model), example, inputs, ("states", "ends"), files["encoder"], config)
        example = {
            "states": torch.zeros(2, 7, model.config.channels + PROSODY),
            "ends": torch.arange(1, 8).repeat(2, 1),
            "time": torch.arange(9),
        }
        inputs = {"states": tokens, "ends": tokens, "time": {0: "frames"}}
        write_graph(_Decoding(model), example, inputs, ("mel",), files["decoder"], config)
        example = {"mel": torch.zeros(2, self.vocoder_rows, 9), "lengths": torch.tensor([9, 8])}
        inputs = {"mel": {0: "batch", 2: "frames"}, "lengths": each}
        write_graph(_Vocoding(self.waveform), example, inputs, ("samples",), files["vocoder"], config)

    @property
    def vocoder_rows(self) -> int:
        """Number of rows in the vocoder's frames: those of the decoder and of the source."""
        return int(self.described["audio"]["n_mels"]) + ROWS + SOURCE_ROWS

    @property
    def receptive_field(self) -> ReceptiveField:
        return ReceptiveField(decoder=self.predictor.receptive_field, vocoder=self.waveform.receptive_field)

    def write_prompt(self, path: Path, config: ExportConfig) -> bool:
        """Return False: the family supports no prompts."""
        return False

    def graph_inputs(self, files: dict[str, Path], batches: Sequence[Arrays]) -> dict[str, list[Arrays]]:
        """Compute the inputs with ONNX Runtime; see `Models.graph_inputs`."""
        runtime = OnnxRuntime(files, threads=1)
        inputs: dict[str, list[Arrays]] = {"encoder": list(batches), "decoder": [], "vocoder": []}
        for batch in batches:
            states, ends = runtime.encode(**batch)
            time = np.arange(ends[:, -1].max())
            inputs["decoder"].append({"states": states, "ends": ends, "time": time})
            audio = self.described["audio"]
            decoded = [runtime.decode(states, ends, time)]
            (frames,) = with_source(decoded, audio["sample_rate"], audio["hop"], self.vocoder_rows)
            inputs["vocoder"].append({"mel": frames, "lengths": ends[:, -1]})
        return inputs

    def decoding(self, defaults: DecodingConfig | None) -> DecodingDescription | None:
        """Return None: the family is not autoregressive."""
        return None


class _Encoding(Traced):
    def forward(
        self, tokens: Tensor, lengths: Tensor, speaker: Tensor, speed: Tensor, pitch: Tensor, energy: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.model.encode_speech(tokens, lengths, speaker, speed, pitch, energy)


class _Decoding(Traced):
    def forward(self, states: Tensor, ends: Tensor, time: Tensor) -> Tensor:
        return self.model.decode(states, ends, time)


class _Vocoding(Traced):
    def forward(self, mel: Tensor, lengths: Tensor) -> Tensor:
        return self.model(mel, lengths)
