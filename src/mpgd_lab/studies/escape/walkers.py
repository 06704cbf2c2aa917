"""Walkers of MPGD and of other noises, many side by side, and what is counted of them.

    x' = x - eta grad R(x) + sigma eta^gamma v

After an exit x goes back to the minimum, and for chaotic noise the clock stops until each of the
walker's drivers has visited Z: the phase that led out must not count twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd.limits.noise_blocks import open_stream
from mpgd.noise import ChaoticNoise, GaussianNoise, StableNoise
from mpgd.theory.phases.laminar import constants

Array = NDArray[np.float64]
Noise = ChaoticNoise | GaussianNoise | StableNoise
Slope = Callable[[Array], Array]

ROWS: Final = 64  # steps whose values are made at once


def make_noise(kind: str, gamma: float, beta: float, longest: int | None = None) -> Noise:
    """Return chaotic noise, the Gaussian of its variance, or the stable noise of its limit."""
    if kind == "gaussian":
        return GaussianNoise(constants(gamma, longest).variance)
    if kind == "stable":
        return StableNoise(1.0 / gamma, beta)
    return ChaoticNoise(gamma, beta, longest=longest)


def values(noise: Noise, shape: tuple[int, int], seed: int) -> Iterator[Array]:
    """Yield blocks (step, walker, coordinate) of values, for ever."""
    if isinstance(noise, ChaoticNoise):
        fill, buffer = open_stream(noise, shape, seed, 0), torch.empty((ROWS, *shape)).double()
        while True:
            fill(buffer)
            yield buffer.numpy()
    state = noise.init((ROWS, *shape), seed)  # without memory, steps may be elements
    while True:
        block, state = noise.step(state)
        yield block.numpy()


@dataclass(frozen=True)
class Count:
    """How many exits there were in how many steps of the clock."""

    exits: int
    clock: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean number of exits (Byar's formula for a Poisson count)."""
        n, m = self.exits, self.exits + 1
        low = n * (1.0 - 1.0 / (9.0 * n) - 1.96 / (3.0 * n**0.5)) ** 3 if n else 0.0
        return low, m * (1.0 - 1.0 / (9.0 * m) + 1.96 / (3.0 * m**0.5)) ** 3


def count_exits(
    noise: Noise,
    slope: Slope,
    outside: Callable[[Array], NDArray[np.bool_]],
    minimum: float,
    h: Any,
    seed: int,
    dimension: int = 1,
) -> Count:
    """Return the exits of many walkers until there are enough, or it has taken too long.

    ``slope`` and ``outside`` take x (walker, coordinate). ``h`` has eta, sigma, gamma, walkers,
    exits (how many are enough) and time (units of it, at most).
    """
    shape, eta = (h["walkers"], dimension), h["eta"]
    scale, c0 = h["sigma"] * eta ** h["gamma"], constants(h["gamma"]).laminar_value
    chaotic = isinstance(noise, ChaoticNoise)
    x, to_visit = np.full(shape, minimum), np.full(shape, chaotic)
    exits = clock = steps = 0
    for block in values(noise, shape, seed):
        for v in block:
            waiting = np.asarray(to_visit.any(axis=1))
            clock += len(waiting) - int(np.count_nonzero(waiting))
            x += scale * v - eta * slope(x)
            x[waiting] = minimum
            to_visit &= np.abs(v) == c0
            if np.count_nonzero(out := outside(x)):
                exits += int(np.count_nonzero(out))
                x[out], to_visit[out] = minimum, chaotic
        steps += len(block)
        if exits >= h["exits"] or steps * eta >= h["time"]:
            return Count(exits, clock)
    raise AssertionError("values never end")


def time_right(noise: Noise, slope: Slope, starts: Array, h: Any, seed: int) -> Array:
    """Return for each walker the share of ``h['time']`` that it spends at x > 0.

    A walker sets out when its driver has visited Z for the first time: the phase that a stationary
    driver is in at the start is longer than others. Who has not set out has the share NaN.
    """
    shape, eta = (len(starts), 1), h["eta"]
    start = starts[:, None]
    x, right, counted = start.copy(), np.zeros(shape), np.zeros(shape)
    waiting, c0 = np.full(shape, isinstance(noise, ChaoticNoise)), constants(h["gamma"])
    scale, left = h["sigma"] * eta ** h["gamma"], int(h["time"] / eta)
    for block in values(noise, shape, seed):
        for v in block[:left]:
            x += scale * v - eta * slope(x)
            np.copyto(x, start, where=waiting)
            counted += ~waiting
            right += (x > 0.0) & ~waiting
            waiting &= np.abs(v) == c0.laminar_value
        left -= len(block)
        if left <= 0:
            with np.errstate(invalid="ignore"):
                return np.asarray((right / counted)[:, 0])
    raise AssertionError("values never end")
