import pytest
import torch
from torch.nn import functional as F

from sonorant.layers.attention import Kind, SelfAttention, allowed, turns
from sonorant.layers.kv_cache import EMPTY, Cache, DynamicCache, StaticCache
from sonorant.layers.transformer import Packing

BATCH, CHANNELS, HEADS = 3, 32, 4
KINDS: list[Kind] = ["full", "sliding", "block"]
WINDOWS = [1, 5, 8, 36, 37, 60]
"""1, non-divisors, one less than the length, equal, more."""
LENGTH = 37


def attention(kind: Kind, window: int) -> SelfAttention:
    torch.manual_seed(window)
    return SelfAttention(CHANNELS, HEADS, kind, window)


def written_out(
    layer: SelfAttention, x_BTC: torch.Tensor, position_BT: torch.Tensor, valid_BT: torch.Tensor
) -> torch.Tensor:
    """Full masked attention with complex rotations."""
    query, key, value = (
        part.unflatten(-1, (layer.heads, layer.width)).transpose(1, 2) for part in layer.project(x_BTC).chunk(3, dim=-1)
    )
    seen = allowed(layer.kind, layer.window, position_BT[:, :, None], position_BT[:, None, :]) & valid_BT[:, None, :]
    mask = (seen | ~valid_BT[:, :, None])[:, None]
    turned = by_complex(query, position_BT), by_complex(key, position_BT)
    return layer.out(F.scaled_dot_product_attention(*turned, value, attn_mask=mask).transpose(1, 2).flatten(2))


def by_complex(x_BHTD: torch.Tensor, position_BT: torch.Tensor) -> torch.Tensor:
    half = x_BHTD.shape[-1] // 2
    angle = position_BT[:, None, :, None] * 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = torch.complex(*x_BHTD.double().split(half, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1).to(x_BHTD.dtype)


def padded(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, valid slots (the first row whole), and positions."""
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(BATCH, LENGTH, generator=generator) > 0.3
    valid[0] = True
    return torch.randn(BATCH, LENGTH, CHANNELS, generator=generator), valid, (valid.cumsum(1) - 1).clamp_min(0)


def trained(layer: SelfAttention, x_BTC: torch.Tensor, valid_BT: torch.Tensor) -> torch.Tensor:
    packing = Packing(valid_BT)
    return packing.unpack(layer(packing.pack(x_BTC), turns(torch.arange(x_BTC.shape[1])[None], layer.width)))


def test_who_sees_whom() -> None:
    query, key = torch.tensor([[3], [4]]), torch.arange(6)
    seen = {kind: ["".join(map(str, row)) for row in allowed(kind, 2, query, key).long().tolist()] for kind in KINDS}
    assert seen == {
        "full": ["111100", "111110"], "sliding": ["001100", "000110"], "block": ["111100", "001110"]
    }  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_training_equals_scores_written_out(kind: Kind, window: int) -> None:
    """Outputs and gradients, with padding among real slots."""
    layer = attention(kind, window)
    x, valid, position = padded(window)
    probe = torch.randn_like(x) * valid[..., None]
    results = []
    for compute in (lambda x: trained(layer, x, valid), lambda x: written_out(layer, x, position, valid)):
        x_in = x.clone().requires_grad_()
        out = compute(x_in)
        gradients = torch.autograd.grad((out * probe).sum(), [x_in, *layer.parameters()])
        results.append((out[valid], gradients[0][valid], *gradients[1:]))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("window", [1, 5, 37])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_training_in_both_caches(kind: Kind, window: int) -> None:
    """Prefill with padding, then single positions, some rows paused."""
    layer = attention(kind, window)
    x, valid, position = padded(window)
    want = written_out(layer, x, position, valid)[valid]
    place = torch.where(valid, position, EMPTY)
    caches: list[Cache] = [DynamicCache(1), static(LENGTH), static(64)]
    for cache in caches:
        parts = []
        for first, last in [(0, 9), *((slot, slot + 1) for slot in range(9, LENGTH))]:
            parts.append(layer.step(x[:, first:last], layer.sight(place[:, first:last], cache), cache, 0))
        steps = torch.cat(parts, 1)
        assert steps.isfinite().all()
        torch.testing.assert_close(steps[valid], want, atol=2e-6, rtol=1e-4)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="heads"):
        SelfAttention(32, 5)
    with pytest.raises(ValueError, match="window"):
        SelfAttention(32, 4, "sliding", 0)


def static(slots: int) -> StaticCache:
    memory = [torch.zeros(BATCH * slots * CHANNELS) for _ in range(2)]
    return StaticCache(memory, batch=BATCH, heads=HEADS, slots=slots, width=CHANNELS // HEADS)
