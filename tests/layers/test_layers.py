"""Replacements of torch's CPU layers compute the same."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sonorant.layers.convnext import GELU, DepthwiseConv, Dropout


@pytest.mark.parametrize("kernel", [1, 7])
@pytest.mark.parametrize("precision", [torch.float64, torch.float32, torch.bfloat16])
def test_the_trained_convolution_and_its_gradients_are_those_of_torch(kernel: int, precision: torch.dtype) -> None:
    torch.manual_seed(1)
    ours = DepthwiseConv(12, kernel).double()
    x_BTC, gradient_BTC = (
        torch.randn(3, 17, 12, dtype=torch.float64, requires_grad=True),
        torch.randn(3, 17, 12).double(),
    )
    expected = F.conv1d(x_BTC.transpose(1, 2), ours.weight, ours.bias, padding=kernel // 2, groups=12).transpose(1, 2)
    wanted = torch.autograd.grad((expected * gradient_BTC).sum(), [x_BTC, ours.weight, ours.bias])
    weights = torch.float32 if precision == torch.bfloat16 else precision
    tolerance = 0.05 if precision == torch.bfloat16 else 1e-5
    ours, x_BTC = ours.to(weights), x_BTC.detach().to(weights).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        y_BTC = ours(x_BTC)
    assert y_BTC.dtype == precision
    found = torch.autograd.grad((y_BTC.double() * gradient_BTC).sum(), [x_BTC, ours.weight, ours.bias])
    for a, b in zip([y_BTC, *found], [expected, *wanted], strict=True):
        assert torch.allclose(a.double(), b, rtol=tolerance, atol=tolerance * b.abs().max().item())


def test_the_convolution_has_the_weights_and_the_answer_of_nn_conv1d_at_synthesis() -> None:
    torch.manual_seed(2)
    ours, theirs = DepthwiseConv(12, 5).eval(), nn.Conv1d(12, 12, 5, padding=2, groups=12)
    theirs.load_state_dict(ours.state_dict())
    x_BTC = torch.randn(2, 9, 12)
    assert torch.equal(ours(x_BTC), theirs(x_BTC.transpose(1, 2)).transpose(1, 2))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_dropout_drops_its_share_keeps_the_mean_and_is_repeated_by_its_seed(precision: torch.dtype) -> None:
    dropout, x = Dropout(0.3), torch.ones(501, 997, dtype=precision, requires_grad=True)
    torch.manual_seed(3)
    y = dropout(x)
    y.sum().backward()
    dropped = (y == 0).double().mean().item()
    assert abs(dropped - 0.3) < 0.004  # six standard deviations
    assert torch.equal(y.detach(), x.grad)  # the gradient goes where the value went
    assert torch.allclose(y[y > 0].double(), torch.tensor(1 / 0.7).double(), rtol=0.005)
    rows = (y == 0).double().mean(1)
    assert rows.std() < 1.3 * (0.3 * 0.7 / 997) ** 0.5  # no structure along a row, as independent draws have none
    torch.manual_seed(3)
    assert torch.equal(dropout(x), y)
    assert not torch.equal(dropout(x), y)


def test_dropout_leaves_synthesis_and_a_probability_of_zero_alone() -> None:
    x = torch.randn(5, 7)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_gelu_is_the_tanh_form_to_the_rounding_of_its_dtype() -> None:
    x = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    wanted = F.gelu(x, approximate="tanh")
    assert torch.allclose(GELU()(x.float()).double(), wanted, atol=1e-6)
    x = x.bfloat16()
    wanted = F.gelu(x.double(), approximate="tanh")
    error, rounding = GELU()(x).double() - wanted, F.gelu(x, approximate="tanh").double() - wanted
    assert error.square().mean().sqrt() < 1.1 * rounding.square().mean().sqrt()
