"""Codec language model: predicts a codec's codes from phonemes, frame by frame. A pointer moves through the phonemes;
each step receives the encoder state at the pointer and the pointer's age, the number of steps it has stayed. Shapes: B
batch, N phonemes, F code frames, G codebooks, K codes per codebook, T decoding steps, P prompt frames, C channels, A
advance classes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.checked import Count, Partial, Size, Whole
from sonorant.layers.attention import Kind
from sonorant.layers.kv_cache import Cache
from sonorant.layers.phoneme_encoder import PhonemeEncoder, check_prior_kernel
from sonorant.layers.transformer import Packing, Transformer

AGES = 32
"""Number of distinct pointer ages; later steps share the last one."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    channels: Size = 256
    """Number of channels in the phoneme encoder and transformer."""
    expansion: Size = 3
    """Hidden width of an encoder block's MLP as a multiple of `channels`."""
    encoder_blocks: Size = 4
    """Number of ConvNeXt blocks in the phoneme encoder."""
    encoder_kernel: Size = 5
    """Kernel size of the encoder blocks in phonemes; odd."""
    prior_kernel: Whole = 3
    """Number of phonemes on which the alignment's prior depends, odd; with 0, the prior uses the encoder's states."""
    layers: Size = 6
    """Number of transformer layers."""
    heads: Size = 4
    """Number of attention heads; channels / heads must be even."""
    feed_forward: Size = 704
    """Hidden width of a transformer layer's MLP."""
    dropout: Partial = 0.15
    """Dropout probability in encoder and transformer, at least 0 and below 1."""
    attention: Kind = "full"
    """Which earlier positions a position attends to: `full`, `sliding` or `block` (see layers/attention.py)."""
    window: Count = 128
    """Positions that `sliding` and `block` attention reach; ignored by `full`."""
    most_advance: Size = 3
    """Maximum number of phonemes that the pointer moves in one step."""
    prompt_frames: Whole = 0
    """Maximum length of a reference recording in code frames; 0 means that the voice accepts none."""

    def __post_init__(self) -> None:
        if self.encoder_kernel % 2 == 0:
            raise ValueError("encoder_kernel must be odd")
        check_prior_kernel(self.prior_kernel)
        if self.channels % (2 * self.heads):
            raise ValueError(f"channels ({self.channels}) must be a multiple of 2 * heads ({2 * self.heads})")


class LanguageModel(PhonemeEncoder):
    """Decoder-only transformer over code frames; codebook g is delayed by g steps (Copet et al. 2023, "MusicGen")."""

    float_parts = (*PhonemeEncoder.float_parts, "prior", "advance")
    """Modules that stay float in int8: the prior is not exported, and the few weights of `advance` determine all
    durations."""

    def __init__(self, config: LanguageModelConfig, *, codebooks: int, codes: int, **of_corpus: Any) -> None:
        """`codebooks`: number of codebooks; `codes`: number of codes per codebook; `of_corpus`: see
        `PhonemeEncoder`."""
        super().__init__(config, **of_corpus)
        self.config = config
        self.codebooks, self.codes, self.advances = codebooks, codes, config.most_advance + 1
        width = config.channels
        self.code = nn.Embedding(codebooks * (codes + 1), width)  # one row per codebook for "no code"
        self.age = nn.Embedding(AGES, width)
        self.start = nn.Parameter(torch.zeros(width))
        self.text = nn.Linear(width, width, bias=False)
        self.prompt = nn.Parameter(torch.zeros(width)) if config.prompt_frames else None
        self.transformer = Transformer(
            config.layers, width, config.heads, config.feed_forward, config.dropout, config.attention, config.window
        )
        self.logits = nn.Linear(width, codebooks * codes, bias=False)
        self.advance = nn.Linear(width, self.advances)
        for embedding in (self.code, self.age):
            nn.init.normal_(embedding.weight, std=0.3)

    def encode_speech(self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor) -> Tensor:
        """Encode tokens (B, N, 3) int64, with lengths and speaker (B,) int64 -> states (B, N, C) float32, zero past
        each length."""
        states_BNC, _, mask_BN = self.encode_phonemes(tokens_BN3, lengths_B, speaker_B)
        return self.spoken(states_BNC, mask_BN, speaker_B)

    def spoken(self, states_BNC: Tensor, mask_BN: Tensor, speaker_B: Tensor) -> Tensor:
        return ((states_BNC + self.speaker(speaker_B)[:, None]) * mask_BN[..., None]).float()

    def forward(
        self,
        states_BNC: Tensor,
        lengths_B: Tensor,
        prompt_BPG: Tensor,
        prompt_lengths_B: Tensor,
        codes_BTG: Tensor,
        pointer_BT: Tensor,
        age_BT: Tensor,
        steps_B: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Compute all steps of whole utterances in parallel; equivalent to `prefill` followed by single `step` calls.

        Args:
            states_BNC: (B, N, C) float32 from `encode_speech`; lengths_B: (B,) int64.
            prompt_BPG: (B, P, G) int64, P at least 1, with lengths (B,) int64 from 0.
            codes_BTG: (B, T, G) int64, input codes of each step: the delayed grid, shifted by one step.
            pointer_BT, age_BT: (B, T) int64, see `sonorant.layers.alignment`.
            steps_B: (B,) int64, number of real steps.

        Returns:
            logits (B, T, G, K) float32 and advance (B, T, A) float32; undefined past a row's steps.
        """
        before_BSC, valid_BS = self._before(states_BNC, lengths_B, prompt_BPG, prompt_lengths_B)
        steps = codes_BTG.shape[1]
        state_BTC = states_BNC.gather(1, pointer_BT[..., None].expand(-1, -1, states_BNC.shape[2]))
        x_BTC = torch.cat([before_BSC, self._step_input(codes_BTG, state_BTC, age_BT)], dim=1)
        real_BT = torch.arange(steps, device=steps_B.device)[None] < steps_B[:, None]
        valid_BT = torch.cat([valid_BS, real_BT], dim=1)
        # Padding moves to the end, so that positions and windows count real slots only.
        packing = Packing(valid_BT)
        hidden_BTC = packing.unpack(self.transformer(packing.pack(x_BTC)))
        return self._heads(hidden_BTC[:, before_BSC.shape[1] :])

    def prefill(
        self, states_BNC: Tensor, lengths_B: Tensor, prompt_BPG: Tensor, prompt_lengths_B: Tensor, cache: Cache
    ) -> None:
        """Fill `cache` with the start slot and the prompt's P slots. Padded slots get position -1 and no RoPE position.
        Arguments as in `forward`."""
        before_BSC, valid_BS = self._before(states_BNC, lengths_B, prompt_BPG, prompt_lengths_B)
        position_BS = valid_BS.float().cumsum(1).long() - 1  # float: TensorRT lacks cumsum and clamp of integers
        self.transformer.step(before_BSC, torch.where(valid_BS, position_BS, -1), cache)

    def step(
        self, codes_BG: Tensor, state_BC: Tensor, age_B: Tensor, position_B: Tensor, cache: Cache
    ) -> tuple[Tensor, Tensor]:
        """Compute one step: codes (B, G) int64 (K means no code), state at the pointer (B, C), age and RoPE position
        (B,) int64 -> logits (B, G, K) and advance (B, A) float32. Extends `cache`."""
        x_B1C = self._step_input(codes_BG[:, None], state_BC[:, None], age_B[:, None])
        logits_B1GK, advance_B1A = self._heads(self.transformer.step(x_B1C, position_B[:, None], cache))
        return logits_B1GK[:, 0], advance_B1A[:, 0]

    def _before(
        self, states_BNC: Tensor, lengths_B: Tensor, prompt_BPG: Tensor, prompt_lengths_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the inputs of the slots that precede the codes (B, S, C), and whether each slot is real (B, S)
        bool."""
        mean_BC = states_BNC.sum(1) / lengths_B[:, None].float().clamp(min=1.0)
        # Three axes, because ONNX Runtime fuses a 2D product and sum into one Gemm, which stays float in an int8 graph.
        start_B1C = self.start + self.text(mean_BC[:, None])
        prompt_BPC = self._embed(prompt_BPG)
        if self.prompt is not None:
            prompt_BPC = prompt_BPC + self.prompt
        started_B1 = torch.ones_like(lengths_B, dtype=torch.bool)[:, None]
        prompted_BP = torch.arange(prompt_BPG.shape[1], device=lengths_B.device)[None] < prompt_lengths_B[:, None]
        return torch.cat([start_B1C, prompt_BPC], dim=1), torch.cat([started_B1, prompted_BP], dim=1)

    def _embed(self, codes_BTG: Tensor) -> Tensor:
        offset_G = torch.arange(self.codebooks, device=codes_BTG.device) * (self.codes + 1)
        return self.code(codes_BTG + offset_G).sum(2)

    def _step_input(self, codes_BTG: Tensor, state_BTC: Tensor, age_BT: Tensor) -> Tensor:
        x_BTC = self._embed(codes_BTG) + self.age(torch.where(age_BT < AGES, age_BT, AGES - 1))
        return x_BTC + self.text(state_BTC)

    def _heads(self, hidden_BTC: Tensor) -> tuple[Tensor, Tensor]:
        logits_BTGK = self.logits(hidden_BTC).float().unflatten(2, (self.codebooks, self.codes))
        return logits_BTGK, self.advance(hidden_BTC).float()


def delay(codes_BFG: Tensor, fill: int) -> Tensor:
    """Delay codebook g of codes (B, F, G) int64 by g steps -> grid (B, F + G - 1, G), with `fill` elsewhere."""
    codebooks = codes_BFG.shape[2]
    shifted = [
        F.pad(codes_BFG[..., stream], (stream, codebooks - 1 - stream), value=fill) for stream in range(codebooks)
    ]
    return torch.stack(shifted, dim=2)
