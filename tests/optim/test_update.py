"""Steps equal the paper's equation (8), written out here in float64 numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, perturb
from mpgd.optim.displacement.reference import descended, displaced
from mpgd.optim.settings import make_noises
from mpgd.optim.state import SHARED
from tests.optim.workers import set_gradients

ETA, MU, SIGMA, SEED = 0.07, 0.3, 0.2, 5
SHAPES = [(4, 6), (), (9,)]
NONE: dict[str, Any] = {"force": None, "decay": None, "noise": None, "engine": "torch"}
PLAIN: dict[str, Any] = {"mu": MU, "sigma": SIGMA, "gamma": 0.6, "beta": 0.0, "symmetric": False}
MATCHED = GaussianNoise.matched(ChaoticNoise(0.6))


@pytest.mark.parametrize("has_m", [False, True])
@pytest.mark.parametrize("has_n", [False, True])
def test_the_displacement_and_the_descent_from_there_are_the_equation(
    has_m: bool, has_n: bool
) -> None:
    x, g = torch.tensor([2.0, -4.0]), torch.tensor([1.0, 8.0])
    m = torch.tensor([0.5, 0.25]) if has_m else None
    n = torch.tensor([16.0, 32.0]) if has_n else None
    expected = x - 0.5 * g - (m * x if has_m else 0) + (n if has_n else 0)
    assert torch.equal(displaced(x, m, n) - 0.5 * g, expected)
    assert torch.equal(descended(x, g, 0.5, m, n), expected)


def values(noise: Any, shape: tuple[int, ...], tensor: int, driver: int, steps: int) -> np.ndarray:
    """Return (time, *shape) of the documented stream (seed, tensor, driver)."""
    state, path = noise.init(shape, SEED, tensor_id=tensor, driver_id=driver), []
    for _ in range(steps):
        v, state = noise.step(state)
        path.append(v.numpy().copy())
    return np.stack(path)


def terms(settings: dict[str, Any], tensor: int, shape: Any, steps: int) -> list[np.ndarray]:
    """Return mu eta^gamma1 v1 and sigma eta^gamma2 v2 over time."""
    both = []
    for which, noise in enumerate(make_noises({**NONE, **settings})):
        is_shared = which == 0 and getattr(noise, "shared", False)
        where = ((), SHARED) if is_shared else (shape, tensor)
        v = values(noise, *where, which, steps)
        if settings["symmetric"]:
            v = v - values(noise, *where, which + 2, steps)
        size = settings[("mu", "sigma")[which]]
        both.append(size * ETA**noise.exponent * v)
    return both


def written_out(
    settings: dict[str, Any], tensor: int, x: np.ndarray, g: np.ndarray, **how: Any
) -> np.ndarray:
    """Return x after len(g) steps of x - eta d - m x + n, where d is SGD's direction."""
    momentum, decay = how.get("momentum", 0.0), how.get("weight_decay", 0.0)
    m, n = terms(settings, tensor, x.shape, len(g))
    buffer: Any = None
    for k in range(len(g)):
        shift = n[k] - m[k] * x
        d = g[k] + decay * (x + shift)  # weight decay acts on the perturbed x
        buffer = d if buffer is None else momentum * buffer + (1 - how.get("dampening", 0.0)) * d
        d = d + momentum * buffer if how.get("nesterov") else buffer if momentum else d
        x = x - ETA * d + shift
    return x


NOISES: list[dict[str, Any]] = [
    {"beta": 0.5},
    {"gamma": (0.55, 0.7), "beta": (0.5, -0.25), "symmetric": True},
    {"mu": 0.0, "sigma": -SIGMA},
    {"sigma": 0.0},
    {"noise": ChaoticNoise(0.7, 0.5, signs="product", first_sign="positive", longest=4)},
    {"noise": ChaoticNoise(0.6, 0.5, shared=True), "symmetric": True},
    {"noise": MATCHED, "symmetric": True},
    {"noise": GaussianNoise()},
    {"noise": GaussianNoise(shared=True)},
    {"noise": StableNoise(1.5, 0.5), "symmetric": True},
    {"noise": (GaussianNoise(0.5), ChaoticNoise(0.7, 0.3))},
    {"noise": (StableNoise(1.9), GaussianNoise(2.0))},
]
DIRECTIONS: list[dict[str, Any]] = [
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"momentum": 0.8, "dampening": 0.3},
    {"weight_decay": 0.1},
]


def largest_error(settings: dict[str, Any], engine: str, wraps: bool, how: dict[str, Any]) -> float:
    """Return the largest difference from `written_out` after five steps."""
    starts = [torch.linspace(0.5, 1.5, max(1, int(np.prod(s)))).double().view(s) for s in SHAPES]
    params = [nn.Parameter(x.clone()) for x in starts]
    given = {"seed": SEED, "engine": engine, **settings}
    if "noise" in given:
        given = {k: v for k, v in given.items() if k not in ("gamma", "beta")}
    optimizer: Any = (
        perturb(torch.optim.SGD(params, ETA, **how), **given)
        if wraps
        else MPGD(params, ETA, **given, **how)
    )
    gradients: list[list[np.ndarray]] = [[] for _ in params]
    for k in range(5):
        set_gradients(params, k)
        for p, seen in zip(params, gradients, strict=True):
            seen.append(p.grad.numpy().copy())
        optimizer.step()
    return max(
        float(
            np.abs(
                p.detach().numpy() - written_out(settings, t, x.numpy(), np.stack(g), **how)
            ).max()
        )
        for t, (p, x, g) in enumerate(zip(params, starts, gradients, strict=True))
    )


@pytest.mark.parametrize("engine", ["torch", "cpu"])
@pytest.mark.parametrize("wraps", [False, True], ids=["mpgd", "perturb"])
@pytest.mark.parametrize("change", NOISES, ids=str)
def test_steps_equal_the_formula(change: dict[str, Any], wraps: bool, engine: str) -> None:
    assert largest_error({**PLAIN, **change}, engine, wraps, {}) < 1e-12


@pytest.mark.parametrize("how", DIRECTIONS, ids=str)
def test_no_noise_enters_the_momentum(how: dict[str, Any]) -> None:
    assert largest_error({**PLAIN, "beta": 0.5}, "torch", False, how) < 1e-12


@pytest.mark.parametrize(
    "change", [{"mu": -MU}, {"sigma": -SIGMA}, {"gamma": (0.7, 0.6)}, {"symmetric": True}], ids=str
)
def test_the_comparison_with_the_formula_can_fail(change: dict[str, Any]) -> None:
    """Twin: each of these changes moves the result by far more than 1e-12."""
    x, g = np.linspace(0.5, 1.5, 9), np.ones((1, 9))
    expected = written_out(PLAIN, 2, x, g)
    assert np.abs(written_out({**PLAIN, **change}, 2, x, g) - expected).max() > 1e-3
    assert np.abs(written_out(PLAIN, 1, x, g) - expected).max() > 1e-3


@pytest.mark.parametrize("decay", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("how", [{}, {"momentum": 0.9}], ids=str)
def test_over_a_training_the_noise_is_that_of_the_equation(
    decay: float, how: dict[str, Any]
) -> None:
    """Relative to the effect of the noise; weight decay changes it by lr times wd, summed up."""
    steps, n = 300, 30
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(n, n, generator=generator, dtype=torch.float64)
    A = A @ A.T / n
    given = {"gamma": 0.6, "mu": 0.02, "sigma": 0.02, "symmetric": False}
    x = nn.Parameter(torch.ones(n, dtype=torch.float64))
    optimizer = MPGD([x], ETA, **given, seed=SEED, weight_decay=decay, **how)
    for _ in range(steps):
        x.grad = A @ x.detach()
        optimizer.step()
    ends, (m, v) = [], terms({**PLAIN, **given}, 0, (n,), steps)
    for size in (1.0, 0.0):
        y, buffer = np.ones(n), np.zeros(n)
        for k in range(steps):
            buffer = how.get("momentum", 0.0) * buffer + A.numpy() @ y + decay * y
            y = y - ETA * buffer + size * (v[k] - m[k] * y)  # all terms with the old x
        ends.append(y)
    error = np.linalg.norm(x.detach().numpy() - ends[0]) / np.linalg.norm(ends[0] - ends[1])
    assert error < (1e-11 if decay == 0.0 else 2 * ETA * decay * (10 if how else 1))
    assert decay == 0.0 or error > 1e-2 * ETA * decay  # the difference is there
