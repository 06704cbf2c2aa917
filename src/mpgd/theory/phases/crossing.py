"""How many steps a phase needs to carry x past a wall.

A phase of sign chi is descent on R - chi F x (`phases.laminar`), so x moves at the speed
eta (chi F - R'(x)) a step, and passes a wall only if F exceeds every slope on the way:

    n* = (1/eta) int dx / (F - R'(x))
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mpgd.parameters import check_nonnegative, check_positive

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]

WALKED = 2_000  # steps that are walked one by one; more of them follow a formula
PLACES = 4001  # where a slope is looked at between two points


def crossing_time(
    gradient: Gradient, start: float, wall: float, *, lr: float, force: float
) -> float:
    """Return n*, the steps a phase needs to carry x from ``start`` past ``wall``, or inf.

    n* = (1/eta) int dx / (F - R'(x)) as eta -> 0. A step is finite, which adds
    log((F - R'(wall)) / (F - R'(start))) / 2; where that is not near enough, because few steps are
    needed, they are walked. Towards a wall on the left the phase has chi = -1.

    Args:
        gradient: R', on arrays.
        start: where x is when the phase begins.
        wall: what it must pass.
        lr: the step size eta.
        force: F, above 0.

    Examples:
        >>> crossing_time(lambda x: x, 0.0, 1.0, lr=0.01, force=1.1)
        239.0
        >>> crossing_time(lambda x: x, 0.0, 1.0, lr=0.01, force=0.9)
        inf
    """
    chi = 1.0 if wall >= start else -1.0
    lr, force = check_positive("lr", lr), check_nonnegative("force", force)
    x = np.linspace(start, wall, PLACES)
    if chi * (x[-1] - x[0]) == 0.0:
        return 0.0
    speed = force - chi * slope_at(gradient, x)
    if speed.min() <= 0.0:
        return math.inf
    lasts = float(_simpson(1.0 / speed) * abs(wall - start)) / lr
    if lasts > WALKED:
        return math.ceil(lasts + 0.5 * math.log(speed[-1] / speed[0]))
    return _walk(gradient, start, wall, lr, chi * force, int(2 * lasts) + 10)


def _walk(
    gradient: Gradient, start: float, wall: float, lr: float, push: float, most: int
) -> float:
    """Return after how many steps of descent on the tilted loss x is past the wall."""
    x, step = np.array([start]), 0
    while (wall - x[0]) * push >= 0.0:
        if step == most:  # steps so long that they turn back where the slope does not
            return math.inf
        x = x - lr * (slope_at(gradient, x) - push)
        step += 1
    return float(step)


def slope_at(gradient: Gradient, x: Array) -> Array:
    """Return the gradient at ``x``; it must be finite and of x's shape."""
    slope = np.asarray(gradient(x), dtype=np.float64)
    if slope.shape != x.shape or not np.isfinite(slope).all():
        raise ValueError(
            "gradient must take an array and return finite numbers of its shape, "
            f"got shape {slope.shape} for {x.shape}"
        )
    return slope


def _simpson(y: Array) -> float:
    """Return the mean of a function given at an odd number of equally spaced points."""
    return float((y[0] + y[-1] + 4.0 * y[1::2].sum() + 2.0 * y[2:-1:2].sum()) / (3 * (len(y) - 1)))
