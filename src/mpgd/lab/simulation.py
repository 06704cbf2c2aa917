"""What the lab shows, computed with the library: orbit and values, sums, descent in the valley.

    y_(k+1) = T(y_k),     v_k = chi_k v(y_k)                             `orbit`
    n^(-gamma) (v_0 + ... + v_(k-1)),  k <= n,  and its law at k = n     `sums`
    x' = x - eta grad(x) - mu eta^gamma v1 x + sigma eta^gamma v2        `descent`

Every function returns plain numbers and lists, ready for JSON. In the symmetric scheme a value is
the difference of two independent ones.

Reference: Lim, Wan & Simsekli (2022), Sections 2, 3 and 5.1.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from math import inf, sqrt
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.experiments.driver import training as figure_one
from mpgd.experiments.training import walk as walked
from mpgd.experiments.valley import training as valley
from mpgd.lab.settings import Settings
from mpgd.limits import limit_law
from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, GaussianNoise, StableLaw
from mpgd.noise.counter import flat_index, step_key_tensor
from mpgd.optim.update import descended, strengths, term

Array = NDArray[np.float64]
Numbers = dict[str, Any]

COUNT: Final = 10_000  # sums in the histogram
SHOWN: Final = 24  # running sums drawn
MOMENTS: Final = 1000  # at most, of a curve over time
RUNS: Final = 32  # descents of each scheme; the first is the one that moves
BLOCK: Final = 500  # steps whose perturbations are made at once
NAMES: Final = ("gd", "gaussian", "mpgd")
WIDEST: Final = 8.0  # the histogram's reach, in scales of the limit law
DIMENSION: Final = valley.DIMENSION + 1


def make_noise(settings: Settings) -> ChaoticNoise:
    """Return the driver the settings ask for."""
    rule = "product" if settings.scheme == "product" else "fresh"
    return ChaoticNoise(settings.gamma, settings.beta, rule)


def perturbation(settings: Settings, count: int = 1) -> Tensor:
    """Return values v_k of ``count`` independent drivers, (time, driver).

    Plain schemes: ``make_noise(settings).path(steps, count, seed)``. Symmetric: twice as many,
    neighbours subtracted.
    """
    noise, twins = make_noise(settings), settings.scheme == "symmetric"
    path = noise.path(settings.steps, (count, 2) if twins else (count,), settings.seed)
    return path[..., 0] - path[..., 1] if twins else path


def limit_of(settings: Settings) -> StableLaw:
    """Return the law the sums tend to."""
    law = limit_law(make_noise(settings))
    twins = settings.scheme == "symmetric"
    return StableLaw(law.alpha, scale=2.0**settings.gamma) if twins else law


def orbit(settings: Settings) -> Numbers:
    """Return an orbit y_k, its values v_k, the map's graph and its constants."""
    noise, T = make_noise(settings), ThalerMap(settings.gamma)
    y, _ = figure_one.orbit(noise, settings.steps, settings.seed)
    left = T.y_star * np.linspace(0.0, 1.0, 60)[1:] ** 2
    right = np.linspace(T.y_star, 1.0, 41)[1:]
    return {
        "y": y.tolist(),
        "v": perturbation(settings)[:, 0].tolist(),
        "branches": [[x.tolist(), T(x).tolist()] for x in (left, right)],
        **figure_one.constants(noise),
    }


def sums(settings: Settings) -> Numbers:
    """Return running sums, and a histogram of many at the end beside the limit's density."""
    law, scale = limit_of(settings), float(settings.steps) ** -settings.gamma
    running = scale * perturbation(settings, SHOWN).cumsum(0)
    moments = thin(settings.steps, MOMENTS // 2)
    x = np.sort(ends(settings, COUNT).numpy())
    reach = WIDEST * (2.0**settings.gamma if settings.scheme == "symmetric" else 1.0)
    edges = np.linspace(-reach, reach, 82)
    grid = np.linspace(-reach, reach, 241)
    density = np.histogram(x, edges)[0] / (COUNT * np.diff(edges))
    return {
        "moments": [k + 1 for k in moments],
        "running": running[moments].T.tolist(),
        "edges": edges.tolist(),
        "density": density.tolist(),
        "count": COUNT,
        "beyond": float(np.mean(np.abs(x) > reach)),
        "grid": grid.tolist(),
        "limit": law.pdf(grid).tolist(),
        "limit_alpha": 1.0 / settings.gamma,
        "limit_beta": law.beta,
        "distance": figure_one.ks_distance(x, law),
        "perfect": figure_one.PERFECT / sqrt(COUNT),
    }


def ends(settings: Settings, count: int) -> Tensor:
    """Return ``count`` normalised sums of all steps; the first are those of `perturbation`."""
    twins = 2 if settings.scheme == "symmetric" else 1
    x = make_noise(settings).birkhoff(settings.steps, twins * count, settings.seed)
    return x[0::2] - x[1::2] if twins == 2 else x


def descent(settings: Settings) -> Numbers:
    """Return the ways of GD, Gaussian and MPGD down the valley, and the Hessian's trace.

    All runs of one number start at the same place. ``length`` is |u|; the quartiles of the trace
    are over all runs, the rest is run 0.
    """
    moments = thin(settings.steps + 1, MOMENTS)
    x = walk(settings, moments)
    trace = valley.trace(x.reshape(-1, DIMENSION)).view(x.shape[:-1])  # (moment, scheme, run)
    ranked = trace.nan_to_num(nan=inf, posinf=inf).sort(dim=2).values  # who ran off comes last
    quartiles = ranked[..., [RUNS // 4, RUNS // 2, RUNS * 3 // 4]].movedim(2, 0)
    length, v = x[..., 0, :-1].norm(dim=-1), x[..., 0, -1]
    return {
        "moments": moments,
        "runs": RUNS,
        "schemes": {
            name: {
                "length": finite(length[:, i]),
                "v": finite(v[:, i]),
                "trace": finite(trace[:, i, 0]),
                "quartiles": [finite(q) for q in quartiles[:, :, i]],
                "loss": finite((v[:, i] * length[:, i]).square() / 2),
            }
            for i, name in enumerate(NAMES)
        },
    }


def walk(settings: Settings, moments: list[int]) -> Tensor:
    """Return the places x = (u, v) at these moments, (moment, scheme, run, element).

    On arrays this small numpy takes a quarter of torch's time, and the update is only arithmetic.
    """
    start = valley.start([(settings.seed + run) % 2**32 for run in range(RUNS)])
    x: Any = start.expand(len(NAMES), -1, -1).numpy()
    perturbed, wanted = terms(settings), set(moments)

    def slope(x: Any) -> tuple[None, Any]:
        u, v = x[..., :-1], x[..., -1:]
        return None, np.concatenate([v * v * u, v * (u * u).sum(-1, keepdims=True)], axis=-1)

    def step(x: Any, g: Any, k: int) -> Any:
        return descended(x, g, settings.eta, *next(perturbed))

    with np.errstate(over="ignore", invalid="ignore"):
        places = (place for place, _ in walked(x, slope, step, settings.steps))
        kept = [place for k, place in enumerate(chain([x], places)) if k in wanted]
    return torch.from_numpy(np.stack(kept))


def terms(settings: Settings) -> Iterator[tuple[Any, Any]]:
    """Yield m = mu eta^gamma v1 and n = sigma eta^gamma v2 of every step, (scheme, run, element).

    The Gaussian has the prefactor and the variance per step of that MPGD.
    """
    twins = settings.scheme == "symmetric"
    noise, steps, seed = make_noise(settings), settings.steps, settings.seed
    chaotic = chaotic_values(noise, steps, seed, 4 if twins else 2)
    gaussian, deviation = gaussian_values(steps, seed), sqrt(noise.variance * (2 if twins else 1))
    levels = strengths(settings.eta, settings.mu, settings.sigma, (settings.gamma, settings.gamma))
    for first in range(0, steps, BLOCK):
        v, w = chaotic[first : first + BLOCK], gaussian[first : first + BLOCK]
        both = torch.zeros(2, len(v), len(NAMES), RUNS, DIMENSION, dtype=torch.float64)
        for which, level in enumerate(levels):
            twin = v[:, which + 2] if twins else None
            both[which, :, 1] = term(level, deviation * w[:, which], None, v.dtype)
            both[which, :, 2] = term(level, v[:, which], twin, v.dtype)
        yield from zip(*both.numpy(), strict=True)


# mu, sigma and eta do not change the noise, so that their sliders need not wait for it.
@lru_cache(maxsize=2)
def chaotic_values(noise: ChaoticNoise, steps: int, seed: int, drivers: int) -> Tensor:
    """Return the values of all drivers of all runs, (time, driver, run, element)."""
    return noise.path(steps, (drivers, RUNS, DIMENSION), seed)


@lru_cache(maxsize=2)
def gaussian_values(steps: int, seed: int) -> Tensor:
    """Return standard normal values, (time, driver, run, element): a path, all steps at once."""
    noise, shape = GaussianNoise(), (2, RUNS, DIMENSION)
    keys = step_key_tensor(noise.init(shape, seed).key, torch.arange(steps))
    return noise.draw(flat_index(shape, keys.device), keys.view(-1, 1, 1, 1))


def thin(count: int, most: int) -> list[int]:
    """Return at most ``most`` evenly spread indices below ``count``, the first and last among them.

    Examples:
        >>> thin(5, 10), thin(7, 3)
        ([0, 1, 2, 3, 4], [0, 3, 6])
    """
    return [round(k) for k in np.linspace(0, count - 1, min(count, most))]


def finite(x: Tensor) -> list[float | None]:
    """Return numbers with None for what JSON cannot say: a descent that has run off."""
    values = x.tolist()
    if bool(torch.isfinite(x).all()):
        return list(values)
    return [value if np.isfinite(value) else None for value in values]
