"""The law of phase lengths without sampling: the 2^50 inputs of a visit are counted.

A visit reads U, 18 bits of the fraction's cell and 32 of the dither, and gives a phase of n steps
or more if B(U) >= n. B falls in U, row by row, so

    P(phase >= n | visit)  =  sum over cells of P(cell) * (dithers with B >= n) / 2^32

Cells are weighted by the invariant law given a visit. The exact tail is a difference of H at
successive preimages of y*.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from mpgd.maps.abel import AbelCoordinate, abel_coordinate
from mpgd.maps.abel import evaluate as chebyshev
from tests.noise.integer_reference import evaluate

Rows = NDArray[np.uint64]

DIGITS = 40
WINDOW = 64  # in a row B falls but for roundings that reach over three positions


def inputs_reaching(rows: Rows, n: int) -> int:
    """Return how many of the 2^50 inputs lead to a phase of ``n`` steps or more.

    The last bit of U is always set, so every odd U stands for two inputs.
    """
    few = np.arange(1, 2**8, 2, dtype=np.uint64)  # octaves 42 and more have less than a row
    total = 2 * int(np.count_nonzero(evaluate(rows, 7, few) >= np.uint64(n << 32)))
    for octave in range(42):
        # The positions X that occur in a row of this octave, and how many inputs have each.
        step, first = (1, 0) if octave < 10 else (2 << (octave - 10), 1 << (octave - 10))
        weight, size = (1 << (10 - octave), 2**32) if octave < 10 else (2, 2 ** (41 - octave))
        for row in rows[octave << 7 : (octave + 1) << 7]:
            total += weight * positions_reaching(row, n << 32, step, first, size)
    return total


def positions_reaching(row: Rows, level: int, step: int, first: int, size: int) -> int:
    """Return for how many of the positions X = first + step j, j < size, the row is >= level."""
    c0, t1, t2, sh = parts(row)

    def value(j: int) -> int:
        X = first + step * j
        return c0 - ((X * (t1 - (X * t2 >> 32))) >> sh)

    if value(0) < level and value(min(WINDOW, size - 1)) < level:
        return 0
    if value(size - 1) >= level and value(max(size - WINDOW, 0)) >= level:
        return size
    low, high = 0, size  # the last j that reaches the level lies near `low`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle) >= level else (low, middle)
    near = range(max(0, low - WINDOW), min(size, low + WINDOW))
    return near.start + sum(value(j) >= level for j in near)


def parts(row: Rows) -> tuple[int, int, int, int]:
    """Return c0, t1, t2 and sh as Python's integers."""
    c0, shape = (int(x) for x in row)
    return c0, shape % 2**32, (shape >> 32) % 2**26, shape >> 58


@lru_cache(maxsize=16)
def visit_law(gamma: float) -> VisitLaw:
    """Return the exact law at ``gamma``, kept for later tests."""
    return VisitLaw(gamma)


class VisitLaw:
    """Exact probabilities given a visit to Z, to about 20 digits."""

    def __init__(self, gamma: float) -> None:
        self.A: AbelCoordinate = abel_coordinate(gamma)

    def H(self, y: Any) -> Any:
        """Return the invariant distribution function."""
        e = self.A.e
        return (y**e + (1 + y) ** e - 1) / 2**e

    def Y(self, n: int) -> Any:
        """Return the n-th left preimage of 1."""
        if n >= self.A.panel_count:
            return self.A.far_inverse(mp.mpf(n))
        return chebyshev(self.A.panels[n], mp.mpf(0))

    def tail(self, n: int) -> Any:
        """Return P(phase >= n | visit)."""
        with mp.workdps(DIGITS):
            mass = self.H(self.Y(n)) - self.H(self.Y(n + 1))
            return mass / (1 - self.H(self.A.y_star))

    def below(self, u: Any) -> Any:
        """Return P(1 - s < u | visit)."""
        with mp.workdps(DIGITS):
            y = self.A.y_star + u * chebyshev(self.A.slope, u)
            return (self.H(y) - self.H(self.A.y_star)) / (1 - self.H(self.A.y_star))

    def counted(self, inputs: int) -> Any:
        """Return the probability of the ``inputs`` smallest U: whole cells, and part of one."""
        cell, rest = divmod(inputs, 2**32)
        with mp.workdps(DIGITS):
            ends = [self.below(mp.mpf(c) / 2**18) for c in (cell, cell + 1)]
            return ends[0] + (ends[1] - ends[0]) * rest / 2**32
