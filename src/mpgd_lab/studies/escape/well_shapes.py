"""The losses that walkers leave: their slopes, their walls and their minima.

quadratic   R = x^2 / 2                        |x| < 1, steepest slope 1
cosine      R = (1 - cos(pi x)) / 2            |x| < 1, steepest slope pi / 2
two wells   height 1 each, half widths 1/2 and 3/2, minima at -1/2 and 3/2, barrier at 0:
R = (1 - cos(pi (x - c) / w)) / 2  slopes pi and pi / 3, quadratic walls outside
rotated     R = |x|^2 / 2 in d dimensions, walls |(Qx)_j| < 1, Q orthogonal
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NARROW, WIDE = 0.5, 1.5  # half widths, and where the minima are
STEEP, GENTLE = 24.0, 6.0  # curvatures of the outer walls
SIDES: Final = (-1.4, 3.4)  # beyond which no walker of the two wells comes


@dataclass(frozen=True)
class Well:
    """A well in one dimension."""

    slope: Callable[[Array], Array]
    walls: tuple[float, float]
    minimum: float
    height: float
    steepest: float


def cosine_slope(x: Array) -> Array:
    """Return R' of the cosine well."""
    return np.asarray(0.5 * np.pi * np.sin(np.pi * x))


def two_wells(x: Array) -> Array:
    """Return R of the two wells."""
    w = np.where(x < 0.0, NARROW, WIDE)
    c = np.where(x < 0.0, -NARROW, WIDE)
    inner = 0.5 * (1.0 - np.cos(np.pi * (x - c) / w))
    left, right = np.minimum(x + NARROW, 0.0), np.maximum(x - WIDE, 0.0)
    outer = 0.5 * (STEEP * left**2 + GENTLE * right**2)
    return np.asarray(np.where((x < -NARROW) | (x > WIDE), outer, inner))


def two_slopes(x: Array) -> Array:
    """Return R' of the two wells."""
    left, right = np.minimum(x + NARROW, 0.0), np.maximum(x - WIDE, 0.0)
    z = np.clip(x, -NARROW, WIDE)  # beyond, the sine is 0
    is_narrow = x < 0.0
    w, c = np.where(is_narrow, NARROW, WIDE), np.where(is_narrow, -NARROW, WIDE)
    inner = 0.5 * np.pi / w * np.sin(np.pi * (z - c) / w)
    return np.asarray(inner + STEEP * left + GENTLE * right)


WELLS: Final = {
    "quadratic": Well(lambda x: x, (-1.0, 1.0), 0.0, 0.5, 1.0),
    "cosine": Well(cosine_slope, (-1.0, 1.0), 0.0, 1.0, np.pi / 2),
}


def rotation(dimension: int, kind: str) -> Array:
    """Return Q: none, by 45 degrees in two dimensions, or drawn once for all in more."""
    if kind == "aligned":
        return np.eye(dimension)
    if dimension == 2:
        return np.asarray(np.array([[1.0, 1.0], [-1.0, 1.0]]) * np.sqrt(0.5))
    q, r = np.linalg.qr(np.random.default_rng(0).normal(size=(dimension, dimension)))
    return np.asarray(q * np.sign(np.diag(r)))
