"""What the lab shows of the noise, computed with the library: orbit and values, and sums.

    y_(k+1) = T(y_k),     v_k = chi_k v(y_k)                             `orbit`
    n^(-gamma) (v_0 + ... + v_(k-1)),  k <= n,  and its law at k = n     `sums`
    v_k = c0 u_k,  u telegraph or coloured noise of variance 1           `rivals`

Since F = sigma c0 eta^(gamma-1), a rival's push in units of the gradient is F u. Every function
returns plain numbers and lists, ready for JSON, or tensors (time, ...). In the symmetric scheme a
value is the difference of two independent ones.

Reference: Lim, Wan & Simsekli (2022), Sections 2 and 3.
"""

from functools import lru_cache
from math import sqrt
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.limits import limit_law
from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, ColouredNoise, GaussianNoise, StableNoise, TelegraphNoise
from mpgd.noise.counter_hash import flat_index, step_key_tensor
from mpgd.stable import StableLaw
from mpgd_lab.lab.settings import Settings
from mpgd_lab.studies.driver import training as figure_one

Array = NDArray[np.float64]
Numbers = dict[str, Any]
Noise = ChaoticNoise | TelegraphNoise | ColouredNoise | GaussianNoise | StableNoise

COUNT: Final = 10_000  # sums in the histogram
SHOWN: Final = 24  # running sums drawn
MOMENTS: Final = 1000  # at most, of a curve over time
WIDEST: Final = 8.0  # the histogram's reach at least, in scales of the limit law


def make_noise(settings: Settings) -> ChaoticNoise:
    """Return the driver the settings ask for."""
    rule = "product" if settings.scheme == "product" else "fresh"
    return ChaoticNoise(settings.gamma, settings.beta, signs=rule)


def rivals(settings: Settings, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return values of the other noises, (time, *shape), that stand where chaotic ones stand.

    Telegraph and coloured noise push with the force F of a phase, in the root mean square; the
    Gaussian has the variance of chaotic values.
    """
    noise, steps, seed = make_noise(settings), settings.steps, settings.seed
    deviation = noise.spread(settings.scheme == "symmetric")
    return {
        "telegraph": noise.laminar_value * path(TelegraphNoise(settings.dwell), steps, shape, seed),
        "coloured": noise.laminar_value * path(ColouredNoise(settings.dwell), steps, shape, seed),
        "gaussian": deviation * path(GaussianNoise(), steps, shape, seed),
    }


# Force, decay and eta do not change the noise, so that their sliders need not wait for it.
@lru_cache(maxsize=8)
def path(noise: Noise, steps: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """Return ``noise.path(steps, shape, seed)``; without memory, all steps at once."""
    if not isinstance(noise, GaussianNoise | StableNoise):
        return noise.path(steps, shape, seed)
    keys = step_key_tensor(noise.init(shape, seed).key, torch.arange(steps))
    return noise.draw(flat_index(shape, keys.device), keys.view(-1, *[1] * len(shape)))


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
    """Return an orbit y_k, its values v_k and its rivals', the map's graph and its constants."""
    noise, T = make_noise(settings), ThalerMap(settings.gamma)
    y, _ = figure_one.orbit(noise, settings.steps, settings.seed)
    left = T.y_star * np.linspace(0.0, 1.0, 60)[1:] ** 2
    right = np.linspace(T.y_star, 1.0, 41)[1:]
    return {
        "y": y.tolist(),
        "v": perturbation(settings)[:, 0].tolist(),
        "rivals": {name: v.tolist() for name, v in rivals(settings, ()).items()},
        "branches": [[x.tolist(), T(x).tolist()] for x in (left, right)],
        **figure_one.constants(noise),
    }


def sums(settings: Settings) -> Numbers:
    """Return running sums, and a histogram of many at the end beside the limit's density."""
    law, scale = limit_of(settings), float(settings.steps) ** -settings.gamma
    running = scale * perturbation(settings, SHOWN).cumsum(0)
    moments = thin(settings.steps, MOMENTS // 2)
    x = np.sort(ends(settings, COUNT).numpy())
    least = WIDEST * (2.0**settings.gamma if settings.scheme == "symmetric" else 1.0)
    reach = max(least, 1.04 * float(running.abs().max()))  # so that every sum drawn is inside
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
