"""Triton's kernel against the torch engine, bit for bit.

On a GPU these tests run there. Elsewhere Triton's interpreter runs them on the CPU, if the
environment says TRITON_INTERPRET=1 before Python starts; `make gpu` does.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise, GaussianNoise, TelegraphNoise
from mpgd.noise import PhaseNoise
from mpgd.noise.engines import has_triton
from tests.optim.descents import core, loud, made, parameters
from tests.optim.workers import run, same_bits, set_gradients

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
RUNS = has_triton() and (HAS_GPU or os.environ.get("TRITON_INTERPRET") == "1")

pytestmark = [
    pytest.mark.skipif(not has_triton(), reason="triton is not installed: make gpu"),
    pytest.mark.skipif(not RUNS, reason="no GPU, and TRITON_INTERPRET=1 is not set: make gpu"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # integers that wrap around
]

PRODUCT = ChaoticNoise(0.6, 0.5, signs="product", shared=True)
LONG: list[tuple[dict[str, Any], torch.dtype]] = [
    ({}, torch.float32),
    ({"symmetric": True, "gamma": (0.52, 0.9)}, torch.float32),
    ({"noise": PRODUCT, "symmetric": True}, torch.float32),
    ({"mu": 0.0, "gamma": 0.75, "beta": -1.0}, torch.float32),
    ({"sigma": 0.0, "mu": 1e-4, "gamma": 0.99}, torch.float32),
    ({"beta": (1.0, 0.0)}, torch.bfloat16),
    ({"symmetric": True}, torch.float16),
    ({"noise": ChaoticNoise(0.9, longest=3)}, torch.float32),
    ({"noise": (TelegraphNoise(5), PhaseNoise([1.0, 0.9, 0.5, 0.5, 0.1]))}, torch.float32),
]
SHORT: list[tuple[dict[str, Any], torch.dtype]] = [
    ({"noise": GaussianNoise(2.0), "symmetric": True}, torch.float32),
    ({"noise": (GaussianNoise(), ChaoticNoise(0.7))}, torch.bfloat16),
    ({"momentum": 0.9, "start": 2, "stop": 5}, torch.bfloat16),
    ({"rounding": "stochastic"}, torch.bfloat16),
    ({}, torch.float64),  # which the kernel leaves to torch operations
]


def on_device(shapes: Any, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(p.detach().to(DEVICE)) for p in parameters(shapes, dtype)]


def ends(shapes: Any, steps: int, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    optimizer = MPGD(on_device(shapes, dtype), **loud(**{"mu": 0.02, **settings}))
    run(optimizer, steps)
    return core(optimizer)


@pytest.mark.parametrize(("variant", "dtype"), LONG, ids=str)
def test_words_and_parameters_are_the_torch_engines(
    variant: dict[str, Any], dtype: torch.dtype
) -> None:
    one, other = (ends([5000], 200, dtype, engine=e, **variant) for e in ("triton", "torch"))
    assert same_bits(one, other)
    assert all(torch.isfinite(p).all() for p in one["parameters"])


@pytest.mark.parametrize(("variant", "dtype"), SHORT, ids=str)
def test_tensors_of_all_lengths_share_a_launch(variant: dict[str, Any], dtype: torch.dtype) -> None:
    shapes = [1, 0, 511, 512, 513, (), (3, 0, 2), 9000]
    one, other = (ends(shapes, 6, dtype, engine=e, **variant) for e in ("triton", "torch"))
    assert same_bits(one, other)


def test_another_optimizer_is_displaced_alike() -> None:
    found = []
    for engine in ("triton", "torch"):
        optimizer = made("adamw", on_device([1000, (7, 9)]), engine=engine)
        run(optimizer, 5)
        found.append(core(optimizer))
    assert same_bits(*found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_all_sizes_are_rounded_as_by_the_torch_engine(dtype: torch.dtype) -> None:
    """To nearest, ties to even; those below the normal numbers, infinities, what rounds to them."""
    g = torch.Generator().manual_seed(0)
    sizes = [torch.randn(1000, generator=g) * 10.0**k for k in range(-9, 5)]
    x = torch.cat([*sizes, torch.tensor([torch.inf, -torch.inf, torch.finfo(dtype).max, 0.0])])
    unit = torch.finfo(dtype).eps
    ties = 1 + unit * torch.arange(8)  # the noise adds half a unit, more or less
    found = []
    for engine in ("triton", "torch"):
        params = [nn.Parameter(v.to(DEVICE, dtype)) for v in (x, ties)]
        noise = ChaoticNoise(0.6, engine="torch")
        half = unit / 2 / noise.laminar_value
        groups = [{"params": params[:1]}, {"params": params[1:], "sigma": half, "mu": 0.0}]
        optimizer = MPGD(groups, lr=1.0, mu=0.1, sigma=0.1, engine=engine)
        for _ in range(3):
            for p in params:
                p.grad = torch.zeros_like(p)
            optimizer.step()
        # which of the many NaNs it is, is the device's own
        found.append([torch.where(p.isnan(), torch.nan, p.detach()) for p in params])
    assert same_bits(*found)


def test_one_changed_coefficient_shows() -> None:
    """Twin of the comparisons: one bit of one row of the table on the device."""
    expected = ends([1025], 30, engine="torch")
    where = torch.device(DEVICE, 0) if HAS_GPU else torch.device("cpu")
    table = ChaoticNoise(0.6, 0.5).driver.returns.pairs_on(where)
    table[40, 0] += 1 << 18  # c0 of a row in the first octave, where half of all visits are
    try:
        changed = ends([1025], 30, engine="triton")
    finally:
        table[40, 0] -= 1 << 18
    assert not same_bits(changed["state"], expected["state"])
    assert same_bits(ends([1025], 30, engine="triton"), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("signs", ["fresh", "product"])
def test_values_and_words_of_a_noise_are_the_torch_engines(signs: str, dtype: torch.dtype) -> None:
    one, other = (ChaoticNoise(0.6, 0.5, signs=signs, engine=e) for e in ("triton", "torch"))
    state, twin = one.init(3000, 7, DEVICE), other.init(3000, 7, DEVICE)
    for _ in range(20):
        v, state = one.step(state, dtype=dtype)
        w, twin = other.step(twin, dtype=dtype)
        assert same_bits(v, w)
        assert same_bits(state.word, twin.word)
    assert same_bits(one.path(5, (3, 4), 1, DEVICE), other.path(5, (3, 4), 1, DEVICE))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_the_compiled_step_is_one_operator_before_the_same_kernel() -> None:
    optimizer, eager = (
        MPGD(on_device([100, (3, 4)]), **loud(engine=e)) for e in ("triton", "torch")
    )
    step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)
    for k in range(4):
        set_gradients(optimizer.param_groups[0]["params"], k)
        step()
    run(eager, 4)
    assert same_bits(core(optimizer), core(eager))
