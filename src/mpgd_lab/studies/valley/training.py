"""Descent in the valley: many runs at once, and the authors' script step by step.

grad_u = v^2 u,     grad_v = v |u|^2,     trace = d v^2 + |u|^2
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.maps import ThalerMap
from mpgd.noise.driver import values
from mpgd_lab.batched_training import MOMENTS, Result, descend
from mpgd_lab.perturbations.released import ITERATES
from mpgd_lab.store import Run
from mpgd_lab.studies.valley.runs import LANDSCAPE

Array = NDArray[np.float64]

DIMENSION: Final = 10
SHAPES: Final = [(DIMENSION,), (1,)]
THINNED: Final = 5  # steps between two points of a path that is kept

RELEASED_START: Final = 17.28
RELEASED_SEEDS: Final = (2222, 2345, 3456)  # orbits of: u additive, v additive, multiplicative
SIGN_OFFSET: Final = 12
SEED_STRIDE: Final = 10_000  # between the orbit seeds of two runs
RELEASED_MEANS: Final = (10.0, 1.0, 1.0)  # of the Gaussian in these three places


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the final trace and its curve for each run, or its path if that is to be kept."""
    if runs[0].hyperparameters.get("part") == LANDSCAPE:
        yield from follow(runs)
        return
    if runs[0].protocol == "released":
        for task in runs:
            moments, curve = script(task)
            yield task, {"trace": curve[-1]}, {"step": moments, "trace": curve}
        return
    trained = descend(start([task.seed for task in runs]), runs, SHAPES, gradient)
    final = trace(trained.after)
    for row, task in enumerate(runs):
        curves = {"step": trained.moments, "trace": trained.curve[:, row]}
        yield task, {"trace": float(final[row])}, curves


def follow(runs: list[Run]) -> Iterator[Result]:
    """Yield the path (|u|, v) of each run, thinned."""
    if runs[0].protocol == "released":
        for task in runs:
            yield _followed(task, np.array([(RELEASED_START, 0.0), *released_path(task)]))
        return
    passed: list[Tensor] = []

    def noted(x: Tensor) -> tuple[Tensor, Tensor]:
        passed.append(torch.stack([x[:, :-1].norm(dim=1), x[:, -1]], dim=1))
        return gradient(x)

    trained = descend(start([task.seed for task in runs]), runs, SHAPES, noted)
    noted(trained.after)
    for row, task in enumerate(runs):
        yield _followed(task, torch.stack(passed)[:, row].numpy())


def _followed(task: Run, path: Array) -> Result:
    u, v = path.T
    loss = u**2 * v**2 / 2
    return task, {"loss": float(loss[-1])}, {"u": u[::THINNED], "v": v[::THINNED]}


def start(seeds: Sequence[int]) -> Tensor:
    """Return (u, v) = (5 U[0, 1]^10, 0) of every seed, (run, element)."""
    u = [5.0 * np.random.RandomState(seed).uniform(size=DIMENSION) for seed in seeds]
    return torch.from_numpy(np.pad(np.stack(u), ((0, 0), (0, 1))))


def trace(x: Tensor) -> Tensor:
    """Return the trace of the Hessian at x = (u, v), (run,)."""
    u, v = x[:, :-1], x[:, -1]
    return u.shape[1] * v.square() + u.square().sum(1)


def gradient(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the trace (run,) and the gradient (run, element) at x = (u, v)."""
    u, v = x[:, :-1], x[:, -1:]
    return trace(x), torch.cat([v.square() * u, v * u.square().sum(1, keepdim=True)], dim=1)


def script(task: Run) -> tuple[list[int], list[float]]:
    """Return moments and the trace v^2 + u^2 there, as the authors' script moves."""
    steps = task.hyperparameters["steps"]
    every = max(1, steps // MOMENTS)
    moments, curve = [0], [RELEASED_START**2]
    for k, (u, v) in enumerate(released_path(task), start=1):
        if k % every == 0 or k == steps:
            moments.append(k)
            curve.append(v * v + u * u)
    return moments, curve


def released_path(task: Run) -> Iterator[tuple[float, float]]:
    """Yield (u, v) after every step, as the authors' script moves."""
    h = task.hyperparameters
    eta, (mu, sigma) = h["eta"], _released_levels(h)
    u, v = RELEASED_START, 0.0
    for on_u, on_v, multiplicative in zip(*_released_noise(task), strict=True):
        u = u - eta * v * v * u - mu * multiplicative * u + sigma * on_u
        v = v - eta * v * u * u - mu * multiplicative * u + sigma * on_v  # u is the new one
        yield u, v


def _released_levels(h: Any) -> tuple[float, float]:
    """Return what multiplies the noises: the Gaussian has no power of eta."""
    if h["noise"] == "none":
        return 0.0, 0.0
    scale = 1.0 if h["noise"] == "released_gaussian" else h["eta"] ** h["gamma"]
    return h["mu"] * scale, h["sigma"] * scale


def _released_noise(task: Run) -> list[list[float]]:
    """Return the additive noise of u and of v and the multiplicative one, each over all steps."""
    h = task.hyperparameters
    if h["noise"] == "switched":
        shift = SEED_STRIDE * (task.seed - 1)
        return [_orbit(seed + shift, h["gamma"], h["beta"], h["steps"]) for seed in RELEASED_SEEDS]
    rng = np.random.RandomState(task.seed)
    return [rng.normal(mean, 1.0, h["steps"]).tolist() for mean in RELEASED_MEANS]


@lru_cache(maxsize=16)
def _orbit(seed: int, gamma: float, beta: float, steps: int) -> list[float]:
    """Return chi v along one orbit, in plain floats: numpy's powers differ in the last bit.

    The C library's power gave the authors' path on the machines we tried; numpy's did not.
    """
    e, y_star, (c0, c1) = 1.0 - gamma, ThalerMap(gamma).y_star, values(gamma)
    y = float(np.random.RandomState(seed).uniform())
    first = np.random.RandomState(seed + SIGN_OFFSET).uniform()
    delta, chi, orbit = (1.0 if first < (1 + beta) / 2 else -1.0), 1.0, []
    for k in range(-ITERATES, steps):
        if k >= 0:
            chi = chi * delta if y > y_star else chi
            orbit.append(chi * (c1 if y > y_star else c0))
        z = (y**e + (1 + y) ** e - 1) ** (1 / e)
        y = z - 1 if z > 1 else z
    return orbit
