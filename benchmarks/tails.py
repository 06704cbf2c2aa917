"""How often the intervals of tail indices and dimensions cover the truth.

    python -m benchmarks.tails [tails] [memory] [dimension] [--count 200]

tails      independent stable samples: every estimator
memory     stable and Gaussian AR(1) sequences, whose rows have the index of their innovations: in
           the order of time as if independent, and with dependence="blocks"
dimension  paths of known dimension: Brownian, stable and fractional Brownian ones, a smooth curve
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.theory import tail_index, trajectory_dimension

Array = NDArray[np.float64]

SIZES: Final = (200, 1000, 10_000)
ALPHAS: Final = (1.2, 1.5, 1.8, 1.9, 1.95, 1.99, 2.0)
METHODS: Final = ("log_moments", "hill", "mcculloch", "characteristic")
PATHS: Final[dict[str, tuple[Callable[[int, int], Array], float]]] = {
    "Brownian, line": (lambda n, seed: stable_path(2.0, n, 1, seed), 1.0),
    "Brownian, plane": (lambda n, seed: stable_path(2.0, n, 2, seed), 2.0),
    "Brownian, space": (lambda n, seed: stable_path(2.0, n, 3, seed), 2.0),
    "Brownian, d = 10": (lambda n, seed: stable_path(2.0, n, 10, seed), 2.0),
    "stable 1.2, plane": (lambda n, seed: stable_path(1.2, n, 2, seed), 1.2),
    "stable 1.5, plane": (lambda n, seed: stable_path(1.5, n, 2, seed), 1.5),
    "stable 1.8, plane": (lambda n, seed: stable_path(1.8, n, 2, seed), 1.8),
    "stable 1.5, d = 10": (lambda n, seed: stable_path(1.5, n, 10, seed), 1.5),
    "fractional 0.7, space": (lambda n, seed: fractional(0.7, n, 3, seed), 1 / 0.7),
    "fractional 0.4, space": (lambda n, seed: fractional(0.4, n, 3, seed), 2.5),
    "smooth curve, space": (lambda n, seed: curve(n, seed), 1.0),
}


def stable(alpha: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return symmetric stable variates of scale 1 (Chambers, Mallows & Stuck 1976)."""
    u, w = rng.uniform(-np.pi / 2, np.pi / 2, shape), rng.exponential(size=shape)
    tilt = (np.cos(u - alpha * u) / w) ** ((1 - alpha) / alpha)
    return np.asarray(np.sin(alpha * u) / np.cos(u) ** (1 / alpha) * tilt)


def remembering(alpha: float, coefficient: float, n: int, rng: np.random.Generator) -> Array:
    """Return a stationary AR(1) sequence with stable innovations."""
    e = stable(alpha, (n + 200,), rng)
    x = np.zeros(n + 200)
    for k in range(1, n + 200):
        x[k] = coefficient * x[k - 1] + e[k]
    return x[200:]


def stable_path(alpha: float, n: int, d: int, seed: int = 0) -> Array:
    """Return sums of isotropic stable steps: normal ones times roots of positive stable ones."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n, d))
    if alpha < 2.0:
        a, u, w = alpha / 2, rng.uniform(0, np.pi, n), rng.exponential(size=n)
        tilt = (np.sin((1 - a) * u) / w) ** ((1 - a) / a)  # Kanter (1975)
        steps *= np.sqrt(np.sin(a * u) / np.sin(u) ** (1 / a) * tilt)[:, None]
    return np.asarray(steps.cumsum(axis=0))


def fractional(hurst: float, n: int, d: int, seed: int) -> Array:
    """Return a fractional Brownian path by circulant embedding of its increments."""
    rng, k, h = np.random.default_rng(seed), np.arange(n + 1.0), 2 * hurst
    covariance = (np.abs(k - 1) ** h - 2 * k**h + (k + 1) ** h) / 2
    circle = np.concatenate([covariance, covariance[-2:0:-1]])
    root = np.sqrt(np.fft.fft(circle).real.clip(0) / len(circle))
    z = rng.normal(size=(len(circle), d)) + 1j * rng.normal(size=(len(circle), d))
    return np.asarray(np.fft.fft(root[:, None] * z, axis=0).real[:n].cumsum(axis=0))


def curve(n: int, seed: int) -> Array:
    """Return a random trigonometric curve of three frequencies."""
    rng, t = np.random.default_rng(seed), np.linspace(0, 1, n, endpoint=False)
    waves = np.cos(2 * np.pi * np.outer(t, [1, 2, 3]) + rng.uniform(0, 2 * np.pi, 3))
    return np.asarray(waves @ rng.normal(size=(3, 3)))


def tails(count: int) -> Iterator[str]:
    """Yield coverage and median width for independent rows."""
    for n in SIZES:
        for alpha in ALPHAS:
            samples = stable(alpha, (count, n), np.random.default_rng(1))
            parts = [_covered(samples, method, "ignore", alpha) for method in METHODS]
            yield f"n {n:6} alpha {alpha:4}: {'  '.join(parts)}"


def memory(count: int) -> Iterator[str]:
    """Yield coverage and median width for rows with memory, ignored and not."""
    rng = np.random.default_rng(2)
    for n in SIZES[1:]:
        for alpha in (1.5, 1.8, 2.0):
            for coefficient in (0.5, 0.9):
                samples = np.array([remembering(alpha, coefficient, n, rng) for _ in range(count)])
                for dependence in ("ignore", "blocks"):
                    each = [_covered(samples, m, dependence, alpha) for m in METHODS if m != "hill"]
                    head = f"n {n:6} alpha {alpha:4} AR {coefficient}, {dependence:6}"
                    yield f"{head}: {'  '.join(each)}"


def dimension(count: int) -> Iterator[str]:
    """Yield coverage of the dimension of paths; trees and boxes have values only."""
    for n in (512, 4096):
        for name, (make, true) in PATHS.items():
            found = [trajectory_dimension(make(n, seed)) for seed in range(count)]
            inside = np.mean([one.low - 1e-9 <= true <= one.high + 1e-9 for one in found])
            values, width = [one.value for one in found], np.median([f.high - f.low for f in found])
            told = f"{np.mean(values):.3f} +- {np.std(values):.3f}, width {width:.2f}"
            yield f"n {n:5} {name:22} {true:.2f}: {told}, covers {100 * inside:.1f} %"


def _covered(samples: Array, method: str, dependence: str, alpha: float) -> str:
    found = [tail_index(x, method, dependence=dependence) for x in samples]
    inside = np.mean([one.low <= alpha <= one.high for one in found])
    widths = [one.high - one.low for one in found]
    return f"{method} {100 * inside:.1f} % width {np.median(widths) if widths else nan:.2f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tails", description=__doc__)
    tables = {"tails": tails, "memory": memory, "dimension": dimension}
    parser.add_argument("tables", nargs="*", default=[], help="all by default")
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    for name, table in tables.items():
        if name in options.tables or not options.tables:
            print(f"{name}, {options.count} trials", flush=True)
            for line in table(options.count):
                print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
