"""The landscapes of the lab that are seen from above: the paper's valley, and Rastrigin's wells.

    valley      l(u, v) = v^2 |u|^2 / 2,  u in ten dimensions      Section 5.1
    Rastrigin   R(x) = sum over coordinates of x^2 / 20 + (1 - cos 2 pi x) / 2,  x in two

Rastrigin's function is divided by 20. So the walls between its wells have slopes about pi, as the
narrow one of the two wells has, and one slider serves both. x is (..., element).

Reference: Lim, Wan & Simsekli (2022), Section 5.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd_lab.studies.valley import training as valley

Array = NDArray[np.float64]

WITHIN: Final = 4.0  # where Rastrigin's runs start: at most so far from the minimum, each way
GONE: Final = 1e6  # beyond, a path has run off
FAR: Final = 50.0  # what a frame holds of a path that does


@dataclass(frozen=True)
class Landscape:
    """A loss, where runs start on it, and what of a place is drawn."""

    dimension: int
    start: Callable[[Sequence[int]], Array]  # seeds become places, (run, element)
    slope: Callable[[Array], Array]  # the gradient
    watched: Callable[[Array], Array]  # the number whose curve is drawn
    place: Callable[[Array], tuple[Array, Array]]  # across and up, in the picture
    one_sided: bool  # whether what is drawn upwards begins at 0
    profile: Callable[[Array], Array] | None = None  # the loss of a coordinate, if these add up


def valley_slope(x: Array) -> Array:
    """Return (v^2 u, v |u|^2)."""
    u, v = x[..., :-1], x[..., -1:]
    return np.concatenate([v * v * u, v * (u * u).sum(-1, keepdims=True)], axis=-1)


def valley_trace(x: Array) -> Array:
    """Return the trace of the Hessian, d v^2 + |u|^2."""
    u, v = x[..., :-1], x[..., -1]
    return np.asarray(u.shape[-1] * v * v + (u * u).sum(-1))


def valley_start(seeds: Sequence[int]) -> Array:
    """Return where the experiment's runs of these seeds start."""
    return np.asarray(valley.start(list(seeds)).numpy())


def rastrigin_loss(x: Array) -> Array:
    """Return what one coordinate adds to Rastrigin's function, divided by 20."""
    return np.asarray(x * x / 20.0 + 0.5 * (1.0 - np.cos(2.0 * np.pi * x)))


def rastrigin_slope(x: Array) -> Array:
    """Return its derivative."""
    return np.asarray(x / 10.0 + np.pi * np.sin(2.0 * np.pi * x))


def rastrigin_start(seeds: Sequence[int]) -> Array:
    """Return a place for each seed, evenly drawn from the square around the minimum."""
    places = [np.random.RandomState(seed).uniform(-WITHIN, WITHIN, 2) for seed in seeds]
    return np.stack(places)


LANDSCAPES: Final = {
    "valley": Landscape(
        valley.DIMENSION + 1,
        valley_start,
        valley_slope,
        valley_trace,
        lambda x: (x[..., -1], np.sqrt((x[..., :-1] ** 2).sum(-1))),
        one_sided=True,
    ),
    "rastrigin": Landscape(
        2,
        rastrigin_start,
        rastrigin_slope,
        lambda x: rastrigin_loss(x).sum(-1),
        lambda x: (x[..., 0], x[..., 1]),
        one_sided=False,
        profile=rastrigin_loss,
    ),
}
