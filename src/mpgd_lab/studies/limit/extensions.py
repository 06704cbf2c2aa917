"""Theorem 4.1 beyond one loss, one gamma and one time.

    two drivers  multiplicative and additive noise at once, with different alphas
    gamma        other gammas, and the symmetric variant, whose limit has scale 2^gamma
    points       m = n: the empirical risk of n points with n steps a unit of time, beside the
                 equation with the population risk. Data take five values: a risk is five counts.
    paths        paths instead of laws: MPGD beside its equation on the same orbit, in SM1 and J1;
                 the energy distance of both laws under SM1; p-variation and jumps of the driver

SM1 is read at some hundred times, where J1 is read at every step; both on the scale asinh(x).
The energy distance is sqrt(2 E d(X, Y) - E d(X, X') - E d(Y, Y')) with the SM1 distance as d.

Reference: Lim, Wan & Simsekli (2022), Theorem C.1, Assumption 1 and equation (11).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.limits import (
    FastSlow,
    MarcusSDE,
    coupled_paths,
    distances_in_law,
    holder_distance,
    p_variation,
    skorokhod_distance,
)
from mpgd.noise import ChaoticNoise
from mpgd.stable import StableLaw
from mpgd_lab.batched_training import Outcome
from mpgd_lab.store import Run
from mpgd_lab.studies.driver.training import ks_distance
from mpgd_lab.studies.limit.runs import GAMMA, LOSSES

Array = NDArray[np.float64]

PAIR: Final = (0.6, 0.7)  # gammas of the multiplicative and the additive driver
BETA: Final = 0.5
MU, SIGMA = 0.2, 0.5
ZS: Final = torch.tensor([-2.0, -0.5, 0.5, 1.0, 3.0], dtype=torch.float64)  # values of the data
PS: Final = torch.tensor([0.1, 0.3, 0.3, 0.2, 0.1], dtype=torch.float64)
BOX: Final = (-5.0, 5.0)  # on which drifts are compared
ORDER: Final = 1.5  # gamma_1 of Assumption 1
P: Final = 1.9  # above alpha = 5/3


def two_drivers(task: Run) -> Outcome:
    """Return the KS distance at time 1 with two drivers of different alphas."""
    h = task.hyperparameters
    system = FastSlow.mpgd(LOSSES["quadratic"].gradient, MU, SIGMA, PAIR, BETA)
    x = _ends(system, h, task.seed)
    return _compared(x, _solved("two drivers", system.limit(), h, task.seed)), {}


def other_gamma(task: Run) -> Outcome:
    """Return the KS distance at another gamma, and the driver's own."""
    h = task.hyperparameters
    gamma, twins = h["gamma"], h["symmetric"]
    system = FastSlow.mpgd(torch.clone, 0.0, SIGMA, gamma, BETA, symmetric=twins)
    sums = ChaoticNoise(gamma, BETA).birkhoff(h["m"], (1 + twins) * h["reference"], task.seed + 2)
    law = StableLaw(1.0 / gamma, scale=2.0**gamma) if twins else StableLaw(1.0 / gamma, BETA)
    own = sums[::2] - sums[1::2] if twins else sums
    limit = MarcusSDE(torch.neg, [(SIGMA, law)])
    distance = _compared(_ends(system, h, task.seed), _solved((gamma, twins), limit, h, task.seed))
    return distance | {"driver": ks_distance(np.sort(own.numpy()), law)}, {}


def training_points(task: Run) -> Outcome:
    """Return KS distances of n-step MPGD on n points to two equations, and that of the drifts.

    One is the equation with the population risk, the other that with the same n points.
    """
    h = task.hyperparameters
    a_n, a = risk_gradient(counted(h["m"], task.seed)), risk_gradient(PS)
    system = FastSlow.mpgd(a_n, 0.0, SIGMA, GAMMA, BETA)
    x = _ends(system, h, task.seed)
    distance = _compared(
        x, _solved("points", FastSlow.mpgd(a, 0.0, SIGMA, GAMMA, BETA).limit(), h, task.seed)
    )
    own = _compared(x, _solved(("points", h["m"]), system.limit(), h, task.seed))
    return distance | {"own_ks": own["ks"], "holder": holder_distance(a_n, a, *BOX, ORDER)}, {}


def counted(n: int, seed: int) -> Tensor:
    """Return the shares of the five values among the first n of one sequence of data."""
    drawn = np.random.default_rng(seed).choice(len(ZS), size=n, p=PS.numpy())
    return torch.as_tensor(np.bincount(drawn, minlength=len(ZS)) / n)


def risk_gradient(shares: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the gradient of the mean of log cosh(x - z), which is bounded, as the theorem asks."""
    return lambda x: (torch.tanh(x[..., None] - ZS) * shares).sum(dim=-1)


def of_paths(task: Run) -> Outcome:
    """Return SM1 and J1 distances on the same orbits, and what is asked of the driver."""
    h = task.hyperparameters
    m, loss = h["m"], LOSSES[h["loss"]]
    system = FastSlow.mpgd(loss.gradient, MU, SIGMA, GAMMA, BETA)
    both = coupled_paths(system, loss.x0, m, 1.0, h["paths"], task.seed + m)
    x, y = (np.arcsinh(path.numpy()) for path in (both.x, both.y))
    read = np.unique(np.linspace(0, m, min(m, h["read"]) + 1).round().astype(int))
    sm1 = [_distance(x[read, i], y[read, i], "SM1", len(read) // 2) for i in range(h["paths"])]
    j1 = [_distance(x[:, i], y[:, i], "J1", m // 5) for i in range(h["paths"])]
    W = both.drivers[-1][..., 0].numpy().T
    metrics = {
        "p_variation": float(np.quantile([p_variation(path, P) for path in W], 0.9)),
        "squares": float(np.median((np.diff(W, axis=1) ** 2).sum(axis=1))),
    }
    if len(loss.x0) == 1:  # in two dimensions this takes five times as long
        metrics["energy"] = _energy(h, loss.x0, task.seed)
    return metrics, {"sm1": sm1, "j1": j1} | (_shown(both.times, x, y) if m == 300 else {})


def _shown(times: Tensor, x: Array, y: Array) -> dict[str, Any]:
    """Return the path whose equation has the largest jump, for a figure."""
    i = int(np.abs(np.diff(y[:, :, 0], axis=0)).max(axis=0).argmax())
    return {"time": times.tolist(), "x": x[:, i, 0].tolist(), "y": y[:, i, 0].tolist()}


def _distance(x: Array, y: Array, topology: Any, band: int) -> float:
    return skorokhod_distance(x, y, topology, band=band)


def _energy(h: Any, x0: tuple[float, ...], seed: int) -> float:
    """Return the energy distance of both laws of paths under SM1; negative squares are 0."""
    n, times = h["sample"], np.linspace(0.0, 1.0, h["sample_read"] + 1)
    system = FastSlow.mpgd(LOSSES[h["loss"]].gradient, MU, SIGMA, GAMMA, BETA)
    x = np.arcsinh(system.simulate(x0, h["m"], 1.0, n, seed, times).x.numpy())
    y = np.arcsinh(system.limit().solve(x0, 1.0, h["steps"], n, seed + 1, times).x.numpy())
    paths = [*np.moveaxis(x, 1, 0), *np.moveaxis(y, 1, 0)]
    d = np.array(
        [
            [_distance(a, b, "SM1", 20) if i < j else 0.0 for j, b in enumerate(paths)]
            for i, a in enumerate(paths)
        ]
    )
    d = d + d.T
    inside = (d[:n, :n].sum() + d[n:, n:].sum()) / (n * (n - 1))
    return float(np.sqrt(max(0.0, 2.0 * d[:n, n:].mean() - inside)))


def _ends(system: FastSlow, h: Any, seed: int) -> Array:
    x = system.simulate(LOSSES["quadratic"].x0, h["m"], 1.0, h["paths"], seed).final
    return np.asarray(np.arcsinh(x[:, 0].numpy()))


@lru_cache(maxsize=4)
def _solution(name: object, paths: int, steps: int, seed: int) -> list[Array]:
    """Return a place where the sample of an equation is kept."""
    return []


def _solved(name: object, limit: MarcusSDE, h: Any, seed: int) -> Array:
    """Return a sample of an equation at time 1, once for all m."""
    kept = _solution(name, h["reference"], h["steps"], seed)
    if not kept:
        x0 = LOSSES["quadratic"].x0
        y = limit.solve(x0, 1.0, h["steps"], h["reference"], seed + 1).final
        kept.append(np.asarray(np.arcsinh(y[:, 0].numpy())))
    return kept[0]


def _compared(x: Array, y: Array) -> dict[str, float]:
    distance = distances_in_law(x, y, resamples=40)["ks"]
    return {
        "ks": distance.value,
        "low": distance.low,
        "high": distance.high,
        "noise": distance.noise,
    }


PARTS: Final = {
    "two drivers": two_drivers,
    "gamma": other_gamma,
    "points": training_points,
    "paths": of_paths,
}
