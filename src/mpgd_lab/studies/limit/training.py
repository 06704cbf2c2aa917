"""MPGD and its equation simulated, and how far their laws are apart."""

import math
from collections.abc import Iterator
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.limits import Distance, FastSlow, Linear, MarcusSDE, distances_in_law, limit_law
from mpgd.noise import ChaoticNoise
from mpgd_lab.batched_training import Outcome, Result
from mpgd_lab.store import Run
from mpgd_lab.studies.driver.runs import FIRST_SIGN
from mpgd_lab.studies.driver.training import ks_distance
from mpgd_lab.studies.limit import extensions
from mpgd_lab.studies.limit.alpha_paths import alpha_distances
from mpgd_lab.studies.limit.runs import GAMMA, LOSSES, SIZES, TIMES

Array = NDArray[np.float64]

DISTANCES: Final = ("ks", "wasserstein", "energy")
GRID: Final = 240  # points at which distribution functions are kept
ROTATION: Final = Linear([[0.0, -1.0], [1.0, 0.0]])


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield metrics and curves of each run."""
    for run in runs:
        yield run, *work(run)


def work(task: Run) -> Outcome:
    """Return metrics and curves of a run."""
    parts = {"driver": driver_error, "law": compare, "jump": one_jump, "rotation": rotation}
    parts |= extensions.PARTS | {"alpha": alpha_distances}
    return parts[task.hyperparameters["part"]](task)


def driver_error(task: Run) -> Outcome:
    """Return the KS distance of the driver's sums to their limit, on orbits MPGD does not use."""
    h = task.hyperparameters
    noise = ChaoticNoise(GAMMA, h["beta"], signs=task.scheme, first_sign=FIRST_SIGN[task.scheme])
    sums = np.sort(noise.birkhoff(h["m"], h["reference"], task.seed + 2).numpy())
    return {"ks": ks_distance(sums, limit_law(noise))}, {}


def compare(task: Run) -> Outcome:
    """Return distances in law of MPGD to its equation, and to the one with skewness beta."""
    h = task.hyperparameters
    system = _mpgd(h["loss"], h["kind"], h["beta"], task.scheme)
    x0 = LOSSES[h["loss"]].x0
    x = _scaled(system.simulate(x0, h["m"], TIMES[-1], h["paths"], task.seed, TIMES).x)
    limit = limit_law(ChaoticNoise(GAMMA, h["beta"], signs=task.scheme)).beta
    targets = {"": limit} if limit == h["beta"] else {"": limit, "claimed_": h["beta"]}
    curves: dict[str, Any] = {"times": TIMES}
    for prefix, beta in targets.items():
        y = _reference(h["loss"], h["kind"], beta, h["reference"], h["steps"], task.seed)
        distances = [_distances(x[i], y[i], h, task.seed) for i in range(len(TIMES))]
        curves |= {prefix + name: [astuple(at[name]) for at in distances] for name in distances[0]}
        if not prefix:
            curves |= _functions(x[-1, :, 0], y[-1, :, 0])
    names = [name for name in curves if name.removeprefix("claimed_") in DISTANCES]
    return {name: curves[name][-1][0] for name in names}, curves


def _mpgd(loss: str, kind: str, beta: float, signs: str) -> FastSlow:
    mu, sigma = SIZES[kind]
    gradient, first = LOSSES[loss].gradient, FIRST_SIGN[signs]
    return FastSlow.mpgd(gradient, mu, sigma, GAMMA, beta, signs=signs, first_sign=first)


@lru_cache(maxsize=2)
def _reference(loss: str, kind: str, beta: float, paths: int, steps: int, seed: int) -> Array:
    """Return a sample of the equation at the fixed times, independent of MPGD's."""
    sde = _mpgd(loss, kind, beta, "fresh").limit()
    steps = math.ceil(steps * TIMES[-1])
    return _scaled(sde.solve(LOSSES[loss].x0, TIMES[-1], steps, paths, seed + 1, TIMES).x)


def _scaled(x: Tensor) -> Array:
    return np.asarray(np.arcsinh(x.numpy()))


def _distances(x: Array, y: Array, h: Any, seed: int) -> dict[str, Distance]:
    """Return the distances of vectors: of the worst coordinate, and the joint energy distance."""
    each = [
        distances_in_law(x[:, k], y[:, k], h["resamples"], seed=seed) for k in range(x.shape[1])
    ]
    if len(each) == 1:
        return each[0]
    worst = {n: max((one[n] for one in each), key=lambda d: d.value) for n in DISTANCES[:2]}
    few = slice(h["joint"])
    return worst | {"energy": distances_in_law(x[few], y[few], h["resamples"], seed=seed)["energy"]}


def _functions(x: Array, y: Array) -> dict[str, Array]:
    """Return the distribution functions of both samples over the bulk of the second."""
    low, high = np.quantile(y, [0.005, 0.995])
    grid = np.linspace(low, high, GRID)
    cdf, limit = (np.searchsorted(np.sort(s), grid, "right") / len(s) for s in (x, y))
    return {"grid": grid, "cdf": cdf, "limit_cdf": limit}


def one_jump(task: Run) -> Outcome:
    """Return where a jump of angle theta takes (1, 0), made in n equal forward steps."""
    theta = task.hyperparameters["theta"]
    n = 2 ** np.arange(11)
    z = (1.0 + 1j * theta / n) ** n
    sde = MarcusSDE(torch.zeros_like, [(ROTATION, limit_law(ChaoticNoise(GAMMA)))])
    jump = torch.full((1, 1, 1), theta, dtype=torch.float64)
    ends = {
        i: sde.solve([1.0, 0.0], 1.0, 1, 1, increments=jump, integral=i).final[0].tolist()
        for i in ("marcus", "ito")
    }
    gap = np.abs(z - complex(*ends["marcus"]))
    return {"gap": float(gap[-1])}, ends | {"n": n, "x": z.real, "y": z.imag, "gap": gap}


def rotation(task: Run) -> Outcome:
    """Return how near rotation by chaos is to the Marcus and to the Ito equation.

    The Wasserstein distance of the first coordinate: that of Marcus is a cosine, whose law has such
    sharp ends that a norm of 1.1 instead of 1 is already far off in the KS distance.
    """
    h = task.hyperparameters
    system = FastSlow(torch.zeros_like, [(ROTATION, ChaoticNoise(GAMMA))])
    x = system.simulate([1.0, 0.0], h["m"], 1.0, h["paths"], task.seed).final
    curves: dict[str, Any] = {"radius": np.quantile(x.norm(dim=1), [0.05, 0.5, 0.95])}
    for integral in ("marcus", "ito"):
        y = _rotated(integral, h["reference"], h["steps"], task.seed)
        distances = distances_in_law(_scaled(x[:, 0]), _scaled(y[:, 0]), h["resamples"])
        curves[integral] = astuple(distances["wasserstein"])
        curves[f"{integral}_radius"] = np.quantile(y.norm(dim=1), [0.05, 0.5, 0.95])
    return {integral: curves[integral][0] for integral in ("marcus", "ito")}, curves


@lru_cache(maxsize=2)
def _rotated(integral: str, paths: int, steps: int, seed: int) -> Tensor:
    sde = MarcusSDE(torch.zeros_like, [(ROTATION, limit_law(ChaoticNoise(GAMMA)))])
    return sde.solve([1.0, 0.0], 1.0, steps, paths, seed + 1, integral=integral).final
