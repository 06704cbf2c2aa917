"""The public counter generator: functions of (seed, tensor, element, step)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from scipy.stats import kstest, norm
from torch import Tensor, nn

from mpgd import add_normal_, counter, shifted
from mpgd.noise import StableNoise
from mpgd.noise.counter_hash import flat_index, hash_elements, make_key, step_key
from mpgd.noise.memoryless import UNIT, integers
from mpgd.sharding import note_offset
from tests.conftest import LEVEL
from tests.optim.workers import same_bits

FUNCTIONS = [counter.bits, counter.uniform, counter.normal, partial(counter.stable, alpha=1.5)]
FLOATS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


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


def hashes(size: int, seed: int, step: int, tensor: int) -> Tensor:
    return hash_elements(
        flat_index((size,)), step_key(make_key(seed, tensor, counter.DRIVER), step)
    )


@pytest.mark.parametrize("size", [1, 7, 70_001])
def test_the_kernels_give_the_bits_of_torch_operations(size: int) -> None:
    x, place = torch.empty(size), {"seed": 3, "step": 2, "tensor": 5}
    key = step_key(make_key(3, 5, counter.DRIVER), 2)
    h = hashes(size, **place)
    assert same_bits(counter.bits(x, **place), h)
    exact = (((h >> 12) & (2**52 - 1)).double() + 0.5) * 2.0**-52
    assert same_bits(counter.uniform(x, **place), exact)
    z = integers(flat_index((size,)), key)
    for dtype in (torch.float32, torch.float64):
        assert same_bits(counter.normal(x, **place, dtype=dtype), z.to(dtype) * UNIT)
    stable = counter.stable(x, 1.5, 0.3, **place)
    assert same_bits(stable, StableNoise(1.5, 0.3).draw(flat_index((size,)), key))


def test_a_part_has_the_numbers_of_its_elements() -> None:
    whole, part = torch.empty(1000), torch.empty(300)
    note_offset(part, 200)
    for draw in FUNCTIONS:
        expected = draw(whole, seed=1, step=2)[200:500]
        assert same_bits(draw(part, seed=1, step=2), expected.contiguous())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_are_written_and_added_in_place(dtype: torch.dtype) -> None:
    x, place = torch.empty(30, 5), {"seed": 1, "step": 2}
    z = counter.normal(x, **place, dtype=dtype)
    for out in (torch.empty(30, 5, dtype=dtype), torch.empty(5, 30, dtype=dtype).t()):
        before = out._version
        assert counter.normal(x, **place, out=out) is out
        assert torch.equal(out, z)
        assert out._version > before
    y = torch.linspace(-1, 1, 150, dtype=dtype).view(30, 5)
    wide = torch.promote_types(dtype, torch.float32)
    expected = (y.to(wide) + 0.5 * counter.normal(x, **place, dtype=wide)).to(dtype)
    assert same_bits(counter.add_(y, 0.5, **place), expected)
    assert same_bits(
        counter.bits(x, **place, out=torch.empty(30, 5).long()), counter.bits(x, **place)
    )
    for draw in (counter.uniform, partial(counter.stable, alpha=1.5)):
        for out in (torch.empty(30, 5).double(), torch.empty(5, 30, dtype=torch.float64).t()):
            assert draw(x, **place, out=out) is out
            assert torch.equal(out, draw(x, **place))


def test_an_out_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"out must be torch.int64 of shape \(3,\), got"):
        counter.bits(torch.empty(3), seed=0, step=0, out=torch.empty(3))
    with pytest.raises(ValueError, match=r"of shape \(3,\), got torch.float32 of \(4,\)"):
        counter.normal(torch.empty(3), seed=0, step=0, out=torch.empty(4))


# Shifted models --------------------------------------------------


def model(dtype: torch.dtype) -> nn.Module:
    """Return a net with large and small weights, zeros of both signs, and all kinds of numbers."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 50), nn.Linear(50, 3), nn.Conv2d(3, 4, 3))
    top = torch.finfo(dtype).max
    with torch.no_grad():
        net[0].weight.mul_(torch.logspace(-8, 3, 40))
        net[0].bias[:9] = torch.tensor([0.0, -0.0, top, -top, 1e-7, torch.inf, torch.nan, 1, -2])
    net = net.to(dtype)
    net[2].to(memory_format=torch.channels_last)
    return net


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_model_is_moved_and_comes_back_to_its_bits(dtype: torch.dtype) -> None:
    net, twin = model(dtype), model(dtype)
    before = [p.detach().clone() for p in net.parameters()]
    for step, scale in enumerate((1e-3, 0.1, -30.0) * 20):
        with shifted(net, seed=7, scale=scale, step=step):
            moved = [p.detach().clone() for p in net.parameters()]
        assert same_bits([p.detach() for p in net.parameters()], before)
        assert not same_bits(moved, before)
    add_normal_(twin, seed=7, scale=-30.0, step=59)
    assert same_bits(moved, [p.detach() for p in twin.parameters()])


def test_x_plus_d_minus_d_alone_does_not_come_back() -> None:
    net = model(torch.bfloat16)
    before = [p.detach().clone() for p in net.parameters()]
    for scale in (0.1, -0.1):
        add_normal_(net, seed=7, scale=scale)
    assert not same_bits([p.detach() for p in net.parameters()], before)


def test_what_is_kept_is_little_where_the_shift_is_small() -> None:
    net, kept = nn.Linear(300, 300, dtype=torch.bfloat16), list[Any]()
    counter._add(net.weight, 5, 0, 1e-3, kept)
    assert sum(0 if k.where is None else k.where.nbytes + k.bits.nbytes for k in kept) > 0
    assert sum(k.bits.numel() for k in kept) < 0.1 * net.weight.numel()


def test_an_error_inside_and_a_change_inside() -> None:
    net = model(torch.float32)
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(KeyError), shifted(net, 1, 0.1):
        raise KeyError
    assert same_bits([p.detach() for p in net.parameters()], before)
    text = "a parameter changed inside mpgd.shifted, so its old bits cannot come back"
    with pytest.raises(RuntimeError, match=text), torch.no_grad(), shifted(net, 1, 0.1):
        net[0].weight.zero_()
    with pytest.raises(ValueError, match="scale must"):
        add_normal_(net, 1, float("nan"))


def correlation(a: Tensor, b: Tensor) -> float:
    """Return the correlation in standard errors."""
    return abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) * len(a) ** 0.5


def test_tensors_and_steps_are_uncorrelated() -> None:
    """Of 28 pairs none is beyond 4 standard errors; equal numbers are 400 of them away."""
    shifts = []
    for step in (0, 1):
        params = [nn.Parameter(torch.zeros(160_000)) for _ in range(4)]
        add_normal_(params, seed=0, scale=1.0, step=step)
        shifts += [p.detach() for p in params]
    pairs = [(a, b) for k, a in enumerate(shifts) for b in shifts[:k]]
    assert max(correlation(a, b) for a, b in pairs) < 4
    assert correlation(shifts[0], shifts[0]) > 300


def test_parameters_that_share_memory_come_back() -> None:
    base = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    for params in ([base, base], [base[:600], base[400:]]):
        old = base.clone()
        with shifted(params, seed=0, scale=0.3):
            assert not torch.equal(base, old)
        assert torch.equal(base, old)


def test_a_conjugated_view_is_refused() -> None:
    x = torch.ones(3, dtype=torch.complex64).conj()
    with pytest.raises(ValueError, match="lazily conjugated"):
        counter.add_(x, 1.0, seed=0, step=0)
