"""Long orbits: none freezes, and 10^9 visits to Z follow their laws.

    python -m benchmarks.long_orbits [--orbits 400000] [--steps 10000] [--visits 1000000000]

First, many orbits at many gammas, looked at after every step. Then visit after visit, counted as
`benchmarks.visits` says, at two gammas.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

import numpy as np
import torch

from benchmarks import visits
from mpgd import ChaoticNoise
from mpgd.noise.engines import cpu
from mpgd.noise.word import MAGNITUDE, ONE

GAMMAS: Final = (0.52, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
COUNTED: Final = (0.6, 0.9)
BETA: Final = 0.5


def frozen(gamma: float, orbits: int, steps: int) -> tuple[int, int]:
    """Return how many words outside Z did not move in a step, and how many in Z did not.

    A visit may lead back to its own cell; of 2^18 cells that is no more than chance.
    """
    noise, laminar, in_Z = ChaoticNoise(gamma), 0, 0
    state = noise.init(orbits, seed=1)
    word, values, key = state.word, torch.empty(orbits), int(state.key)
    words = word.numpy()
    for k in range(steps):
        before = words & MAGNITUDE
        cpu.advance(noise.driver, word, values, key, k)
        still = (words & MAGNITUDE) == before
        laminar += np.count_nonzero(still & (before >= ONE))
        in_Z += np.count_nonzero(still & (before < ONE))
    return laminar, in_Z


def print_visits(gamma: float, total: int) -> None:
    """Count visits at one gamma and print what was found, in standard errors."""
    began = time.perf_counter()
    found = visits.count(gamma, BETA, total)
    seconds = time.perf_counter() - began
    print(f"gamma {gamma}: {found.visits:,} visits ({seconds:.0f} s)")
    print(f"  visit to visit equals step by step: {visits.same_orbits(gamma)}")
    print("  steps         ", *visits.BOUNDS)
    print("  so many and more", *found.tails)
    print("  errors        ", *np.round(visits.tail_errors(found, gamma), 1))
    pairs, signs = visits.pair_errors(found, gamma), visits.sign_errors(found, BETA)
    print(f"  worst error of {pairs.size} pairs of lengths: {np.abs(pairs).max():.1f}")
    print(f"  worst error of signs, with signs and lengths: {np.abs(signs).max():.1f}", flush=True)


def main() -> None:
    """Run both studies and print what they found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_orbits", description=__doc__)
    parser.add_argument("--orbits", type=int, default=400_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--visits", type=int, default=10**9)
    options = parser.parse_args()
    print(f"{options.orbits:,} orbits x {options.steps:,} steps, looked at after every step")
    for gamma in GAMMAS:
        began = time.perf_counter()
        laminar, in_Z = frozen(gamma, options.orbits, options.steps)
        seconds = time.perf_counter() - began
        print(f"  gamma {gamma}: {laminar} frozen; {in_Z} visits led back  ({seconds:.0f} s)")
    for gamma in COUNTED:
        print_visits(gamma, options.visits)


if __name__ == "__main__":
    main()
