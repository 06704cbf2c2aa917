"""Every fast path is the plain loop, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import MPGD
from mpgd.optim.settings import make_settings
from tests.optim.descents import KERNELS, LOUD, PATHS, VARIANTS, core, ends, parameters
from tests.optim.workers import ORBITS, bits, same_bits, set_gradients

SIZES = [1, 7, 24, 1000, 1025, 1_000_000]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_foreach_and_numba_equal_the_loop(variant: dict[str, Any], dtype: torch.dtype) -> None:
    shapes = [*SIZES[:-1], (), (0,), (3, 0, 2), (4, 5, 6)]
    expected = ends(shapes, {**variant, **PATHS[0]}, 6, dtype=dtype)
    for path in PATHS[1:]:
        assert same_bits(ends(shapes, {**variant, **path}, 6, dtype=dtype), expected)


@pytest.mark.parametrize(("variant", "steps"), [({}, 2), (VARIANTS[3], 1)], ids=str)
def test_foreach_and_numba_equal_the_loop_at_a_million(variant: dict[str, Any], steps: int) -> None:
    expected = ends(SIZES[-1:], {**variant, **PATHS[0]}, steps)
    for path in (PATHS[1], KERNELS):
        assert same_bits(ends(SIZES[-1:], {**variant, **path}, steps), expected)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("noise", ["gaussian", "stable"])
def test_independent_noises_are_the_same_on_every_path(noise: str, symmetric: bool) -> None:
    settings = {"noise": noise, "symmetric": symmetric}
    expected = ends([7, (), (0,), 1025], {**settings, **PATHS[0]}, 5)
    assert not any(name in s for s in expected["state"].values() for name in ORBITS)
    for path in PATHS[1:]:
        assert same_bits(ends([7, (), (0,), 1025], {**settings, **path}, 5), expected)


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(ends([150_001], {"engine": "cpu"}, 3))
    assert all(same_bits(each, found[0]) for each in found)


def test_one_changed_coefficient_shows() -> None:
    """Twin of all comparisons above: one bit of one row of numba's table."""
    expected = ends([1025], PATHS[0], 30)
    assert same_bits(ends([1025], KERNELS, 30), expected)
    group = MPGD(parameters([1]), **LOUD, engine="cpu").param_groups[0]
    table = make_settings(group).drivers[0].table  # type: ignore[union-attr]
    place = 2 * 40  # c0 of a row in the first octave, where half of all visits are
    kept = table[place]
    table[place] = kept + np.uint64(1 << 18)
    try:
        found = ends([1025], KERNELS, 30)
    finally:
        table[place] = kept
    assert not same_bits(found["state"], expected["state"])
    assert not same_bits(found["parameters"], expected["parameters"])


LAYOUTS = {
    "transposed": lambda x: x.t().contiguous().t(),
    "strided": lambda x: torch.stack([x, x], dim=-1)[..., 0],
    "part of a row": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_parameters_and_gradients_need_not_be_contiguous(layout: str, path: dict[str, Any]) -> None:
    change = LAYOUTS[layout]
    for odd_parameter, odd_gradient in ((True, False), (False, True), (True, True)):
        [x] = parameters([(12, 50)])
        y = nn.Parameter(change(x.detach().clone()) if odd_parameter else x.detach().clone())
        one, other = MPGD([x], **{**LOUD, **path}), MPGD([y], **{**LOUD, **path})
        assert y.is_contiguous() != odd_parameter
        for k in range(4):
            set_gradients([x], k)
            y.grad = change(x.grad) if odd_gradient else x.grad.clone()
            one.step()
            other.step()
            assert same_bits(core(one), core(other))


def test_a_gradient_may_be_expanded_and_a_weight_channels_last() -> None:
    for path in PATHS:
        x, y = (nn.Parameter(torch.ones(4, 3, 2, 2)) for _ in range(2))
        y.data = y.data.to(memory_format=torch.channels_last)
        one, other = MPGD([x], **{**LOUD, **path}), MPGD([y], **{**LOUD, **path})
        for _ in range(3):
            x.grad = torch.full((4, 3, 2, 2), 0.5)
            y.grad = torch.tensor(0.5).expand(4, 3, 2, 2)
            one.step()
            other.step()
        assert same_bits(core(one), core(other))


def test_bits_tell_minus_zero_from_zero() -> None:
    """Twin of every comparison in bits."""
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert len(bits(torch.zeros(3))) == 12
