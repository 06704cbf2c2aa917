"""Theorem 4.3 against a hand-solved case, a simulation written here, and its own second method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd import ChaoticNoise
from mpgd.theory import implicit_regularizer
from mpgd.theory.implicit.drive import mean_values

Array = NDArray[np.float64]

START = torch.tensor([1.2, -0.8], dtype=torch.float64)


def pair(x: Tensor) -> Tensor:
    """Return the two-parameter quartic p^4/4 + p^2 q^2/2 + q^2/2 + p q/3."""
    return _quartic(x[0], x[1])


def _quartic(p: Any, q: Any) -> Any:
    return p**4 / 4 + p**2 * q**2 / 2 + q**2 / 2 + p * q / 3


def _slope(x: Array) -> Array:
    p, q = x
    return np.stack([p**3 + p * q**2 + q / 3, p**2 * q + q + p / 3])


def net(x: Tensor) -> Tensor:
    """Return the error of a tanh network with 13 parameters."""
    inputs = torch.linspace(-1, 1, 10, dtype=torch.float64).view(5, 2)
    h = torch.tanh(inputs @ x[:6].view(2, 3) + x[6:9])
    return ((h @ x[9:12] + x[12] - inputs[:, 0] ** 2) ** 2).mean()


def net_start() -> Tensor:
    return torch.randn(13, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def coefficient(loss: Callable[[Tensor], Tensor] = pair, x0: Tensor = START, **changes: Any) -> Any:
    case: dict[str, Any] = {"m": 10, "steps": 12, "mu0": 1.0, "sigma0": 0.0}
    return implicit_regularizer(loss, x0, **case | {"noise": ChaoticNoise(0.6)} | changes)


def simulated(
    mu0: float,
    sigma0: float,
    beta: float,
    shared: bool,
    paths: int = 60_000,
    noise: ChaoticNoise | None = None,
    symmetric: bool = False,
) -> tuple[float, float]:
    """Return the measured coefficient and its standard error, with gradients written by hand."""
    noise, m, steps = noise or ChaoticNoise(0.6, beta), 10, 12

    def drawn(rows: int, seed: int, size: float) -> Array:
        seeds = (seed, seed + 10) if symmetric else (seed,)
        found = [noise.path(steps, (rows, paths), seed=each).numpy() for each in seeds]
        return np.asarray((found[0] - found[1] if symmetric else found[0]) * size * m**-0.6)

    v1, v2 = drawn(1 if shared else 2, 90210, mu0), drawn(2, 90211, sigma0)

    def excess(eps: float) -> Array:
        x, bar = np.repeat(START.numpy()[:, None], paths, axis=1), START.numpy()
        for a, b in zip(v1, v2, strict=True):
            x, bar = x - _slope(x) / m - eps * a * x + eps * b, bar - _slope(bar) / m
        return np.asarray(_quartic(*x) - _quartic(*bar))

    def even(eps: float) -> Array:
        return (excess(eps) + excess(-eps)) / (2 * eps**2)

    extrapolated = (4 * even(0.05) - even(0.1)) / 3
    return float(extrapolated.mean()), float(extrapolated.std()) / paths**0.5


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("sigma0", [0.0, 0.5])
def test_the_completed_coefficient_is_the_simulated_one(
    beta: float, shared: bool, sigma0: float
) -> None:
    """The twin that must fail is the theorem as printed."""
    case: Any = {"sigma0": sigma0, "noise": ChaoticNoise(0.6, beta), "shared": shared}
    measured, stderr = simulated(1.0, sigma0, beta, shared)
    completed, printed = coefficient(**case), coefficient(**case, complete=False)
    assert stderr < 0.02 * completed.coefficient
    assert abs(measured - completed.coefficient) < 3 * stderr
    assert abs(measured - printed.coefficient) > 3 * stderr
    assert printed.coefficient == completed.trace + completed.third
    assert printed.cross == completed.cross > 0


@pytest.mark.parametrize(
    "noise",
    [ChaoticNoise(0.6, 0.5), ChaoticNoise(0.6, 0.5, signs="product", first_sign="positive")],
)
@pytest.mark.parametrize("shared", [True, False])
def test_the_symmetric_variant(noise: ChaoticNoise, shared: bool) -> None:
    """The difference of two drivers has mean 0 whatever their signs, and twice the covariance."""
    case: Any = {"sigma0": 0.5, "noise": noise, "shared": shared, "symmetric": True}
    measured, stderr = simulated(1.0, 0.5, 0.5, shared, noise=noise, symmetric=True)
    completed, printed = coefficient(**case), coefficient(**case, complete=False)
    assert completed.first == 0.0
    assert abs(measured - completed.coefficient) < 3 * stderr < 0.06 * measured
    assert abs(measured - printed.coefficient) > 3 * stderr
    along = coefficient(**case, method="pathwise", paths=4000)
    assert abs(along.coefficient - completed.coefficient) < 4 * along.stderr + 1e-9


@pytest.mark.parametrize("first_sign", ["drawn", "positive"])
@pytest.mark.parametrize("shared", [True, False])
def test_product_signs_have_a_mean_and_a_first_order(first_sign: str, shared: bool) -> None:
    noise = ChaoticNoise(0.6, 0.5, signs="product", first_sign=first_sign)
    case: Any = {"sigma0": 0.5, "noise": noise, "shared": shared, "with_mean": True}
    found = coefficient(**case)
    measured, stderr = simulated(1.0, 0.5, 0.5, shared, noise=noise)
    assert abs(measured - found.coefficient) < 3 * stderr < 0.06 * measured
    values = noise.path(6, (400_000,), seed=5).mean(dim=1)
    expected = mean_values(noise, 6)
    assert (values - expected).abs().max() < 5e-3 < expected.abs().max()
    eps, m = 1e-4, 10
    ends = []
    for sign in (1.0, -1.0):  # the mean path alone gives the first order
        x = START.clone()
        for v in mean_values(noise, 12):
            slope = torch.as_tensor(_slope(x.numpy()))
            x = x - slope / m + sign * eps * m**-0.6 * (0.5 * v - v * x)
        ends.append(float(pair(x)))
    assert found.first == pytest.approx((ends[0] - ends[1]) / (2 * eps), rel=1e-4)
    assert abs(found.first) > 1e-3


def test_fresh_signs_with_a_first_of_one_have_a_mean_until_the_first_visit() -> None:
    noise = ChaoticNoise(0.6, 0.5, first_sign="positive")
    measured = noise.path(6, (400_000,), seed=6).mean(dim=1)
    assert (measured - mean_values(noise, 6)).abs().max() < 5e-3
    assert mean_values(noise, 6).abs().max() > 0.02


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_additive_noise_alone_needs_no_further_term(beta: float) -> None:
    case: Any = {"mu0": 0.0, "sigma0": 1.0, "noise": ChaoticNoise(0.6, beta)}
    measured, stderr = simulated(0.0, 1.0, beta, shared=True)
    completed, printed = coefficient(**case), coefficient(**case, complete=False)
    assert completed.coefficient == printed.coefficient
    assert completed.cross == 0.0
    assert abs(measured - completed.coefficient) < 3 * stderr < 0.06 * measured


def test_two_steps_on_a_parabola_by_hand() -> None:
    """R = h x^2/2 has no third derivative; with J = 1 - h/m every average is written out."""
    h, m, x0, noise = 2.0, 8.0, 1.5, ChaoticNoise(0.7, 0.3)
    R0, R1 = noise.autocovariance([0, 1]).tolist()
    J, a, b = 1 - h / m, 0.9 * m**-0.7, 0.4 * m**-0.7
    result = coefficient(
        lambda x: h * (x**2).sum() / 2,
        torch.tensor([x0]),
        m=m,
        steps=2,
        mu0=0.9,
        sigma0=0.4,
        noise=noise,
    )
    multiplicative = a**2 * J**2 * x0**2 * (2 * R0 + 2 * R1)
    additive = b**2 * (J**2 * R0 + R0 + 2 * J * R1)
    assert result.trace == pytest.approx(h / 2 * (multiplicative + additive), rel=1e-12)
    assert result.third == 0.0
    assert result.cross == pytest.approx(h * J**2 * x0 * a**2 * R1 * x0, rel=1e-12)
    assert result.stderr == 0.0


@pytest.mark.parametrize("shared", [True, False])
def test_drivers_of_two_laws_add_up(shared: bool) -> None:
    laws = (ChaoticNoise(0.6), ChaoticNoise(0.8, 0.5))
    both = coefficient(net, net_start(), sigma0=0.5, noise=laws, shared=shared)
    one = coefficient(net, net_start(), noise=laws[0], shared=shared)
    other = coefficient(net, net_start(), mu0=0.0, sigma0=0.5, noise=laws[1])
    for part in ("coefficient", "trace", "third", "cross"):
        assert getattr(both, part) == pytest.approx(getattr(one, part) + getattr(other, part))


def test_one_parameter_shares_its_driver_with_nobody() -> None:
    x0 = torch.tensor([1.3])
    results = [coefficient(lambda x: (x**4).sum(), x0, m=40, shared=s) for s in (True, False)]
    assert results[0].coefficient == pytest.approx(results[1].coefficient, rel=1e-12)


@pytest.mark.parametrize("sigma0", [0.0, 1.0])
def test_pathwise_agrees_with_exact_per_coordinate(sigma0: float) -> None:
    case: Any = {"m": 5, "mu0": 1.0 - sigma0, "sigma0": sigma0, "shared": False}
    exact = coefficient(net, net_start(), **case)
    drawn = coefficient(net, net_start(), **case, method="pathwise", paths=3000, seed=7)
    assert abs(drawn.coefficient - exact.coefficient) < 3 * drawn.stderr
    assert 0 < drawn.stderr < 0.02 * abs(exact.coefficient)
    for part in ("trace", "third", "cross"):
        assert getattr(drawn, part) == pytest.approx(
            getattr(exact, part), abs=0.05 * abs(exact.coefficient)
        )


def test_pathwise_sums_a_shared_driver_exactly() -> None:
    exact = coefficient(net, net_start(), noise=ChaoticNoise(0.6, 0.5))
    summed = coefficient(net, net_start(), noise=ChaoticNoise(0.6, 0.5), method="pathwise")
    assert summed.stderr == 0.0
    for part in ("coefficient", "trace", "third", "cross"):
        assert getattr(summed, part) == pytest.approx(getattr(exact, part), rel=1e-9)


def test_pathwise_draws_a_shared_driver_of_many_steps() -> None:
    exact = coefficient(steps=40, m=50)
    drawn = coefficient(steps=40, m=50, method="pathwise", paths=39, seed=3)
    assert 0 < abs(drawn.coefficient - exact.coefficient) < 3 * drawn.stderr


def test_pathwise_as_printed_has_the_error_of_what_it_returns() -> None:
    case: Any = {"shared": False, "method": "pathwise", "paths": 50}
    both, printed = coefficient(**case), coefficient(**case, complete=False)
    assert printed.coefficient == both.trace + both.third
    assert printed.stderr != both.stderr


def test_nothing_is_drawn_from_a_global_generator() -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    results = [coefficient(shared=False, method="pathwise", paths=20, seed=s) for s in (1, 1, 2)]
    assert results[0] == results[1] != results[2]
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"noise": ChaoticNoise(0.6, 0.5, signs="product")},
            "hypothesis E v = 0 fails for .*'product'",
        ),
        ({"noise": ChaoticNoise(0.6, first_sign="positive")}, "E v = 0 fails .*'positive'"),
        ({"noise": (ChaoticNoise(0.6), ChaoticNoise(0.6, -1, signs="product"))}, "E v = 0 fails"),
        ({"loss": lambda x: x**2}, r"scalar tensor, got \(2,\)"),
        ({"loss": lambda x: 3.0}, "scalar tensor, got float"),
        ({"loss": lambda x: x.detach().sum()}, "graph back to x"),
        ({"loss": lambda x: (x + 1.0).log().sum(), "x0": -START}, "finite, but at x0 it is nan"),
        ({"loss": lambda x: (x**4).sum(), "x0": 50 * START}, "path must stay finite, but step"),
        ({"m": 0.0}, r"m must lie in \(0, inf\)"),
        ({"steps": 0}, "steps must be an integer >= 1"),
        ({"mu0": -1.0}, "mu0 must lie in"),
        ({"sigma0": float("nan")}, "sigma0 must lie in"),
        ({"method": "pathwise", "with_mean": True}, r"with_mean=True needs method='exact', got"),
        ({"method": "magic"}, "method must be one of 'exact', 'pathwise'"),
        ({"method": "pathwise", "paths": 1}, "paths must be an integer >= 2"),
        ({"x0": torch.ones(2, 2)}, r"x0 must be a tensor of shape \(d,\), d >= 1, got \(2, 2\)"),
        ({"loss": torch.sum, "x0": torch.ones(201)}, "at most 200 parameters, got 201: use method"),
    ],
)
def test_errors(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        coefficient(**changes)


def test_other_noises_are_refused() -> None:
    with pytest.raises(TypeError, match=r"a ChaoticNoise or a pair of them, got 0\.6"):
        coefficient(noise=0.6)


@pytest.mark.parametrize(
    "noise",
    [
        ChaoticNoise(0.6, 0.0, signs="product"),
        ChaoticNoise(0.6, 1.0, signs="product", first_sign="positive"),
    ],
)
def test_signs_with_mean_zero_after_all_are_accepted(noise: ChaoticNoise) -> None:
    """At beta = 0 a product of signs is a fresh sign; at beta = 1 every sign is +1."""
    same = ChaoticNoise(0.6, noise.beta)
    expected = coefficient(noise=same).coefficient
    assert coefficient(noise=noise).coefficient == pytest.approx(expected, rel=1e-9)


def test_the_mean_of_capped_phases_is_not_guessed() -> None:
    capped = ChaoticNoise(0.6, 0.0, signs="product", first_sign="positive", longest=50)
    with pytest.raises(ValueError, match=r"mean of noise with a longest phase .* got longest=50"):
        mean_values(capped, 5)
    assert not mean_values(ChaoticNoise(0.6, longest=50), 5).any()
