import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sonorant.layers.convnext import GELU, DepthwiseConv, Dropout


@pytest.mark.parametrize("kernel", [1, 5])
def test_the_convolution_is_that_of_torch_in_training_and_synthesis(kernel: int) -> None:
    torch.manual_seed(1)
    ours = DepthwiseConv(3, kernel).double()
    theirs = nn.Conv1d(3, 3, kernel, padding=kernel // 2, groups=3).double()
    theirs.load_state_dict(ours.state_dict())
    x_BTC = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    wanted = theirs(x_BTC.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(ours(x_BTC), wanted)
    torch.autograd.gradcheck(lambda x, *_: ours(x), (x_BTC, *ours.parameters()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        in_half = ours.float()(x_BTC.float())
    gradients = [torch.autograd.grad(y.sum(), (x_BTC,))[0] for y in (in_half, wanted)]
    torch.testing.assert_close([in_half, gradients[0]], [wanted.bfloat16(), gradients[1]], atol=0.05, rtol=0.05)
    assert torch.equal(ours.double().eval()(x_BTC), wanted)


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
