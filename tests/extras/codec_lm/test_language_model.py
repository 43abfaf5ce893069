from typing import Any

import pytest
import torch

from sonorant.extras.codec_lm.language_model import AGES, LanguageModel, LanguageModelConfig, delay
from sonorant.layers.attention import Kind
from sonorant.layers.kv_cache import Cache, DynamicCache, StaticCache

STREAMS, CODES = 2, 7
KINDS: list[Kind] = ["full", "sliding", "block"]
CONFIG: dict[str, Any] = {
    "channels": 16, "expansion": 2, "encoder_blocks": 1, "encoder_kernel": 3, "layers": 2, "heads": 2, "dropout": 0.1,
    "feed_forward": 24, "attention": "full", "window": 5, "most_advance": 3, "prompt_frames": 0, "prior_kernel": 0,
}  # fmt: skip
LENGTHS = torch.tensor([6, 3, 4])
PROMPTS = torch.tensor([0, 2, 4])
STEPS = torch.tensor([13, 9, 11])


def model_of(**changes: Any) -> LanguageModel:
    torch.manual_seed(0)
    config = LanguageModelConfig(**CONFIG | changes)
    model = LanguageModel(config, symbols=9, speakers=2, mels=5, codebooks=STREAMS, codes=CODES)
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter)
    return model.eval()


def inputs() -> dict[str, torch.Tensor]:
    """Arguments of `forward` except states, for three rows of different text, prompt and length; padding is noise."""
    generator = torch.Generator().manual_seed(1)
    steps = int(STEPS.max())
    time_T = torch.arange(steps)
    return {
        "lengths_B": LENGTHS,
        "prompt_BPG": torch.randint(0, CODES, (3, 4, STREAMS), generator=generator),
        "prompt_lengths_B": PROMPTS,
        "codes_BTG": torch.randint(0, CODES + 1, (3, steps, STREAMS), generator=generator),
        "pointer_BT": torch.minimum(time_T // 3, LENGTHS[:, None] - 1),
        "age_BT": (time_T % 3).expand(3, -1) * AGES // 2,
        "steps_B": STEPS,
    }


def states_of(model: LanguageModel) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    tokens_BN3 = torch.randint(0, 2, (3, int(LENGTHS.max()), 3), generator=generator)
    return model.encode_speech(tokens_BN3, LENGTHS, torch.tensor([0, 1, 0]))


def cache_of(kind: str, model: LanguageModel) -> Cache:
    if kind == "dynamic":
        return DynamicCache(model.config.layers)
    width = model.config.channels // model.config.heads
    memory = [torch.zeros(3 * 32 * model.config.channels) for _ in range(2 * model.config.layers)]
    return StaticCache(memory, batch=3, heads=model.config.heads, slots=32, width=width)


@torch.no_grad()
@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize(("prompt_frames", "cache_kind"), [(0, "dynamic"), (4, "static")])
def test_all_at_once_equals_step_by_step(attention: Kind, prompt_frames: int, cache_kind: str) -> None:
    model = model_of(attention=attention, prompt_frames=prompt_frames)
    states_BNC, given = states_of(model), inputs()
    logits_BTGK, advance_BTA = model(states_BNC, **given)
    assert logits_BTGK.shape == (3, 13, STREAMS, CODES) and advance_BTA.shape == (3, 13, model.advances)
    cache = cache_of(cache_kind, model)
    model.prefill(states_BNC, LENGTHS, given["prompt_BPG"], PROMPTS, cache)
    before_B = 1 + PROMPTS
    for t in range(int(STEPS.max())):
        state_BC = states_BNC[torch.arange(3), given["pointer_BT"][:, t]]
        logits, advance = model.step(given["codes_BTG"][:, t], state_BC, given["age_BT"][:, t], before_B + t, cache)
        real_B = t < STEPS
        torch.testing.assert_close(logits[real_B], logits_BTGK[real_B, t], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(advance[real_B], advance_BTA[real_B, t], rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("attention", KINDS)
def test_a_row_is_as_it_would_be_alone(attention: Kind) -> None:
    model = model_of(attention=attention, prompt_frames=4)
    states_BNC, given = states_of(model), inputs()
    logits_BTGK, advance_BTA = model(states_BNC, **given)
    for row in range(3):
        tokens, steps = int(LENGTHS[row]), int(STEPS[row])
        own = {name: value[row : row + 1] for name, value in given.items()}
        own["prompt_BPG"] = own["prompt_BPG"][:, : max(1, int(PROMPTS[row]))]
        own |= {name: own[name][:, :steps] for name in ("codes_BTG", "pointer_BT", "age_BT")}
        logits, advance = model(states_BNC[row : row + 1, :tokens], **own)
        torch.testing.assert_close(logits[0], logits_BTGK[row, :steps], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(advance[0], advance_BTA[row, :steps], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_step_knows_what_was_fed_and_nothing_later() -> None:
    model = model_of()
    states_BNC, given = states_of(model), inputs()
    before, _ = model(states_BNC, **given)
    for name in ("codes_BTG", "pointer_BT", "age_BT"):
        changed = given[name].clone()
        changed[0, 7] = (changed[0, 7] + 1) % 3
        after, _ = model(states_BNC, **{**given, name: changed})
        torch.testing.assert_close(after[0, :7], before[0, :7])
        assert not torch.allclose(after[0, 7], before[0, 7]), name


@torch.no_grad()
def test_ages_beyond_the_last_are_the_last() -> None:
    model, given = model_of(), inputs()
    states_BNC = states_of(model)
    first, last, later = (
        model(states_BNC, **{**given, "age_BT": torch.full_like(given["age_BT"], age)})[0][0]
        for age in (0, AGES - 1, 9 * AGES)
    )
    assert torch.equal(last, later) and not torch.allclose(first, last)


@torch.no_grad()
def test_a_step_sees_the_pointers_phoneme_and_the_mean_of_all() -> None:
    model, given = model_of(), inputs()
    states_BNC = states_of(model)
    wanted_T = model(states_BNC, **given)[0][0]
    moved, _ = model(states_BNC, **{**given, "pointer_BT": torch.zeros_like(given["pointer_BT"])})
    assert not torch.allclose(moved[0, -1], wanted_T[-1], atol=1e-6)
    swapped_BNC = states_BNC.clone()
    swapped_BNC[0, [4, 5]] = states_BNC[0, [5, 4]]  # the same mean, and not yet reached at step 7
    torch.testing.assert_close(model(swapped_BNC, **given)[0][0, 7], wanted_T[7], rtol=0, atol=1e-6)


@pytest.mark.parametrize("codebooks", [1, 2, 4])
def test_each_stream_stands_a_step_later_than_the_one_before(codebooks: int) -> None:
    codes_BFG = torch.randint(0, 9, (2, 5, codebooks))
    grid_BTG = delay(codes_BFG, 9)
    assert grid_BTG.shape == (2, 5 + codebooks - 1, codebooks)
    for stream in range(codebooks):
        assert torch.equal(grid_BTG[:, stream : stream + 5, stream], codes_BFG[..., stream])
    assert int((grid_BTG == 9).sum()) == 2 * codebooks * (codebooks - 1), "what is no code is filled"


def test_contradictions_are_refused() -> None:
    wrong = {"heads": 3, "encoder_kernel": 4}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            LanguageModelConfig(**CONFIG | {name: value})
