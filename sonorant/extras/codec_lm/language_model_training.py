"""Training of the codec language model to predict codes and pointer advances along alignments."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from sonorant.checked import Partial, Share, Whole
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.language_model import LanguageModel, LanguageModelConfig, delay
from sonorant.features.batches import Batch
from sonorant.features.code_batches import CodeBatches, Prompts
from sonorant.features.codes import CodeStore
from sonorant.features.plan import MicroBatch
from sonorant.layers.alignment import ages, align, pointers, prior_loss, stay_at_end
from sonorant.training.initial import Initial, Taken
from sonorant.training.recipe import Phase, Term
from sonorant.training.utterances import Utterances, UtteranceTrainConfig, on_device_of, write_alignment


@dataclass(frozen=True, kw_only=True)
class LanguageModelTrainConfig(UtteranceTrainConfig):
    learning_rate: Share = 2e-3
    warmup_steps: Whole = 100
    corruption: Partial = 0.15
    """Fraction of input codes replaced with random ones, because decoding continues from the model's own mistakes."""


class Predicted(NamedTuple):
    """Teacher-forced predictions for a batch of T steps, and their targets."""

    logits_BTGK: Tensor
    advance_BTA: Tensor
    codes_BTG: Tensor
    """Target codes, int64; -1 where a codebook has not begun or has ended."""
    advances_BT: Tensor
    """Target advances, int64; -1 past the last frame."""
    prior_BNM: Tensor
    durations_BN: Tensor


class LanguageModelLosses(nn.Module):
    def __init__(
        self, model: LanguageModel, stride: int, config: LanguageModelTrainConfig, diagonal_steps: int
    ) -> None:
        super().__init__()
        self.model = model
        self.stride = stride
        self.config = config
        self.diagonal_steps = diagonal_steps

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Return the losses `codes` (mean over codebooks) and `advance`, summed over code frames, and `prior`, summed
        over mel frames."""
        return self.judge(self.predict(batch, step), batch)

    def judge(self, said: Predicted, batch: Batch) -> dict[str, Tensor]:
        codes, advance = (
            F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-1, reduction="sum")
            for logits, targets in (
                (said.logits_BTGK, said.codes_BTG),
                (said.advance_BTA, said.advances_BT),
            )
        )
        mel_BTM = self.model.normalize(batch["mel"])
        prior = prior_loss(said.prior_BNM, mel_BTM, said.durations_BN, batch["token_lengths"], batch["mel_lengths"])
        return {"codes": codes / self.model.codebooks, "advance": advance, "prior": prior}

    def predict(self, batch: Batch, step: int = 0) -> Predicted:
        """Return teacher-forced logits for every step; in training, some input codes are corrupted. If `batch` contains
        `durations` (B, N) int64 in mel frames, they replace the alignment search."""
        model, config = self.model, self.model.config
        lengths = batch["token_lengths"], batch["mel_lengths"]
        states_BNC, prior_BNM, mask_BN = model.encode_phonemes(
            batch["tokens"], batch["token_lengths"], batch["speaker"]
        )
        prior_BNM = prior_BNM.float()
        durations_BN = batch.get("durations")
        if durations_BN is None:
            durations_BN = align(prior_BNM, model.normalize(batch["mel"]), *lengths, step, self.diagonal_steps)
        grid_BTG, real_BTG = delayed(batch["codes"], batch["code_lengths"], model.codes)
        steps = grid_BTG.shape[1]
        spoken_BNC, spoken_B = model.spoken(states_BNC, mask_BN, batch["speaker"]), batch["token_lengths"]
        path_BT = pointers(durations_BN, spoken_B, batch["code_lengths"], self.stride, config.most_advance, steps)
        standing_BT = stay_at_end(path_BT[:, :-1], batch["code_lengths"])
        logits_BTGK, advance_BTA = model(
            spoken_BNC,
            spoken_B,
            batch["prompt"],
            batch["prompt_lengths"],
            self._corrupted(F.pad(grid_BTG, (0, 0, 1, 0), value=model.codes)[:, :-1]),
            standing_BT,
            ages(standing_BT),
            batch["code_lengths"] + model.codebooks - 1,
        )
        return Predicted(
            logits_BTGK,
            advance_BTA,
            grid_BTG.masked_fill(~real_BTG, -1),
            path_BT.diff(dim=1).clamp(max=config.most_advance).masked_fill(~real_BTG[..., 0], -1),
            prior_BNM,
            durations_BN,
        )

    def _corrupted(self, codes_BTG: Tensor) -> Tensor:
        if not self.model.training or not self.config.corruption:
            return codes_BTG
        hit_BTG = (torch.rand(codes_BTG.shape, device=codes_BTG.device) < self.config.corruption) & (
            codes_BTG < self.model.codes
        )
        return torch.where(hit_BTG, torch.randint_like(codes_BTG, self.model.codes), codes_BTG)


def delayed(codes_BFG: Tensor, lengths_B: Tensor, fill: int) -> tuple[Tensor, Tensor]:
    """Return the delayed grid (B, T, G) of codes (B, F, G) int64, and a bool mask of its real codes. `lengths_B`:
    frames of each row."""
    frame_F = torch.arange(codes_BFG.shape[1], device=codes_BFG.device)
    real_BFG = (frame_F[None] < lengths_B[:, None])[..., None].expand_as(codes_BFG)
    grid_BTG = delay(codes_BFG.masked_fill(~real_BFG, fill), fill)
    return grid_BTG, grid_BTG != fill


class LanguageModelRecipe(Utterances):
    name = "language_model"
    config: LanguageModelTrainConfig

    def __init__(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path) -> None:
        """`model`: fields of LanguageModelConfig and, for int8 layers, `quantization` from `model.json`; `train`:
        fields of LanguageModelTrainConfig; `codes`: token store of `features`."""
        self.config = LanguageModelTrainConfig(**train)
        super().__init__(self.name, self.config, features)
        self.codes = CodeStore.open(codes, self.store)
        sizes = LanguageModelConfig(**{key: value for key, value in model.items() if key != "quantization"})
        self._refuse_slow_pointers(sizes.most_advance)
        self.prompts = Prompts(self.store, self.codes, sizes.prompt_frames, self.config.seed)
        built = self._build(LanguageModelConfig, model, codec=self.codes.codec, pace=self._pace())
        self.model = cast(LanguageModel, built)
        self.diagonal_steps = self.config.diagonal_steps
        self.phases = [self.losses(self.model)]

    def _refuse_slow_pointers(self, most_advance: int) -> None:
        items = np.concatenate([self.items, self.validation_items])
        needed_U = -(-self.store.tokens_count[items] // self.codes.frames[items])
        if needed_U.max() > most_advance:
            worst = int(items[needed_U.argmax()])
            raise SonorantError(
                f"utterance {self.store.ids[worst]} has {self.store.tokens_count[worst]} phonemes in only "
                f"{self.codes.frames[worst]} code frames; increase language_model.most_advance from {most_advance} to "
                f"at least {needed_U.max()}, or use a codec with more frames per second"
            )

    def _pace(self) -> dict[str, Any]:
        frames_U = self.codes.frames[self.items] / self.store.tokens_count[self.items]
        return {"frames_per_phoneme": {"median": float(np.median(frames_U)), "p99": float(np.quantile(frames_U, 0.99))}}

    def _fetch(self, items: np.ndarray) -> None:
        super()._fetch(items)
        self.codes.fetch(items)

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        return CodeBatches(self.store, self.codes, batches, self.prompts)

    def units(self, batch: MicroBatch) -> dict[str, float]:
        return super().units(batch) | {"code_frames": float(self.codes.frames[batch.items].sum())}

    def losses(self, model: nn.Module) -> Phase:
        assert isinstance(model, LanguageModel)
        terms = {"codes": Term(1.0, "code_frames"), "advance": Term(1.0, "code_frames"), "prior": Term(1.0, "frames")}
        return Phase(
            "language_model", LanguageModelLosses(model, self.codes.stride, self.config, self.diagonal_steps), terms
        )

    @torch.no_grad()
    def write_sample(self, model: nn.Module, folder: Path) -> None:
        assert isinstance(model, LanguageModel)
        planned = self.example()
        batch = on_device_of(model, self.dataset([planned])[0])
        said = LanguageModelLosses(model, self.codes.stride, self.config, 0).predict(batch)
        durations_N = said.durations_BN[0]
        prior_TM = torch.repeat_interleave(said.prior_BNM[0], durations_N, dim=0) * model.mel_std + model.mel_mean
        target_MT = self.store.mel(int(planned.items[0])).T.astype(np.float32)
        np.savez_compressed(folder / "mel.npz", predicted=prior_TM.T.cpu().numpy(), target=target_MT)
        write_alignment(folder / "alignment.npz", durations_N)

    def start_from(self, initial: Initial) -> Taken:
        """Copy the initial weights, except those for codes if they were learned with a different codec."""
        if initial.description["codec"]["sha256"] != self.codes.codec["sha256"]:
            weights = {
                name: value for name, value in initial.weights.items() if name.split(".")[0] not in ("code", "logits")
            }
            initial = replace(initial, weights=weights)
        return super().start_from(initial)
