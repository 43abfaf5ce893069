"""Operators are told apart by what they do, and a step's time adds up."""

import pytest
import torch

from benchmarks.arithmetic import kind_of, operators


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::addmm", "products"),
        ("aten::mkldnn_convolution", "products"),
        ("aten::_fft_r2c", "transforms"),
        ("aten::gelu_backward", "activations"),
        ("aten::add_", "elementwise"),
        ("aten::copy_", "copies"),
    ],
)
def test_an_operator_is_of_its_kind(operator: str, kind: str) -> None:
    assert kind_of(operator) == kind


def test_shares_add_up_and_the_heavy_operator_leads() -> None:
    square = torch.randn(600, 600)
    shares = operators(lambda: (square @ square).relu())
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
    assert next(iter(shares)) == "products"
