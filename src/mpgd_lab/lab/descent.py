"""Descent on a landscape: GD and four noises, many runs of each, all from the same places.

    x' = x - eta grad(x) - mu eta^gamma v1 x + sigma eta^gamma v2
    mu = M / (c0 eta^(gamma-1)),   sigma = F / (c0 eta^(gamma-1))

The sliders give the force F and the decay M of a phase (`phases.laminar`). In the symmetric
scheme a value is the difference of two independent ones. `simulation.rivals` has the other noises.

Reference: Lim, Wan & Simsekli (2022), equation (8).
"""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from math import inf
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd.optim.displacement.reference import descended, strengths, term
from mpgd.theory.phases.laminar import Levels, levels
from mpgd_lab.batched_training import iterate_steps
from mpgd_lab.lab.landscapes import FAR, GONE, LANDSCAPES, Landscape
from mpgd_lab.lab.settings import Settings
from mpgd_lab.lab.simulation import MOMENTS, Numbers, finite, make_noise, path, rivals, thin

Array = NDArray[np.float64]

RUNS: Final = 32  # descents of each scheme; the first is the one that moves
BLOCK: Final = 500  # steps whose perturbations are made at once
NAMES: Final = ("gd", "gaussian", "coloured", "telegraph", "mpgd")
QUARTILES: Final = [RUNS // 4, RUNS // 2, RUNS * 3 // 4]


def levels_of(settings: Settings) -> Levels:
    """Return the mu and sigma that give the force and the decay of the sliders."""
    given = {"lr": settings.eta, "gamma": settings.gamma}
    return levels(force=settings.force, decay=settings.decay, **given)


def descent(settings: Settings, most: int = MOMENTS) -> Numbers:
    """Return the ways of all schemes down the landscape, and what is watched of them.

    ``across`` and ``up`` are where run 0 is in the picture, ``view`` a frame that holds them;
    ``off`` is the step at which run 0 has run off, ``gone`` how many of all runs have. The
    quartiles are over all runs.
    """
    land, moments = LANDSCAPES[settings.landscape], thin(settings.steps + 1, most)
    x, off = walk(settings, moments)
    with np.errstate(over="ignore", invalid="ignore"):
        watched = np.where(np.isnan(x[..., 0]), inf, land.watched(x))  # (moment, scheme, run)
        across, up = land.place(x[:, :, 0])
    quartiles = np.sort(watched, axis=2)[..., QUARTILES]  # diverged runs come last
    view = framed(across, up, off[:, 0] >= 0, land)
    sizes = levels_of(settings)
    return {
        "landscape": settings.landscape,
        "moments": moments,
        "runs": RUNS,
        "mu": sizes.mu,
        "sigma": sizes.sigma,
        "view": view,
        "top": topped(watched, quartiles, off),
        "profile": None if land.profile is None else profile(view, land.profile),
        "schemes": {
            name: {
                "across": numbers(across[:, i]),
                "up": numbers(up[:, i]),
                "watched": numbers(watched[:, i, 0]),
                "quartiles": [numbers(quartiles[:, i, q]) for q in range(3)],
                "off": int(off[i, 0]) if off[i, 0] >= 0 else None,
                "gone": int((off[i] >= 0).sum()),
            }
            for i, name in enumerate(NAMES)
        },
    }


def numbers(x: Array) -> list[float | None]:
    """Return numbers as JSON has them."""
    return finite(torch.from_numpy(np.ascontiguousarray(x)))


def framed(across: Array, up: Array, ran_off: NDArray[np.bool_], land: Landscape) -> Numbers:
    """Return ranges that hold every way, (moment, scheme); of one that runs off, what is near."""
    with np.errstate(invalid="ignore"):
        outside = ran_off & ~((np.abs(across) <= FAR) & (np.abs(up) <= FAR))
    kept = [np.abs(np.where(outside, 0.0, np.nan_to_num(each))) for each in (across, up)]
    wide, high = (max(1.06 * float(each.max()), 0.02) for each in kept)
    if land.one_sided:
        return {"across": [-wide, wide], "up": [0.0, high]}
    both = max(wide, high)
    return {"across": [-both, both], "up": [-both, both]}


def topped(watched: Array, quartiles: Array, off: NDArray[np.int64]) -> float:
    """Return a height that holds the curves; of runs that run off, ten times where they began."""
    drawn = np.concatenate([watched[..., :1], quartiles], axis=2).max(axis=2)  # (moment, scheme)
    cap = np.where((off >= 0).any(axis=1), 10.0 * watched[0].max(), inf)
    return 1.08 * float(np.where(drawn <= cap, np.where(np.isfinite(drawn), drawn, 0.0), 0.0).max())


def profile(view: Numbers, loss: Any) -> Numbers:
    """Return the loss of one coordinate over a frame in which both coordinates have one range."""
    low, high = view["across"]
    grid = np.linspace(low, high, 161)
    return {"grid": grid.tolist(), "loss": loss(grid).tolist()}


def walk(settings: Settings, moments: Sequence[int]) -> tuple[Array, NDArray[np.int64]]:
    """Return places at these moments, (moment, scheme, run, element), and when a run ran off.

    A run beyond 10^6 has diverged, and its places are NaN from that step on; other runs have step
    -1. On arrays this small numpy takes a quarter of torch's time.
    """
    land = LANDSCAPES[settings.landscape]
    start = land.start([(settings.seed + run) % 2**32 for run in range(RUNS)])
    x = np.repeat(start[None], len(NAMES), axis=0)
    perturbed, wanted = terms(settings), set(moments)
    off, kept = np.full(x.shape[:2], -1), []
    with np.errstate(over="ignore", invalid="ignore"):
        steps = iterate_steps(
            x,
            lambda x: (None, land.slope(x)),
            lambda x, g, k: descended(x, g, settings.eta, *next(perturbed)),
            settings.steps,
        )
        for k, place in enumerate(chain([x], (place for place, _ in steps))):
            off[(off < 0) & ~(np.abs(place) < GONE).all(-1)] = k
            if k in wanted:
                kept.append(np.where((off >= 0)[..., None], np.nan, place))
    return np.stack(kept), off


def terms(settings: Settings) -> Iterator[tuple[Any, Any]]:
    """Yield mu eta^gamma v1 and sigma eta^gamma v2 of every step, (scheme, run, element)."""
    twins, dimension = settings.scheme == "symmetric", LANDSCAPES[settings.landscape].dimension
    shape, mu_sigma = (2, RUNS, dimension), levels_of(settings)
    chaotic = path(
        make_noise(settings), settings.steps, (4 if twins else 2, *shape[1:]), settings.seed
    )
    every = {"mpgd": chaotic, **rivals(settings, shape)}
    sizes = strengths(settings.eta, mu_sigma.mu, mu_sigma.sigma, (settings.gamma, settings.gamma))
    for first in range(0, settings.steps, BLOCK):
        length = min(BLOCK, settings.steps - first)
        both = torch.zeros(2, length, len(NAMES), RUNS, dimension, dtype=torch.float64)
        for (which, size), (name, v) in product(enumerate(sizes), every.items()):
            part = v[first : first + BLOCK]
            twin = part[:, which + 2] if twins and name == "mpgd" else None
            both[which, :, NAMES.index(name)] = term(size, part[:, which], twin, v.dtype)
        yield from zip(*both.numpy(), strict=True)
