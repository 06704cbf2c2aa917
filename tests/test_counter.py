"""The public counter generator: functions of (seed, tensor, element, step)."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import kstest, norm

from mpgd import counter
from tests.conftest import LEVEL

FUNCTIONS = [counter.bits, counter.uniform, counter.normal]


@pytest.mark.parametrize("draw", FUNCTIONS)
def test_every_argument_counts_and_nothing_else(draw) -> None:  # type: ignore[no-untyped-def]
    x = torch.empty(6, 5)
    one = draw(x, seed=1, step=2, tensor=3)
    assert one.shape == x.shape
    assert torch.equal(one, draw(torch.empty(6, 5, dtype=torch.float64), seed=1, step=2, tensor=3))
    assert torch.equal(one.view(-1), draw(torch.empty(30), seed=1, step=2, tensor=3))
    for other in ({"seed": 2}, {"step": 3}, {"tensor": 4}):
        assert not torch.equal(one, draw(x, **{"seed": 1, "step": 2, "tensor": 3, **other}))


def test_the_laws() -> None:
    x = torch.empty(100_000)
    u = counter.uniform(x, seed=0, step=0).numpy()
    assert kstest(u, "uniform").pvalue > LEVEL
    assert kstest(u**1.02, "uniform").pvalue < LEVEL
    z = counter.normal(x, seed=0, step=0, dtype=torch.float64).numpy()
    assert kstest(z, norm.cdf).pvalue > LEVEL
    assert kstest(z + 0.03, norm.cdf).pvalue < LEVEL


def test_a_dtype_must_be_floating() -> None:
    with pytest.raises(TypeError, match=r"dtype must be a floating-point type, got torch.int64"):
        counter.normal(torch.empty(2), seed=0, step=0, dtype=torch.int64)
    with pytest.raises(ValueError, match="step must be"):
        counter.bits(torch.empty(2), seed=0, step=-1)


def test_normal_numbers_in_float16_are_those_of_float32_rounded() -> None:
    x = torch.empty(10_000)
    wide = counter.normal(x, seed=1, step=0)
    assert torch.equal(counter.normal(x, seed=1, step=0, dtype=torch.float16), wide.half())
