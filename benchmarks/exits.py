"""Exit rates counted: chaotic noise by both clocks, telegraph noise from two wells, beside theory.

    python -m benchmarks.exits [walkers]

By the clock "restart" a walker goes back to the minimum after an exit and waits for the visit that
ends its phase; there are at least 25 exits a walker. By the clock "stationary" each walker has a
stationary driver, begins at the minimum and is watched until it leaves or ``steps`` are over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd import ChaoticNoise, TelegraphNoise, exit_rate
from mpgd.noise.engines import cpu
from mpgd.noise.word import MAGNITUDE, ONE

Array = NDArray[np.float64]
Slope = Callable[[Array], Array]

EACH: Final = 25  # exits a walker
WALKERS: Final = 400
HORIZON: Final = 200.0  # units of time that the stationary clock watches
SIGMA: Final = 0.3


def line(x: Array) -> Array:
    """Return the slope of x^2 / 2."""
    return x


def cosine(x: Array) -> Array:
    """Return the slope of the well (1 - cos(pi x)) / 2, whose walls are at -1 and 1."""
    return 0.5 * np.pi * np.sin(np.pi * x)


class Walkers:
    """Walkers at 0, and the words of their drivers."""

    def __init__(
        self, noise: Any, slope: Callable[[Array], Array], eta: float, kick: float
    ) -> None:
        self.noise, self.slope, self.eta, self.kick = noise, slope, eta, kick

    def begin(self, count: int, seed: int) -> None:
        """Put so many at the minimum."""
        state = self.noise.init(count, seed)
        self.x, self.words, self.key, self.step = np.zeros(count), state.word, int(state.key), 0
        self.value = torch.empty(count, dtype=torch.float64)

    def move(self) -> NDArray[np.bool_]:
        """Take a step, and return which walkers were at a visit."""
        visits = (self.words.numpy() & MAGNITUDE) < ONE
        cpu.advance(self.noise.driver, self.words, self.value, self.key, self.step)
        self.step += 1
        self.x += self.kick * self.value.numpy() - self.eta * self.slope(self.x)
        return visits


def restarted(walkers: Walkers, count: int, seed: int = 1) -> tuple[float, int]:
    """Return exits per step of the clock "restart", and how many there were."""
    walkers.begin(count, seed)
    waiting, exits, clock = np.ones(count, dtype=bool), 0, 0
    while exits < EACH * count:
        clock += count - int(np.count_nonzero(waiting))
        visits = walkers.move()
        walkers.x[waiting] = 0.0
        waiting &= ~visits
        out = np.abs(walkers.x) > 1.0
        if out.any():
            exits += int(np.count_nonzero(out))
            walkers.x[out] = 0.0
            waiting |= out & ~visits
    return exits / clock, exits


def stationary(walkers: Walkers, count: int, steps: int, seed: int = 2) -> tuple[float, int]:
    """Return exits by the time at risk from a stationary driver, and how many there were."""
    walkers.begin(count, seed)
    alive, risk = np.ones(count, dtype=bool), 0
    for _ in range(steps):
        risk += int(np.count_nonzero(alive))
        walkers.move()
        alive &= np.abs(walkers.x) <= 1.0
        walkers.x[~alive] = 0.0
    return float(count - np.count_nonzero(alive)) / risk, count - int(np.count_nonzero(alive))


def print_chaos(count: int) -> None:
    """Print the rates of chaotic noise from the quadratic well, by both clocks."""
    print("gamma eta F | restart: measured, theory | stationary: measured, theory", flush=True)
    etas = {0.6: (0.01, 0.005, 0.002), 0.7: (0.05, 0.02, 0.01, 0.005, 0.002)}
    for gamma, eta in ((g, e) for g, each in etas.items() for e in each):
        given: dict[str, Any] = {"lr": eta, "sigma": SIGMA, "gamma": gamma}
        one, steps = exit_rate(line, (-1.0, 1.0), **given), int(HORIZON / eta)
        two = exit_rate(line, (-1.0, 1.0), **given, clock="stationary", steps=steps)
        own = Walkers(ChaoticNoise(gamma), line, eta, SIGMA * eta**gamma)
        rate, exits = restarted(own, count)
        first, gone = stationary(own, EACH * count, steps)
        print(
            f"{gamma} {eta} {one.force:.2f} | {rate / eta:.4g} ({exits}), {one.per_time:.4g} | "
            f"{first / eta:.4g} ({gone}), {two.per_time:.4g}",
            flush=True,
        )


def print_telegraph(count: int) -> None:
    """Print the rates of telegraph noise from the quadratic and the cosine well."""
    print("well dwell eta F | measured, theory, ratio, one run", flush=True)
    wells = {"quadratic": (line, (1.05, 1.15, 1.3)), "cosine": (cosine, (1.65, 1.8, 2.0))}
    for name, (slope, forces) in wells.items():
        for force, dwell in zip(forces, (20, 10, 5), strict=True):
            eta, noise = 0.02, TelegraphNoise(dwell)
            given: dict[str, Any] = {"lr": eta, "force": force, "noise": noise}
            theory = exit_rate(slope, (-1.0, 1.0), **given)
            alone = exit_rate(slope, (-1.0, 1.0), **given, start=0.0)
            rate, _ = restarted(Walkers(noise, slope, eta, force * eta), count)
            print(
                f"{name} {dwell} {eta} {force} | {rate / eta:.4g}, {theory.per_time:.4g}, "
                f"{theory.per_time / rate * eta:.3f}, {alone.per_time:.4g}",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else WALKERS
    torch.set_num_threads(1)
    print_telegraph(count)
    print_chaos(count)


if __name__ == "__main__":
    main()
