"""The position from phase to phase: a Markov kernel on a grid, killed outside a well.

Just after a visit to Z a phase begins with a sign chi and N laminar steps, and ends with a burst of
the same sign. So from one beginning to the next x goes to

    psi(phi(... phi(x)))     phi(x) = x - eta R'(x) + chi sigma eta^gamma c0,  N times
                             psi(x) = x - eta R'(x) + chi sigma eta^gamma c1

N has the law of `phases.laminar.phase_tail`. Phases are taken as independent, which they nearly
are: the next length depends on this one only through the fraction of s. A path that leaves the well
at any step is killed. The row of a grid point says where its next phase begins; a place between two
points is shared out between them.

Not every length n needs a place of its own. Between two marks a < b let x move evenly. Summed by
parts, with S = P(N >= a+1) + ... + P(N >= b), the lengths from a to b - 1 then weigh as much as

    P(N >= a) - S/(b-a)  at x_a     and     S/(b-a) - P(N >= b)  at x_b.

Marks are 0, 1, 2, ... at first and then a 64th of their own size apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpgd.noise.phase_law import PhaseLaw
from mpgd.theory.phases.crossing import Gradient, slope_at
from mpgd.theory.phases.laminar import Constants, phase_steps, phase_tail

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Where = Callable[[Array], Flags]

FINE = 64
STILL = 1e-6  # of the grid's width: less is no movement between two marks
LONGEST_TIME = 40.0  # eta n up to which a phase is followed; beyond it x stays where it is


@dataclass(frozen=True)
class Recursion:
    """MPGD in one dimension with additive noise."""

    gradient: Gradient
    lr: float
    kick: float  # sigma eta^gamma
    gamma: float
    longest: int | None
    values: Constants
    law: PhaseLaw | None = None  # of phases that are not those of a Thaler map

    def moved(self, x: Array, v: float) -> Array:
        """Return x after a step with the value v."""
        return x - self.lr * slope_at(self.gradient, x) + self.kick * v

    def tail(self, n: Array | int) -> Array:
        """Return P(N >= n)."""
        if self.law is not None:
            return self.law.tail(np.asarray(n, dtype=np.int64))
        return phase_tail(n, self.gamma, self.longest)

    def mean(self, n: Array | int) -> Array:
        """Return E min(N, n)."""
        if self.law is not None:
            first, last = (
                self.law.residual_survival(np.array(1)),
                self.law.residual_survival(np.asarray(n) + 1),
            )
            return np.asarray((first - last) * self.law.mean)
        return phase_steps(n, self.gamma, self.longest)

    def marks(self) -> list[int]:
        """Return the lengths whose places are kept."""
        last = int(LONGEST_TIME / self.lr) + FINE
        last = last if self.longest is None else min(last, self.longest)
        last = last if self.law is None else min(last, int(self.law.edges[-1]))
        results = [0]
        while results[-1] < last:
            results.append(min(last, results[-1] + max(1, results[-1] // FINE)))
        return results


class Kernel:
    """What one cycle, a phase of one sign and its burst, does to each point of a grid.

    Attributes:
        grid: equally spaced; its ends are the walls.
        matrix: (from, to), the chance to begin the next phase there.
        killed: the chance to leave during the cycle.
        steps: the mean number of steps until the cycle ends or x has left.
        counted: how many of them in the mean lie where ``where`` says.
    """

    def __init__(self, recursion: Recursion, grid: Array, chi: float, where: Where) -> None:
        size = len(grid)
        self.recursion, self.grid, self.chi, self.where = recursion, grid, chi, where
        self.matrix, self.killed = np.zeros((size, size)), np.zeros(size)
        self.steps, self.counted = np.zeros(size), np.zeros(size)
        self._exits: list[tuple[NDArray[Any], ...]] = []
        self._follow()

    def _follow(self) -> None:
        """Walk every phase from every point of the grid until nothing moves or all have left."""
        r, x = self.recursion, self.grid
        marks = np.array(r.marks())
        tail, mean = r.tail(marks), r.mean(marks)  # P(N >= n), E min(N, n)
        alive, held = np.ones(len(x), dtype=bool), np.zeros(len(x))
        still, k = STILL * (x[-1] - x[0]), 0
        for k, (a, b) in enumerate(pairwise(marks.tolist()), 1):
            before, (x, left) = x, self._walk(x, alive, b - a)
            share = (mean[k] - mean[k - 1]) / (b - a)
            gone, alive = np.flatnonzero(left), alive & (left == 0)
            self._burst(before, held + alive * (tail[k - 1] - share))
            self._spend(alive * (mean[k] - mean[k - 1]), before, x)
            self._exits.append((gone, a + 0 * gone, a + left[gone], before[gone]))
            held = alive * (share - tail[k])
            if np.abs(x - before)[alive].max(initial=0.0) < still:
                break
        self._burst(x, held + alive * tail[k])
        self._spend(alive * (1.0 / r.values.burst_probability - 1.0 - mean[k]), x, x)
        self._leave()

    def _leave(self) -> None:
        """Add what belongs to phases that lead out: from mark ``a`` on, with step ``n`` outside."""
        r, size = self.recursion, len(self.grid)
        rows, a, n, place = (np.concatenate(each) for each in zip(*self._exits, strict=True))
        until, x = r.tail(n), self.grid.copy()
        self.killed[rows] += until
        shorter, spent, x[rows] = np.zeros(size), np.zeros(size), place
        shorter[rows] = r.tail(a) - until
        spent[rows] = r.mean(n) - r.mean(a)
        self._burst(x, shorter)
        self._spend(spent, x, x)

    def _walk(self, x: Array, alive: Flags, count: int) -> tuple[Array, NDArray[np.int64]]:
        """Return where the living are after ``count`` steps, and the step at which some left."""
        r, low, high = self.recursion, self.grid[0], self.grid[-1]
        v, left, inside = self.chi * r.values.laminar_value, np.zeros(len(x), dtype=np.int64), alive
        for n in range(1, count + 1):
            y = r.moved(x, v)
            out = inside & ((y < low) | (y > high))
            left[out] = n
            inside = inside & ~out
            x = np.where(inside, y, x)
        return x, left

    def _spend(self, steps: Array, before: Array, after: Array) -> None:
        self.steps += steps
        self.counted += steps * (0.5 * self.where(before) + 0.5 * self.where(after))

    def _burst(self, x: Array, weight: Array) -> None:
        """End phases at ``x`` with their burst and put down where the next ones begin."""
        grid, r = self.grid, self.recursion
        row = np.flatnonzero(weight)
        y, weight = r.moved(x[row], self.chi * r.values.burst_value), weight[row]
        self.steps[row] += weight
        self.counted[row] += weight * self.where(y)
        out = (y < grid[0]) | (y > grid[-1])
        self.killed[row] += weight * out
        row, y, weight = row[~out], y[~out], weight[~out]
        place = (y - grid[0]) / (grid[1] - grid[0])
        cell = np.minimum(place.astype(np.int64), len(grid) - 2)
        self.matrix[row, cell] += weight * (1.0 - (place - cell))
        self.matrix[row, cell + 1] += weight * (place - cell)


@dataclass(frozen=True)
class Chain:
    """The kernels of both signs put together: one step is one cycle.

    With product signs a state is a place and the sign before; with fresh ones it is a place.
    """

    matrix: Array
    killed: Array
    steps: Array
    counted: Array

    def quasi_stationary(self) -> Array:
        """Return the law that a cycle leaves as it is, but for what is killed."""
        size = len(self.killed)
        # Inverse iteration next to the eigenvalue 1, not at it: it may be that nothing is killed.
        system = (1.0 + 1e-12) * np.eye(size) - self.matrix.T
        inverse, law = np.linalg.inv(system), np.full(size, 1.0 / size)
        for _ in range(50):
            before, law = law, np.maximum(inverse @ law, 0.0)
            law /= law.sum()
            if np.abs(law - before).sum() < 1e-12:
                break
        return law


def chain(
    recursion: Recursion, grid: Array, beta: float, signs: str, where: Where | None = None
) -> Chain:
    """Return the chain of phases with signs of this rule."""
    p = (1.0 + beta) / 2.0
    where = where or (lambda x: np.ones(x.shape, dtype=bool))
    up, down = (Kernel(recursion, grid, chi, where) for chi in (1.0, -1.0))
    names = ("killed", "steps", "counted")
    plus, minus = ([getattr(k, name) for name in names] for k in (up, down))
    mixed = [p * u + (1.0 - p) * d for u, d in zip(plus, minus, strict=True)]
    if signs == "fresh" or beta == 1.0:
        return Chain(p * up.matrix + (1.0 - p) * down.matrix, *mixed)
    other = [(1.0 - p) * u + p * d for u, d in zip(plus, minus, strict=True)]
    matrix = np.block(
        [[p * up.matrix, (1.0 - p) * down.matrix], [(1.0 - p) * up.matrix, p * down.matrix]]
    )
    return Chain(matrix, *(np.concatenate(pair) for pair in zip(mixed, other, strict=True)))
