"""Public functions with subnormal, huge and empty input: what each answers, or why it does not.

`ANSWERS` and `REFUSALS` are tables; `tests/test_extreme_numbers.py` goes through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import mpgd
from mpgd import ChaoticNoise, GaussianNoise, StableLaw, StableNoise, ThalerMap
from mpgd.limits import Linear, coarsen, distances_in_law, p_variation, skorokhod_distance
from mpgd.theory import worst_gap

TINY, HUGE = 5e-324, 1e308  # the smallest double, and one near the largest
RNG = np.random.default_rng(0)
WALK = RNG.standard_normal((600, 2)).cumsum(axis=0)
HEAVY = RNG.standard_t(1.5, 1000)
MAP, LAW = ThalerMap(0.7), StableLaw(1.5, 0.3)
SDE = mpgd.MarcusSDE(lambda x: -x, [(1.0, LAW)])
STILL = mpgd.MarcusSDE(torch.zeros_like, [(Linear([[0.0]]), LAW)])
FAST = mpgd.FastSlow(lambda x: -x, [(1.0, ChaoticNoise(0.7))])
NONE = np.zeros(0)

Answer = tuple[Callable[[], Any], Any]
Refusal = tuple[Callable[[], Any], type[Exception], str]


def distances(x: list[Any], y: list[Any]) -> list[float]:
    return [found.value for found in distances_in_law(x, y, resamples=3).values()]


def quadratic(size: float, function: Callable[..., Any]) -> float:
    """Return something of the Hessian of size |w|^2 / 2 at w of two weights."""
    model = nn.Linear(2, 1, bias=False).double()
    data = [(torch.eye(2, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64))]
    found = function(model, lambda out, y: out.square().sum() * (size / 2.0), data)
    return float(getattr(found, "value", found))


def step(x: float = 1.0, g: float = 1.0, **settings: float) -> list[float]:
    """Return two parameters after a step without noise."""
    w = nn.Parameter(torch.full((2,), x, dtype=torch.float64))
    w.grad = torch.full_like(w, g)
    mpgd.MPGD([w], **({"lr": 0.5, "mu": 0.0, "sigma": 0.0} | settings)).step()
    return w.tolist()


def wrapped(x: float, g: float) -> list[float]:
    w = nn.Parameter(torch.full((2,), x, dtype=torch.float64))
    w.grad = torch.full_like(w, g)
    mpgd.perturb(torch.optim.SGD([w], lr=0.5), mu=0.0, sigma=0.0).step()
    return w.tolist()


def bound(**changes: float) -> float:
    usual: dict[str, Any] = {"lipschitz": 1.0, "bound": 1.0, "constant": 1.0}
    usual |= {"mutual_information": 4.0} | changes
    return mpgd.generalization_bound(1.0, 4, **usual).information_term


def diameter(u: np.ndarray) -> float:
    return float(np.linalg.norm(u[:, None] - u[None, :], axis=2).max())


ANSWERS: dict[str, Answer] = {
    # paths
    "p_variation, p 2000": (lambda: p_variation([0.0, 1.0], 2000.0), 1.0),
    "p_variation, p 2000, plane": (lambda: p_variation(WALK, 2000.0), diameter(WALK)),
    "p_variation, p 1e6": (lambda: p_variation([0.0, 3.0, 1.0], 1e6), 3.0),
    "p_variation, p 1e300": (lambda: p_variation(WALK, 1e300), diameter(WALK)),
    "p_variation, p huge, constant": (lambda: p_variation([[1.0, 2.0]] * 3, 1e9), 0.0),
    "p_variation, tiny": (lambda: p_variation([0.0, TINY, 0.0], 3.0), TINY),
    "p_variation, huge": (lambda: p_variation([0.0, HUGE], 3.0), HUGE),
    "p_variation, -huge to huge": (lambda: p_variation([-HUGE / 2, HUGE / 2], 3.0), HUGE),
    "p_variation, tiny, plane": (lambda: p_variation([[0.0, 0.0], [0.0, TINY]], 2.5), TINY),
    "skorokhod, huge": (lambda: skorokhod_distance([0.0, HUGE], [0.0, 0.0]), HUGE),
    "skorokhod J1, huge": (lambda: skorokhod_distance([0.0, HUGE], [0.0, 0.0], "J1"), HUGE),
    "skorokhod, 1e-150": (lambda: skorokhod_distance([0.0, 1e-150], [0.0, 0.0]), 1e-150),
    "distances, tiny": (
        lambda: distances([0.0, 4 * TINY], [0.0, 0.0]),
        [0.5, 2 * TINY, (2 * TINY) ** 0.5],
    ),
    "distances, huge": (
        lambda: distances([0.0, HUGE], [0.0, 0.0]),
        [0.5, HUGE / 2, (HUGE / 2) ** 0.5],
    ),
    "distances, huge, plane": (
        lambda: distances([[0.0, HUGE]] * 2, [[0.0, 0.0]] * 2),
        [1.0, HUGE, (2.0 * (HUGE / 4)) ** 0.5 * 2],
    ),
    # estimates do not depend on the scale
    **{
        f"tail_index, {method}, huge": (
            lambda method=method: mpgd.tail_index(2.0**1010 * HEAVY / 64, method=method).value,
            mpgd.tail_index(HEAVY, method=method).value,
        )
        for method in ("log_moments", "hill", "mcculloch", "characteristic")
    },
    "tail_index, tiny": (
        lambda: mpgd.tail_index(2.0**-1000 * HEAVY).value,
        mpgd.tail_index(HEAVY).value,
    ),
    "trajectory_dimension, huge": (
        lambda: mpgd.trajectory_dimension(2.0**1010 * WALK / 64).value,
        mpgd.trajectory_dimension(WALK).value,
    ),
    "trajectory_dimension, tiny": (
        lambda: mpgd.trajectory_dimension(2.0**-1000 * WALK).value,
        mpgd.trajectory_dimension(WALK).value,
    ),
    "worst_gap, huge": (lambda: worst_gap([0.0, HUGE], [HUGE, 0.0]).value, HUGE),
    "worst_gap, tiny": (lambda: worst_gap([0.0, TINY], [TINY, 0.0]).value, TINY),
    "bound, huge": (lambda: bound(lipschitz=HUGE), HUGE),
    "bound, tiny": (lambda: bound(mutual_information=TINY), (TINY / 4) ** 0.5),
    # the map: T(y) = y + y^(1 + 1/gamma)..., A(y) ~ y^(-1/alpha) alpha as y -> 0
    "map, tiny": (lambda: float(MAP(TINY)), TINY),
    "map, empty": (lambda: MAP(NONE).shape, (0,)),
    "cdf, tiny": (lambda: float(MAP.cdf(TINY)), (TINY**0.3 / 2**0.3)),
    "quantile, tiny": (lambda: float(MAP.quantile(TINY)), 0.0),
    "quantile, empty": (lambda: MAP.quantile(NONE).shape, (0,)),
    "density, empty": (lambda: MAP.density(NONE).shape, (0,)),
    "abel, tiny": (lambda: float(MAP.abel(TINY)) * TINY**0.7, 1 / 0.7),
    "cdf, empty": (lambda: MAP.cdf(NONE).shape, (0,)),
    "abel, empty": (lambda: MAP.abel(NONE).shape, (0,)),
    "abel_inverse, tiny": (lambda: float(MAP.abel_inverse(TINY)), 1.0),
    "abel_inverse, 1e200": (lambda: float(MAP.abel_inverse(1e200)), 0.7e200 ** (-1 / 0.7)),
    "abel_inverse, huge": (lambda: float(MAP.abel_inverse(HUGE)), 0.0),
    "abel_inverse, empty": (lambda: MAP.abel_inverse(NONE).shape, (0,)),
    "abel_return, tiny": (lambda: float(MAP.abel_return(TINY)), 0.0),
    "abel_return, empty": (lambda: MAP.abel_return(NONE).shape, (0,)),
    # laws
    "law, tiny": (lambda: [LAW.cdf(TINY), LAW.pdf(TINY)], [LAW.cdf(0.0), LAW.pdf(0.0)]),
    "law, huge": (lambda: [LAW.cdf(HUGE), LAW.sf(HUGE), LAW.pdf(HUGE)], [1.0, 0.0, 0.0]),
    "logpdf, huge": (lambda: LAW.logpdf(HUGE) - LAW.logpdf(HUGE / 2), 2.5 * np.log(0.5)),
    "phi, huge": (lambda: abs(LAW.characteristic_function(HUGE)), 0.0),
    "phi, tiny": (lambda: abs(LAW.characteristic_function(TINY)), 1.0),
    "law, huge scale": (lambda: StableLaw(1.5, 0.3, scale=HUGE).cdf(HUGE), LAW.cdf(1.0)),
    "law, tiny scale": (lambda: StableLaw(1.5, 0.3, scale=3e-308).pdf(0.0), LAW.pdf(0.0) / 3e-308),
    "quantile, tiny chance": (lambda: LAW.cdf(LAW.ppf(1e-300)) / 1e-300, 1.0),
    "law, empty": (lambda: [len(f([])) for f in (LAW.pdf, LAW.cdf, LAW.sf, LAW.ppf)], [0] * 4),
    "rvs, empty": (lambda: LAW.rvs(0, random_state=0).tolist(), []),
    # noises
    "path, empty": (lambda: ChaoticNoise(0.7).path(0).tolist(), []),
    "init, empty": (lambda: ChaoticNoise(0.7).init((0,)).word.tolist(), []),
    "birkhoff, empty": (lambda: ChaoticNoise(0.7).birkhoff(10, 0).tolist(), []),
    "Gaussian path, empty": (lambda: GaussianNoise().path(0).tolist(), []),
    "stable birkhoff, empty": (lambda: StableNoise(1.5).birkhoff(5, 0).tolist(), []),
    # equations
    "solve, tiny t1": (lambda: STILL.solve(2.0, t1=1e-300, steps=4).final.item(), 2.0),
    "solve, tiny x0": (lambda: STILL.solve(TINY, steps=2).final.item(), TINY),
    "solve, huge x0": (lambda: STILL.solve(HUGE, steps=2).final.item(), HUGE),
    "simulate, tiny t1": (lambda: FAST.simulate(2.0, 10, TINY).final.item(), 2.0),
    "coarsen, empty": (lambda: coarsen([], 2), []),
    # curvature and steps
    "hessian_trace, huge": (lambda: quadratic(1e300, mpgd.hessian_trace), 2e300),
    "hessian_trace, tiny": (lambda: quadratic(1e-300, mpgd.hessian_trace), 2e-300),
    "top eigenvalue, huge": (lambda: quadratic(1e300, mpgd.hessian_top_eigenvalue), 1e300),
    "top eigenvalue, tiny": (lambda: quadratic(1e-300, mpgd.hessian_top_eigenvalue), 1e-300),
    "MPGD, tiny": (lambda: step(2 * TINY, 2 * TINY), [TINY] * 2),
    "MPGD, huge": (lambda: step(HUGE, HUGE), [HUGE / 2] * 2),
    "MPGD, tiny lr": (lambda: step(lr=TINY), [1.0] * 2),
    "perturb, tiny": (lambda: wrapped(2 * TINY, 2 * TINY), [TINY] * 2),
    "perturb, huge": (lambda: wrapped(HUGE, HUGE), [HUGE / 2] * 2),
}

REFUSALS: dict[str, Refusal] = {
    "p_variation, empty": (lambda: p_variation([], 2.0), ValueError, "must have a point"),
    "p_variation, infinite p": (lambda: p_variation([0.0], np.inf), ValueError, "p must be"),
    "skorokhod, empty": (lambda: skorokhod_distance([], []), ValueError, "must have a point"),
    "distances, empty": (lambda: distances([], []), ValueError, "x must have a point"),
    "tail_index, empty": (lambda: mpgd.tail_index([]), ValueError, r"samples .* got \(0,\)"),
    "tail_index, all one": (lambda: mpgd.tail_index([TINY] * 200), ValueError, "must vary"),
    "dimension, empty": (
        lambda: mpgd.trajectory_dimension(np.zeros((0, 2))),
        ValueError,
        r"points .* got \(0, 2\)",
    ),
    "dimension, all one": (
        lambda: mpgd.trajectory_dimension(np.full((600, 2), HUGE)),
        ValueError,
        "points must differ",
    ),
    "worst_gap, empty": (lambda: worst_gap([], []), ValueError, "one entry per step"),
    "map, 0": (lambda: MAP(0.0), ValueError, r"y must lie in \(0, 1\], got 0.0"),
    "map, huge": (lambda: MAP(HUGE), ValueError, r"y must lie in \(0, 1\], got 1e\+308"),
    "abel_inverse, negative": (lambda: MAP.abel_inverse(-TINY), ValueError, "s must be at least 0"),
    "law, subnormal scale": (
        lambda: StableLaw(1.5, scale=TINY),
        ValueError,
        "scale must be finite and at least 2.23e-308, got 5e-324",
    ),
    "birkhoff, no steps": (lambda: ChaoticNoise(0.7).birkhoff(0, 2), ValueError, "steps must be"),
    "autocovariance, empty": (lambda: ChaoticNoise(0.7).autocovariance([]), TypeError, "lags must"),
    "solve, subnormal t1": (
        lambda: SDE.solve(1.0, t1=TINY, steps=3),
        ValueError,
        "t1 must be at least 6.68e-308 for 3 steps, got 5e-324",
    ),
    "increments, subnormal t1": (
        lambda: SDE.increments(1.0, t1=TINY, steps=3),
        ValueError,
        "t1 must be at least",
    ),
    "solve, huge t1": (
        lambda: SDE.solve(1.0, t1=HUGE, steps=3),
        FloatingPointError,
        "the state is not finite at time",
    ),
    "solve, empty": (lambda: SDE.solve([], steps=2), ValueError, r"x0 .* got shape \(0,\)"),
    "solve, no times": (lambda: SDE.solve(0.0, steps=2, times=[]), ValueError, "times must be"),
    "simulate, huge t1": (
        lambda: FAST.simulate(0.0, 10, HUGE),
        ValueError,
        r"time 1e\+308 at 10 steps per unit is too many steps",
    ),
    "simulate, empty": (lambda: FAST.simulate([], 10), ValueError, r"x0 .* got shape \(0,\)"),
    "bound, negative": (lambda: bound(lipschitz=-TINY), ValueError, "lipschitz"),
    "param_groups, empty": (lambda: mpgd.param_groups(nn.Identity()), ValueError, "none of"),
    "MPGD, empty": (lambda: mpgd.MPGD([], lr=0.1), ValueError, "empty parameter list"),
    "MPGD, infinite lr": (lambda: step(lr=float("inf")), ValueError, "lr must lie"),
    "MPGD, infinite sigma": (lambda: step(sigma=float("inf")), ValueError, "sigma must lie"),
}
