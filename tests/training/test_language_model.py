from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.language_model_training import LanguageModelLosses, LanguageModelRecipe
from sonorant.features.batches import Batch
from sonorant.features.codes import write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch
from sonorant.layers.alignment import ages, align, pointers, stay_at_end
from sonorant.training.initial import Initial
from sonorant.training.recipe import weighted
from sonorant.training.worker import recipe_of
from testbed.tiny_training import settings, tiny_job, tiny_recipe

STRIDE = 2


def recipe(features: Path, **changes: object) -> LanguageModelRecipe:
    found = tiny_recipe("language_model", features, **changes)
    assert isinstance(found, LanguageModelRecipe)
    return found


def losses(of: LanguageModelRecipe, training: bool = False) -> LanguageModelLosses:
    module = of.phases[0].module
    assert isinstance(module, LanguageModelLosses)
    return module.train(training)


def batch_of(of: LanguageModelRecipe, items: list[int]) -> Batch:
    return of.dataset([MicroBatch(0, 0, np.array(items))])[0]


@pytest.mark.parametrize("most_advance", [1, 3])
def test_a_pointer_visits_the_phonemes_in_order_and_leaves_the_last_with_the_frames(most_advance: int) -> None:
    generator = torch.Generator().manual_seed(3)
    tokens_B = torch.tensor([9, 4, 7])
    durations_BN = torch.randint(1, 9, (3, 9), generator=generator) * (torch.arange(9) < tokens_B[:, None])
    durations_BN[0, :3] = 1  # shorter than a code frame: some are skipped
    durations_BN[2, 3:7] = 1  # or left early, to reach the end in time
    frames_B = -(-durations_BN.sum(1) // STRIDE)
    steps = int(frames_B.max()) + 1
    path_BT = pointers(durations_BN, tokens_B, frames_B, STRIDE, most_advance, steps)
    assert path_BT.shape == (3, steps + 1)
    for path_T, tokens, frames, durations_N in zip(path_BT, tokens_B, frames_B, durations_BN, strict=True):
        assert path_T[0] == 0 and (path_T[frames:] == tokens).all() and (path_T[:frames] < tokens).all()
        assert (path_T.diff() >= 0).all() and (path_T.diff() <= most_advance).all()
        if most_advance == 3:
            owner = torch.repeat_interleave(torch.arange(9), durations_N)
            middle = (torch.arange(1, int(frames)) * STRIDE + STRIDE // 2).clamp(max=len(owner) - 1)
            assert torch.equal(path_T[1:frames], owner[middle])


def test_ages_count_from_the_last_move_and_the_pointer_stays_at_the_end() -> None:
    path_BT = torch.tensor([[0, 0, 1, 1, 1, 4, 5, 5], [0, 1, 2, 2, 2, 3, 3, 3]])
    assert ages(path_BT).tolist() == [[0, 1, 0, 1, 2, 0, 0, 1], [0, 0, 0, 1, 2, 0, 1, 2]]
    assert stay_at_end(path_BT, torch.tensor([6, 4])).tolist() == [[0, 0, 1, 1, 1, 4, 4, 4], [0, 1, 2, 2, 2, 2, 2, 2]]


def test_the_search_finds_which_prior_a_frame_was_made_of() -> None:
    generator = torch.Generator().manual_seed(5)
    prior_BNM = 3 * torch.randn(1, 4, 6, generator=generator)
    durations = torch.tensor([[3, 1, 5, 2]])
    mel_BTM = torch.repeat_interleave(prior_BNM, durations[0], dim=1) + 0.1 * torch.randn(1, 11, 6, generator=generator)
    assert torch.equal(align(prior_BNM, mel_BTM, torch.tensor([4]), torch.tensor([11])), durations)


def test_the_pull_to_the_diagonal_fades() -> None:
    given = torch.zeros(1, 4, 6), torch.zeros(1, 12, 6), torch.tensor([4]), torch.tensor([12])
    pulled, late, free = (align(*given, step, steps) for step, steps in ((0, 10), (10, 10), (0, 0)))
    assert pulled.tolist() == [[3, 3, 3, 3]] != free.tolist() == late.tolist()


def test_targets_are_the_codes_and_corruption_touches_inputs_alone(features: Path) -> None:
    clean, corrupted = (recipe(features, corruption=part, dropout=0.0) for part in (0.0, 0.9))
    batch = batch_of(clean, clean.items[:3].tolist())
    torch.manual_seed(0)
    first, second = (losses(of, training=True).predict(batch) for of in (clean, corrupted))
    assert torch.equal(first.codes_BTG, second.codes_BTG) and torch.equal(first.advances_BT, second.advances_BT)
    assert not torch.allclose(first.logits_BTGK, second.logits_BTGK)
    assert torch.equal(first.logits_BTGK[:, 0], second.logits_BTGK[:, 0]), "where no code is fed, none is replaced"
    for row, item in enumerate(clean.items[:3]):
        codes_FG = torch.from_numpy(clean.codes.codes(int(item)).astype(np.int64))
        for stream in range(clean.codes.codebooks):
            target_T = second.codes_BTG[row, :, stream]
            assert torch.equal(target_T[target_T >= 0], codes_FG[:, stream])
            assert (target_T[:stream] == -1).all() and target_T[stream] >= 0
        advances_T = second.advances_BT[row]
        assert int(advances_T[: len(codes_FG)].sum()) == clean.store.tokens_count[item]
        assert (advances_T[len(codes_FG) :] == -1).all()
    validated, again = (losses(corrupted).predict(batch).logits_BTGK for _ in range(2))
    assert torch.equal(validated, again), "validation is not corrupted"


def test_losses_of_rows_apart_add_up_to_the_batch(features: Path) -> None:
    of = recipe(features, corruption=0.0)
    items = of.items[:4].tolist()
    with torch.no_grad():
        module = losses(of)
        together = module(batch_of(of, items), 99)
        apart = [module(batch_of(of, [item]), 99) for item in items]
    for name, value in together.items():
        torch.testing.assert_close(value, torch.stack([one[name] for one in apart]).sum(), rtol=1e-4, atol=1e-4)
    units = of.units(MicroBatch(0, 0, np.array(items)))
    assert units["code_frames"] == sum(len(of.codes.codes(item)) for item in items)
    uniform = np.log(of.codes.codes_per_stream)
    assert float(together["codes"]) / units["code_frames"] == pytest.approx(uniform, rel=0.5), "of the size of a guess"
    assert float(weighted(of.phases[0], together, units)) > 0


def test_given_durations_are_used(features: Path) -> None:
    of = recipe(features)
    batch = batch_of(of, of.items[:2].tolist())
    found = losses(of).predict(batch).durations_BN
    last = batch["token_lengths"] - 1
    other = (torch.arange(found.shape[1]) < last[:, None]).to(found.dtype)
    other[torch.arange(2), last] = batch["mel_lengths"] - last
    said = losses(of).predict(batch | {"durations": other})
    assert torch.equal(said.durations_BN, other)
    assert not torch.equal(said.advances_BT, losses(of).predict(batch).advances_BT)


def test_an_utterance_with_too_many_phonemes_for_its_frames_is_named(features: Path, tmp_path: Path) -> None:
    store = FeatureStore.open(features)
    sizes = CodecConfig(**settings("codec")[0] | {"stride": 16})
    coarse = Codec(sizes, mels=store.audio.n_mels, n_fft=store.audio.n_fft, hop=store.audio.hop).eval()
    write_codes(tmp_path / "codes", "codec_lm", store, coarse, "none")

    def made(**changes: object) -> object:
        job = tiny_job("language_model", features, tmp_path, **changes)
        return recipe_of(replace(job, codes=str(tmp_path / "codes")))

    words = r"phonemes in only \d+ code frames; increase language_model.most_advance from 1 to at least [23]"
    with pytest.raises(SonorantError, match=words):
        made(most_advance=1)
    made(most_advance=3)


def test_the_description_holds_codec_and_pace(features: Path) -> None:
    of = recipe(features)
    said = of.description()
    assert said["kind"] == "language_model" and said["codec"] == of.codes.codec
    per_phoneme = [len(of.codes.codes(int(item))) / int(of.store.tokens_count[item]) for item in of.items]
    assert said["pace"]["frames_per_phoneme"]["median"] == pytest.approx(float(np.median(per_phoneme)))
    assert max(per_phoneme) >= said["pace"]["frames_per_phoneme"]["p99"] > float(np.median(per_phoneme))


def test_weights_of_another_codecs_codes_are_not_taken(features: Path) -> None:
    old, new = recipe(features), recipe(features, seed=2)
    description = old.description() | {"codec": old.codes.codec | {"sha256": "another"}}
    for said, fits in ((old.description(), True), (description, False)):
        taken = new.start_from(Initial(source="here", weights=old.model.state_dict(), description=said))
        assert ("code.weight" in taken.fitting) == ("logits.weight" in taken.fitting) == fits
        assert "transformer.norm.weight" in taken.fitting
