"""What the lab shows of two wells, narrow and wide: walkers of five noises side by side.

    x' = x - eta R'(x) + sigma eta^gamma v,      sigma = F / (c0 eta^(gamma-1))

v is chaotic, a telegraph +-c0, coloured of deviation c0, Gaussian of the chaotic noise's variance,
or stable. The slider gives the force F of a phase (`mpgd.theory.phases.laminar`), which chaotic and
telegraph noise have alike; wells and slopes are those of the experiment ``escape``.
"""

from functools import lru_cache
from math import sqrt
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd.noise import ChaoticNoise, ColouredNoise, GaussianNoise, StableNoise, TelegraphNoise
from mpgd.noise.counter_hash import flat_index, step_key_tensor
from mpgd.theory.phases.exits import exit_rate
from mpgd.theory.phases.laminar import levels
from mpgd_lab.lab.landscapes import GONE
from mpgd_lab.lab.settings import MOST_STEPS, Settings
from mpgd_lab.lab.simulation import Numbers, finite, make_noise, thin
from mpgd_lab.studies.escape.well_shapes import NARROW, SIDES, WIDE, two_slopes, two_wells

Array = NDArray[np.float64]

WALKERS: Final = 200  # of each noise; half start in each well
SHOWN: Final = 60  # of them drawn
FRAMES: Final = 250  # at most, moments at which they are drawn
KINDS: Final = ("mpgd", "telegraph", "coloured", "gaussian", "stable")
STEADY: Final = 4  # of these, the first do not jump
VIEW: Final = (-1.0, 3.0)  # of x, at least
WIDEST: Final = (-2.5, 5.5)  # at most: walkers beyond are drawn at the edge
NEVER: Final = MOST_STEPS + 1  # the step at which the first has run off, where none has
LEFT, RIGHT = SIDES  # walls that no phase reaches


def wells(settings: Settings) -> Numbers:
    """Return where walkers of all noises are, and how many in the wide well.

    ``off`` tells how many walkers have run off, and the step at which the first has. ``leaves`` has
    the exits per unit of time from the wide and from the narrow well, one phase from the minimum;
    nothing of them is known of the symmetric scheme, whose force is that of two.
    """
    sigma = levels(lr=settings.eta, gamma=settings.gamma, force=settings.force).sigma
    moments, x, off = walk(settings, sigma)
    grid = np.linspace(*framed(x[:, :STEADY, :SHOWN]), 241)
    return {
        "moments": moments,
        "count": WALKERS,
        "sigma": sigma,
        "force": settings.force,
        "slopes": [np.pi / 2 / w for w in (WIDE, NARROW)],
        "leaves": None if settings.scheme == "symmetric" else leaves(settings, sigma),
        "grid": grid.tolist(),
        "loss": two_wells(grid).tolist(),
        "slope": two_slopes(grid).tolist(),
        "schemes": {
            kind: {
                "x": [finite(torch.from_numpy(drawn(row[i, :SHOWN]))) for row in x],
                "wide": (x[:, i] > 0.0).mean(axis=1).tolist(),
                "off": [int((off[i] >= 0).sum()), int(off[i][off[i] >= 0].min(initial=NEVER))],
            }
            for i, kind in enumerate(KINDS)
        },
    }


def framed(x: Array) -> tuple[float, float]:
    """Return a range of x that holds these walkers, but no wider than `WIDEST`."""
    low, high = WIDEST
    inside = x[(x > low) & (x < high)]
    return min(VIEW[0], float(inside.min()) - 0.1), max(VIEW[1], float(inside.max()) + 0.1)


def drawn(x: Array) -> Array:
    """Return rounded places; those of diverged walkers are NaN."""
    return np.where(np.abs(x) < GONE, x, np.nan).round(3)


def walk(settings: Settings, sigma: float) -> tuple[list[int], Array, NDArray[np.int64]]:
    """Return moments, all places then, (moment, noise, walker), and the steps of divergence.

    A walker that has not diverged has step -1.
    """
    moments = thin(settings.steps + 1, FRAMES)
    eta, scale = settings.eta, sigma * settings.eta**settings.gamma
    x = np.tile(np.where(np.arange(WALKERS) % 2, WIDE, -NARROW), (len(KINDS), 1))
    kept, wanted, off = [x], set(moments), np.full(x.shape, -1)
    with np.errstate(over="ignore", invalid="ignore"):  # where steps are too long x runs off
        for k, v in enumerate(scale * values(settings), 1):
            x = x - eta * two_slopes(x) + v
            off[(off < 0) & ~(np.abs(x) < GONE)] = k
            if k in wanted:
                kept.append(x)
    return moments, np.stack(kept), off


def values(settings: Settings) -> Array:
    """Return the values of the noises, (time, noise, walker)."""
    twins = settings.scheme == "symmetric"
    noise = make_noise(settings)
    symmetric = twins or settings.scheme == "product"
    stable = StableNoise(noise.alpha, 0.0 if symmetric else settings.beta)
    deviation = sqrt(noise.variance * (2 if twins else 1))
    signs, coloured = TelegraphNoise(settings.dwell), ColouredNoise(settings.dwell)
    return np.stack(
        [
            persistent(noise, settings.steps, settings.seed, twins),
            noise.laminar_value * persistent(signs, settings.steps, settings.seed, twins),
            noise.laminar_value * persistent(coloured, settings.steps, settings.seed, twins),
            deviation * independent(GaussianNoise(), settings.steps, settings.seed),
            (2.0**settings.gamma if twins else 1.0)
            * independent(stable, settings.steps, settings.seed),
        ],
        axis=1,
    )


# eta and the force do not change the noise, so that their sliders need not wait for it.
@lru_cache(maxsize=6)
def persistent(
    noise: ChaoticNoise | TelegraphNoise | ColouredNoise, steps: int, seed: int, twins: bool
) -> Array:
    """Return values of a noise with memory, (time, walker)."""
    path = noise.path(steps, (WALKERS, 2) if twins else (WALKERS,), seed)
    return np.asarray((path[..., 0] - path[..., 1] if twins else path).numpy())


@lru_cache(maxsize=4)
def independent(noise: GaussianNoise | StableNoise, steps: int, seed: int) -> Array:
    """Return values of a noise without memory, (time, walker): a path, all steps at once."""
    keys = step_key_tensor(noise.init(WALKERS, seed).key, torch.arange(steps))
    return np.asarray(noise.draw(flat_index((WALKERS,), keys.device), keys.view(-1, 1)).numpy())


def leaves(settings: Settings, sigma: float) -> list[float]:
    """Return the exits per unit of time from the wide and the narrow well."""
    given: Any = {"lr": settings.eta, "sigma": sigma, "gamma": settings.gamma}
    given |= {"beta": settings.beta, "signs": make_noise(settings).signs}
    walls = ((0.0, RIGHT, WIDE), (LEFT, 0.0, -NARROW))
    return [exit_rate(two_slopes, (a, b), start=m, **given).per_time for a, b, m in walls]
