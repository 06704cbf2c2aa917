"""One step equals the paper's equation (8), written out here in float64 numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, perturb
from mpgd.optim.orbits import SHARED
from mpgd.optim.update import descended, displacement, precision_of, strengths, term
from tests.optim.workers import set_gradients

ETA, MU, SIGMA, SEED = 0.07, 0.3, 0.2, 5
SHAPES = [(4, 6), (), (9,)]


# --- the pure functions ------------------------------------------------------------------------


def test_strengths_are_the_sizes_times_powers_of_eta() -> None:
    assert strengths(0.25, 2.0, 3.0, (0.5, 0.75)) == (2.0 * 0.25**0.5, 3.0 * 0.25**0.75)
    assert strengths(0.0, 2.0, 3.0, (0.6, 0.6)) == (0.0, 0.0)
    for dtype in (torch.float32, torch.float64):
        eta = torch.tensor(0.1, dtype=dtype)
        found = strengths(eta, 2.0, 3.0, (0.6, 0.7))
        assert all(isinstance(x, Tensor) and x.dtype == torch.float64 for x in found)
        expected = strengths(float(eta), 2.0, 3.0, (0.6, 0.7))
        np.testing.assert_allclose([float(x) for x in found], expected, rtol=1e-15)


def test_a_term_is_rounded_once_and_a_twin_is_subtracted() -> None:
    v, w = torch.tensor([1.0, -3.0]).double(), torch.tensor([0.5, 0.5]).double()
    assert torch.equal(term(2.0, v, None, torch.float64), 2 * v)
    assert torch.equal(term(2.0, v, w, torch.float64), 2 * v - 2 * w)
    third = term(1 / 3, v, w, torch.float32)
    assert torch.equal(third, (v * (1 / 3) - w * (1 / 3)).float())


@pytest.mark.parametrize("has_m", [False, True])
@pytest.mark.parametrize("has_n", [False, True])
def test_the_update_and_the_displacement_have_the_signs_of_the_equation(
    has_m: bool, has_n: bool
) -> None:
    x, g = torch.tensor([2.0, -4.0]), torch.tensor([1.0, 8.0])
    m = torch.tensor([0.5, 0.25]) if has_m else None
    n = torch.tensor([16.0, 32.0]) if has_n else None
    expected = x - 0.5 * g
    if m is not None:
        expected = expected - m * x
    if n is not None:
        expected = expected + n
    assert torch.equal(descended(x, g, 0.5, m, n), expected)
    shift = displacement(x, m, n)
    if shift is None:
        assert m is None
        assert n is None
    else:
        assert torch.equal(x - 0.5 * g + shift, expected)


def test_half_types_are_updated_in_float32() -> None:
    assert precision_of(torch.bfloat16) == precision_of(torch.float16) == torch.float32
    assert precision_of(torch.float32) == torch.float32
    assert precision_of(torch.float64) == torch.float64


# --- one step against the formula --------------------------------------------------------------


def stream(settings: dict[str, Any], which: int) -> Any:
    """Return the noise of one term, built from the settings alone."""
    gamma, beta = settings["gamma"], settings["beta"]
    gamma = gamma[which] if isinstance(gamma, tuple) else gamma
    beta = beta[which] if isinstance(beta, tuple) else beta
    if settings["noise"] == "stable":
        return StableNoise(1 / gamma, beta)
    chaotic = ChaoticNoise(gamma, beta, settings["signs"], engine="torch")
    if settings["noise"] == "chaotic":
        return chaotic
    if settings["scaling"] == "langevin":
        return GaussianNoise(1.0)
    return GaussianNoise(chaotic.variance * (2 if settings["symmetric"] else 1))


def values(noise: Any, shape: tuple[int, ...], tensor: int, driver: int, steps: int) -> np.ndarray:
    """Return (time, *shape) of the documented stream (seed, tensor, driver)."""
    state, found = noise.init(shape, SEED, tensor_id=tensor, driver_id=driver), []
    for _ in range(steps):
        v, state = noise.step(state)
        found.append(v.numpy().copy())
    return np.stack(found)


def written_out(settings: dict[str, Any], tensor: int, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return x after len(g) steps: x - eta g - mu eta^gamma1 v1 x + sigma eta^gamma2 v2."""
    twins = settings["symmetric"] and settings["noise"] != "gaussian"
    found = []
    for which in (0, 1):
        shared = which == 0 and settings["shared_multiplicative"]
        shape, ordinal = ((), SHARED) if shared else (x.shape, tensor)
        noise = stream(settings, which)
        v = values(noise, shape, ordinal, which, len(g))
        if twins:
            v = v - values(noise, shape, ordinal, which + 2, len(g))
        found.append(v)
    gamma = settings["gamma"] if isinstance(settings["gamma"], tuple) else (settings["gamma"],) * 2
    if settings["noise"] == "gaussian" and settings["scaling"] == "langevin":
        gamma = (0.5, 0.5)
    for k in range(len(g)):
        multiplicative = settings["mu"] * ETA ** gamma[0] * found[0][k] * x
        additive = settings["sigma"] * ETA ** gamma[1] * found[1][k]
        x = x - ETA * g[k] - multiplicative + additive
    return x


NOISES = [("chaotic", "matched"), ("gaussian", "matched"), ("gaussian", "langevin")]
NOISES += [("stable", "matched")]


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    ("gamma", "beta"), [(0.6, 0.5), ((0.55, 0.7), (0.5, -0.25)), (0.7, (0.0, 1.0))]
)
@pytest.mark.parametrize(("noise", "scaling"), NOISES)
def test_steps_equal_the_formula(
    noise: str, scaling: str, gamma: Any, beta: Any, symmetric: bool, shared: bool, engine: str
) -> None:
    settings: dict[str, Any] = {
        "mu": MU,
        "sigma": SIGMA,
        "gamma": gamma,
        "beta": beta,
        "symmetric": symmetric,
        "noise": noise,
        "scaling": scaling,
        "signs": "fresh",
        "shared_multiplicative": shared,
    }
    assert_formula(settings, engine)


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize(
    "change", [{"mu": 0.0}, {"sigma": 0.0}, {"signs": "product", "symmetric": True}]
)
def test_steps_equal_the_formula_with_one_term_or_product_signs(
    change: dict[str, Any], engine: str
) -> None:
    settings = {
        "mu": MU,
        "sigma": SIGMA,
        "gamma": 0.6,
        "beta": 0.5,
        "symmetric": False,
        "noise": "chaotic",
        "scaling": "matched",
        "signs": "fresh",
        "shared_multiplicative": False,
    }
    assert_formula({**settings, **change}, engine)


def assert_formula(settings: dict[str, Any], engine: str) -> None:
    """Compare MPGD and the perturbed SGD after one and after five steps with `written_out`."""
    starts = [torch.linspace(0.5, 1.5, max(1, int(np.prod(s)))).double().view(s) for s in SHAPES]
    gradients = []
    for k in range(5):
        blank = [torch.zeros_like(x) for x in starts]
        set_gradients(blank, k)
        gradients.append([p.grad for p in blank])
    for made in ("mpgd", "perturb"):
        parameters = [torch.nn.Parameter(x.clone()) for x in starts]
        if made == "mpgd":
            optimizer = MPGD(parameters, ETA, seed=SEED, engine=engine, **settings)
        else:
            inner = torch.optim.SGD(parameters, ETA)
            optimizer = perturb(inner, seed=SEED, engine=engine, **settings)
        for k in range(5):
            for p, g in zip(parameters, gradients[k], strict=True):
                p.grad = g.clone()
            optimizer.step()
            if k not in (0, 4):
                continue
            for tensor, (p, x) in enumerate(zip(parameters, starts, strict=True)):
                g = np.stack([gradients[j][tensor].numpy() for j in range(k + 1)])
                expected = written_out(settings, tensor, x.numpy(), g)
                # to rounding: relative to the largest number that entered the sum
                np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_the_comparison_with_the_formula_can_fail() -> None:
    """Twin: each of these changes moves the result by far more than 1e-12."""
    settings: dict[str, Any] = {
        "mu": MU,
        "sigma": SIGMA,
        "gamma": (0.6, 0.7),
        "beta": 0.0,
        "symmetric": False,
        "noise": "chaotic",
        "scaling": "matched",
        "signs": "fresh",
        "shared_multiplicative": False,
    }
    x, g = np.linspace(0.5, 1.5, 9), np.ones((1, 9))
    expected = written_out(settings, 2, x, g)
    for change in ({"mu": -MU}, {"sigma": -SIGMA}, {"gamma": (0.7, 0.6)}, {"symmetric": True}):
        assert np.abs(written_out({**settings, **change}, 2, x, g) - expected).max() > 1e-3
    assert np.abs(written_out(settings, 1, x, g) - expected).max() > 1e-3
