"""Export of the codec language model and its codec as graphs. The step graph is stateless: it computes attention scores
for the caller's cache and, separately, for the new position, and combines them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.export.distances import Arrays
from sonorant.export.onnx_graph import ExportConfig, Traced, write_graph
from sonorant.extras.codec_lm.codec import Codec
from sonorant.extras.codec_lm.codec_graphs import export_prompt, export_sound
from sonorant.extras.codec_lm.language_model import LanguageModel
from sonorant.extras.codec_lm.saved import AnyCodec, load_codec, load_language_model
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.extras.codec_lm.step_buffers import cache_names
from sonorant.files import sha256_file
from sonorant.layers.kv_cache import DynamicCache
from sonorant.speech.bundle import ReceptiveField
from sonorant.speech.decoding import DecodingConfig, DecodingDescription, Pace

LOWEST = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class CodecLanguageModels:
    """Implements `sonorant.export.bundling.Models`."""

    predictor: LanguageModel
    waveform: AnyCodec
    described: dict[str, Any]
    waveform_described: dict[str, Any]

    @classmethod
    def load(cls, predictor: Path, waveform: Path) -> CodecLanguageModels:
        (model, described), (codec, waveform_described) = load_language_model(predictor), load_codec(waveform)
        return cls(model, codec, described, waveform_described)

    def check_pair(self, waveform: Path) -> None:
        """Raise SonorantError if the language model was trained on a codec other than `waveform`."""
        if sha256_file(waveform / "weights.pt") != self.described["codec"]["sha256"]:
            raise SonorantError(
                f"{waveform}: not the codec that the language model was trained on; train the language model again: "
                "dvc repro train_predictor"
            )

    def write_graphs(self, files: dict[str, Path], config: ExportConfig) -> None:
        for graph, export in (("encoder", export_encoder), ("prefill", export_prefill), ("step", export_step)):
            export(self.predictor, files[graph], config)
        export_sound(self.waveform, files, config)

    @property
    def receptive_field(self) -> ReceptiveField:
        """Receptive fields of the decoder, in code frames, and of the vocoder, in frames of its input."""
        decoder = self.waveform.frames_receptive_field if isinstance(self.waveform, SourceCodec) else 0
        return ReceptiveField(decoder=decoder, vocoder=self.waveform.receptive_field)

    def write_prompt(self, path: Path, config: ExportConfig) -> bool:
        """Write the graph that encodes prompts. Returns False if there is none, for example for a pretrained codec."""
        if not self.predictor.config.prompt_frames or not isinstance(self.waveform, Codec):
            return False
        export_prompt(self.waveform, MelConfig(**self.described["audio"]), path, config)
        return True

    def graph_inputs(self, files: dict[str, Path], batches: Sequence[Arrays]) -> dict[str, list[Arrays]]:
        """Return no inputs, because the 16-bit variants run under torch on GPUs."""
        return {}

    def decoding(self, defaults: DecodingConfig | None) -> DecodingDescription:
        if defaults is None:
            raise SonorantError(
                "no decoding settings, which a bundle of the family codec_lm requires; add the section decoding to "
                "params.yaml"
            )
        config, codec, audio = self.predictor.config, self.waveform, self.described["audio"]
        return DecodingDescription(
            codebooks=codec.codebooks,
            codes=codec.codes,
            stride=codec.samples_per_frame // audio["hop"],
            samples_per_frame=codec.samples_per_frame,
            frames_per_second=audio["sample_rate"] / codec.samples_per_frame,
            silence=tuple(codec.silence.tolist()),
            layers=config.layers,
            heads=config.heads,
            head_width=config.channels // config.heads,
            advances=self.predictor.advances,
            attention=config.attention,
            window=config.window,
            prompt_frames=config.prompt_frames,
            frames_per_phoneme=Pace(**self.described["pace"]["frames_per_phoneme"]),
            defaults=defaults,
        )


class ExternalCache:
    """A read-only `Cache` held by the caller. Keys are stored transposed, as their product with a query requires."""

    def __init__(self, positions_BS: Tensor, keys_BHDS: list[Tensor], values_BHSD: list[Tensor]) -> None:
        """`positions_BS`: int64, -1 for empty slots; keys (B, H, D, S) and values (B, H, S, D): one per layer."""
        self.positions = positions_BS
        self._keys, self._values = keys_BHDS, values_BHSD
        self.new: list[Tensor] = []
        """The step's key and value of each layer, layer by layer, (B, H, D) each."""

    def take(self, position_BQ: Tensor) -> None:
        self.positions = torch.cat([self.positions, position_BQ], 1)

    def attend(self, layer: int, query_BHQD: Tensor, key_BHQD: Tensor, value_BHQD: Tensor, mask_B1QS: Tensor) -> Tensor:
        """Attend as `Cache.attend` does, with separate scores for the new position."""
        self.new += [key_BHQD[:, :, 0], value_BHQD[:, :, 0]]
        scale = query_BHQD.shape[3] ** -0.5
        scores = torch.cat([query_BHQD @ self._keys[layer], query_BHQD @ key_BHQD.transpose(2, 3)], 3) * scale
        share = torch.where(mask_B1QS, scores, LOWEST).softmax(3)
        return share[..., :-1] @ self._values[layer] + share[..., -1:] * value_BHQD


class _Encoding(Traced):
    def forward(self, tokens: Tensor, lengths: Tensor, speaker: Tensor) -> Tensor:
        return self.model.encode_speech(tokens, lengths, speaker)


class _Prefilling(Traced):
    def forward(self, states: Tensor, lengths: Tensor, prompt: Tensor, prompt_lengths: Tensor) -> tuple[Tensor, ...]:
        cache = DynamicCache(self.model.config.layers)
        self.model.prefill(states, lengths, prompt, prompt_lengths, cache)
        caches = [
            side for key, value in zip(cache.keys, cache.values, strict=True) for side in (key.transpose(2, 3), value)
        ]
        return *caches, cache.positions


class _Stepping(Traced):
    def forward(
        self, codes: Tensor, state: Tensor, age: Tensor, position: Tensor, slot_position: Tensor, caches: list[Tensor]
    ) -> tuple[Tensor, ...]:
        cache = ExternalCache(slot_position, caches[0::2], caches[1::2])
        logits, advance = self.model.step(codes, state, age, position, cache)
        return logits, advance, *cache.new


def export_encoder(model: LanguageModel, path: Path, config: ExportConfig) -> None:
    """Write the graph of `LanguageModel.encode_speech`. Raises SonorantError if it is invalid ONNX."""
    example = {
        "tokens": torch.ones(2, 7, 3, dtype=torch.int64),
        "lengths": torch.tensor([7, 5]),
        "speaker": torch.zeros(2, dtype=torch.int64),
    }
    inputs = {"tokens": {0: "batch", 1: "tokens"}, "lengths": {0: "batch"}, "speaker": {0: "batch"}}
    write_graph(_Encoding(model), example, inputs, ("states",), path, config)


def export_prefill(model: LanguageModel, path: Path, config: ExportConfig) -> None:
    """Write the graph of `LanguageModel.prefill`, for prompts of at least one frame: states, lengths, prompt,
    prompt_lengths -> key_<l> (batch, H, D, slots) and value_<l> (batch, H, slots, D) float32, position (batch, slots)
    int64, -1 = padding."""
    example = {
        "states": torch.zeros(2, 7, model.config.channels),
        "lengths": torch.tensor([7, 5]),
        "prompt": torch.zeros(2, 5, model.codebooks, dtype=torch.int64),
        "prompt_lengths": torch.tensor([5, 3]),
    }
    inputs = {
        "states": {0: "batch", 1: "tokens"},
        "lengths": {0: "batch"},
        "prompt": {0: "batch", 1: "prompt"},
        "prompt_lengths": {0: "batch"},
    }
    write_graph(_Prefilling(model), example, inputs, (*cache_names(model.config.layers), "position"), path, config)


def export_step(model: LanguageModel, path: Path, config: ExportConfig) -> None:
    """Write the graph of `LanguageModel.step`: codes, state, age, position, slot_position (batch, slots) int64, -1 =
    empty, key_<l>, value_<l> -> logits, advance, new_key_<l>, new_value_<l> (batch, H, D)."""
    settings, batch, slots = model.config, 2, 7
    heads, width = settings.heads, settings.channels // settings.heads
    key, value = torch.zeros(batch, heads, width, slots), torch.zeros(batch, heads, slots, width)
    example: dict[str, Tensor | list[Tensor]] = {
        "codes": torch.zeros(batch, model.codebooks, dtype=torch.int64),
        "state": torch.zeros(batch, settings.channels),
        "age": torch.zeros(batch, dtype=torch.int64),
        "position": torch.full((batch,), slots),
        "slot_position": torch.arange(slots).repeat(batch, 1),
        # Separate tensors, because the tracer merges a tensor passed twice into one input.
        "caches": [side.clone() for _ in range(settings.layers) for side in (key, value)],
    }
    caches = {
        name: {0: "batch", (3 if name.startswith("key") else 2): "slots"} for name in cache_names(settings.layers)
    }
    rows = {name: {0: "batch"} for name in ("codes", "state", "age", "position")}
    inputs = {**rows, "slot_position": {0: "batch", 1: "slots"}, **caches}
    outputs = ("logits", "advance", *(f"new_{name}" for name in caches))
    write_graph(_Stepping(model), example, inputs, outputs, path, config)
