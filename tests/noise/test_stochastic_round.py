"""Stochastic rounding: right in the mean, to a neighbour, the same bits from torch and C."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mpgd.noise.counter_hash import flat_index, hash_elements
from mpgd.noise.stochastic_round import round_part, rounded, salt_of
from mpgd.optim import stochastic_round
from tests.optim.workers import same_bits

HALVES = [torch.bfloat16, torch.float16]
PLACES = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


def standard_errors(y: Tensor, x: Tensor) -> float:
    """Return how many standard errors the mean of y - x lies from 0."""
    d = y.double() - x.double()
    return abs(float(d.mean() / (d.std() / len(d) ** 0.5)))


@pytest.mark.parametrize("part", [1 / 512, 0.3, 0.5, 0.98])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_mean_of_a_million_is_the_number(dtype: torch.dtype, part: float) -> None:
    """Four standard errors; rounding to nearest is far off, and so is a shifted chance."""
    for sign in (1.0, -1.0):
        x = torch.full((1_000_000,), sign * (1 + part * PLACES[dtype]))
        y = stochastic_round(x, dtype, seed=1, step=2)
        assert standard_errors(y, x) < 4
        assert set(y.unique().tolist()) == {sign, sign * (1 + PLACES[dtype])}
        assert standard_errors(y, x + 0.02 * PLACES[dtype]) > 4
        nearest = x.to(dtype).double() - x.double()
        assert float(nearest.abs().min()) > 0


def test_the_smallest_float16_are_right_in_the_mean_too() -> None:
    for number in (1e-6, 3.1e-8, 5e-5):
        x = torch.full((1_000_000,), number)
        y = stochastic_round(x, torch.float16, seed=0, step=0)
        assert standard_errors(y, x) < 4
        assert float(y.max() - y.min()) == 2.0**-24


def test_states_are_rounded_by_bits_of_their_own() -> None:
    """Right in the mean; parameter and states carry independently, which equal salts do not."""
    h = hash_elements(flat_index((1_000_000,)), 77)
    x = torch.full((1_000_000,), 1 + 0.3 * PLACES[torch.bfloat16])
    salts = [0, salt_of("exp_avg"), salt_of("exp_avg_sq"), salt_of("max_exp_avg_sq")]
    found = [rounded(x, h, torch.bfloat16, salt) for salt in salts]
    assert all(standard_errors(y, x) < 4 for y in found)
    carries = torch.stack([(y > 1).double() for y in found])
    between = torch.corrcoef(carries).fill_diagonal_(0)
    assert float(between.abs().max()) < 4 / 1000
    again = rounded(x, h, torch.bfloat16, salts[1])
    assert same_bits(again, found[1])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_stay_and_all_others_go_to_a_neighbour(dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    every = every[torch.isfinite(every)]
    assert same_bits(stochastic_round(every.float(), dtype, seed=3, step=0), every)
    line = every.float().unique()
    between = (line[:-1].double() + line[1:].double()).div(2).float()
    y = stochastic_round(between, dtype, seed=3, step=1).float()
    assert ((y == line[:-1]) | (y == line[1:])).all()
    assert 0.48 < float((y == line[1:]).double().mean()) < 0.52


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_kernels_and_torch_give_the_same_bits(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(2000, generator=g) * 10.0**k for k in range(-12, 6)])
    top = torch.finfo(dtype).max
    x = torch.cat([x, torch.tensor([torch.inf, -torch.inf, top, -top, top * 1.0001, 0.0, -0.0])])
    for offset in (0, 17):
        h = hash_elements(flat_index((len(x) + offset,))[offset:], 77)
        assert same_bits(rounded(x, h, dtype), _slice(x, offset, dtype))
    assert torch.isnan(stochastic_round(torch.tensor([torch.nan]), dtype, seed=0, step=0)).all()


def _slice(x: Tensor, offset: int, dtype: torch.dtype) -> Tensor:
    padded = torch.cat([torch.zeros(offset), x])
    return round_part(padded, dtype, 77)[offset:]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_no_finite_number_becomes_infinite_by_chance(dtype: torch.dtype) -> None:
    top = torch.finfo(dtype).max
    x = torch.full((1000,), top).nextafter(torch.tensor(torch.inf))
    assert torch.isfinite(x).all()
    assert (stochastic_round(x, dtype, seed=0, step=0) == top).all()


def test_the_chance_depends_on_seed_stream_step_and_element_alone() -> None:
    x = torch.full((70_000,), 1.003)
    one = stochastic_round(x, torch.bfloat16, seed=1, step=2, stream=3)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        again = stochastic_round(x.view(7, 100, 100), torch.bfloat16, seed=1, step=2, stream=3)
        assert same_bits(again.view(-1), one)
    for other in ({"seed": 2}, {"step": 3}, {"stream": 4}):
        changed = stochastic_round(
            x, torch.bfloat16, **{"seed": 1, "step": 2, "stream": 3, **other}
        )
        assert not same_bits(changed, one)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"x must be a float32 tensor, got torch.float64; convert"):
        stochastic_round(torch.zeros(2).double(), torch.bfloat16, seed=0, step=0)
    with pytest.raises(
        ValueError, match=r"dtype must be torch.bfloat16 or torch.float16, got .*32"
    ):
        stochastic_round(torch.zeros(2), torch.float32, seed=0, step=0)
    with pytest.raises(ValueError, match="step must be"):
        stochastic_round(torch.zeros(2), torch.bfloat16, seed=0, step=-1)
