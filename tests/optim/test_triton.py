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
from torch.optim import Optimizer

from mpgd import MPGD, ChaoticNoise, GaussianNoise, perturb
from mpgd.noise.engines import has_triton
from mpgd.optim.settings import make_settings
from tests.optim.descents import LOUD, core, parameters
from tests.optim.workers import run, same_bits, set_gradients, snapshot

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
RUNS = has_triton() and (HAS_GPU or os.environ.get("TRITON_INTERPRET") == "1")

pytestmark = [
    pytest.mark.skipif(not has_triton(), reason="triton is not installed: make gpu"),
    pytest.mark.skipif(not RUNS, reason="no GPU, and TRITON_INTERPRET=1 is not set: make gpu"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # integers that wrap around
]

VARIANTS: list[tuple[dict[str, Any], torch.dtype]] = [
    ({}, torch.float32),
    ({"symmetric": True, "gamma": (0.52, 0.9)}, torch.float32),
    ({"shared_multiplicative": True, "maximize": True}, torch.float32),
    ({"shared_multiplicative": True, "symmetric": True, "signs": "product"}, torch.float32),
    ({"mu": 0.0, "gamma": 0.75, "beta": -1.0}, torch.float32),
    ({"sigma": 0.0, "mu": 1e-4, "gamma": 0.99, "signs": "product"}, torch.float32),
    ({"beta": (1.0, 0.0)}, torch.bfloat16),
    ({"symmetric": True, "signs": "product"}, torch.float16),
    ({"longest": 3, "gamma": (0.6, 0.9)}, torch.float32),
    ({"mu": 0.0, "sigma": 0.0, "force": 0.1, "decay": 0.05, "longest": 4100}, torch.float32),
]
STEPS, SIZE = 200, 5000


def on_device(shapes: Any, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(p.detach().to(DEVICE)) for p in parameters(shapes, dtype)]


def ends(shapes: Any, steps: int, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    optimizer = MPGD(on_device(shapes, dtype), **{**LOUD, "mu": 0.02, **settings})
    run(optimizer, steps)
    return core(optimizer)


@pytest.mark.parametrize(("variant", "dtype"), VARIANTS, ids=str)
def test_words_and_parameters_are_the_torch_engines(
    variant: dict[str, Any], dtype: torch.dtype
) -> None:
    found = ends([SIZE], STEPS, dtype, engine="triton", **variant)
    assert same_bits(found, ends([SIZE], STEPS, dtype, engine="torch", **variant))
    assert all(torch.isfinite(p).all() for p in found["parameters"])


NESTEROV = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}
FURTHER: list[tuple[dict[str, Any], torch.dtype]] = [
    ({"noise": "gaussian"}, torch.float32),
    ({"noise": GaussianNoise(2.0), "symmetric": True}, torch.float32),
    (NESTEROV, torch.float32),
    ({**NESTEROV, "start": 2, "stop": 5, "maximize": True}, torch.bfloat16),
    ({"momentum": 0.9, "dampening": 0.2, "rounding": "stochastic"}, torch.bfloat16),
    ({"noise": "gaussian", "start": 2, "rounding": "stochastic"}, torch.float16),
    ({"mu": 0.0, "sigma": 0.0, "rounding": "stochastic"}, torch.bfloat16),
]


@pytest.mark.parametrize(("variant", "dtype"), FURTHER, ids=str)
def test_normal_noise_momentum_and_rounding_are_the_torch_engines(
    variant: dict[str, Any], dtype: torch.dtype
) -> None:
    shapes = [700, (4, 5), ()]
    found = ends(shapes, 8, dtype, engine="triton", **variant)
    assert same_bits(found, ends(shapes, 8, dtype, engine="torch", **variant))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_all_sizes_are_rounded_as_by_the_torch_engine(dtype: torch.dtype) -> None:
    """Also those below the normal numbers, infinities and what rounds to them."""
    g = torch.Generator().manual_seed(0)
    sizes = [torch.randn(100, generator=g) * 10.0**k for k in range(-9, 5)]
    x = torch.cat([*sizes, torch.tensor([torch.inf, -torch.inf, torch.finfo(dtype).max, 0.0])])
    found = []
    for engine in ("triton", "torch"):
        p = nn.Parameter(x.to(DEVICE, dtype))
        optimizer = MPGD([p], lr=0.3, rounding="stochastic", engine=engine)
        p.grad = p.detach().nan_to_num(posinf=0.0, neginf=0.0)
        optimizer.step()
        found.append(p.detach())
    assert same_bits(*found)


def test_tensors_of_all_lengths_share_a_launch() -> None:
    shapes = [1, 0, 511, 512, 513, (), (3, 0, 2), 9000]
    found = ends(shapes, 6, engine="triton", start=1, stop=5)
    assert same_bits(found, ends(shapes, 6, engine="torch", start=1, stop=5))


INNERS = [{}, {"symmetric": True, "mu": 0.0}, {"shared_multiplicative": True}, {"sigma": 0.0}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("variant", INNERS, ids=str)
def test_the_perturbation_of_another_optimizer_is_the_torch_engines(
    variant: dict[str, Any], dtype: torch.dtype
) -> None:
    def wrapped(engine: str) -> Optimizer:
        inner = torch.optim.SGD(on_device([1000, (7, 9)], dtype), lr=0.05, momentum=0.9)
        return perturb(inner, **{"mu": 0.1, "sigma": 0.2, "engine": engine, **variant})

    one, other = wrapped("triton"), wrapped("torch")
    assert same_bits(*(_walked(each) for each in (one, other)))


def _walked(optimizer: Optimizer) -> Any:
    run(optimizer, 10)
    found = snapshot(optimizer)
    del found["param_groups"]
    return found


def test_one_changed_coefficient_shows() -> None:
    """Twin of the comparisons: one bit of one row of the table on the device."""
    expected = ends([1025], 30, engine="torch")
    group = MPGD(on_device([1]), **{**LOUD, "mu": 0.02}, engine="triton").param_groups[0]
    driver = make_settings(group).drivers[0]
    assert driver is not None
    table = driver.returns.pairs_on(torch.device(DEVICE, 0) if HAS_GPU else torch.device("cpu"))
    table[40, 0] += 1 << 18  # c0 of a row in the first octave, where half of all visits are
    try:
        found = ends([1025], 30, engine="triton")
    finally:
        table[40, 0] -= 1 << 18
    assert not same_bits(found["state"], expected["state"])
    assert same_bits(ends([1025], 30, engine="triton"), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("signs", ["fresh", "product"])
def test_values_and_words_of_a_noise_are_the_torch_engines(signs: str, dtype: torch.dtype) -> None:
    one, other = (
        ChaoticNoise(0.6, 0.5, signs=signs, engine=engine) for engine in ("triton", "torch")
    )
    state, twin = one.init(3000, 7, DEVICE), other.init(3000, 7, DEVICE)
    for _ in range(20):
        v, state = one.step(state, dtype=dtype)
        w, twin = other.step(twin, dtype=dtype)
        assert same_bits(v, w)
        assert same_bits(state.word, twin.word)
    assert same_bits(one.path(5, (3, 4), 1, DEVICE), other.path(5, (3, 4), 1, DEVICE))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_the_compiled_step_is_one_operator_before_the_same_kernel() -> None:
    optimizer = MPGD(on_device([100, (3, 4)]), **LOUD, engine="triton")
    step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)
    for k in range(4):
        set_gradients(optimizer.param_groups[0]["params"], k)
        step()
    eager = MPGD(on_device([100, (3, 4)]), **LOUD, engine="torch")
    run(eager, 4)
    assert same_bits(core(optimizer), core(eager))


def test_half_types_round_to_nearest_even() -> None:
    """A step of the gradient alone, at ties and next to them: 1 + k units plus a part of one."""
    parts, units = [0.5, 0.25, 0.75, 0.5, 0.25, 0.75], [0, 0, 0, 1, 1, 1]
    for dtype, unit in ((torch.bfloat16, 2.0**-7), (torch.float16, 2.0**-10)):
        p = nn.Parameter((1 + unit * torch.tensor(units)).to(DEVICE, dtype))
        p.grad = (-unit * torch.tensor(parts)).to(DEVICE, dtype)
        MPGD([p], lr=1.0, sigma=1e-30, engine="triton").step()
        rounded = (p.detach().float().cpu() - 1) / unit
        assert rounded.tolist() == [0, 0, 1, 2, 1, 2]


def test_a_dtype_that_the_kernel_does_not_take_is_refused() -> None:
    text = r"the triton kernel takes torch.float32, .* got a parameter of torch.float64; leave"
    for settings in ({"engine": "triton"}, {"engine": "triton", "fused": True}):
        with pytest.raises(ValueError, match=text):
            MPGD(on_device([3], torch.float64), **LOUD, **settings)
