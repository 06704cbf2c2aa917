"""Long orbits: none freezes, none leaves the numbers, none falls on a cycle.

    python -m benchmarks.long_orbits [--orbits 400000] [--steps 10000] [--far 1000000000]

First, many orbits at many gammas, looked at after every step. Then 24 single orbits of 10^9
steps, from one visit to Z to the next (the steps between only count down), compared with a state
kept from earlier on (Brent's method: the state kept is renewed at visits 1, 2, 4, 8, ...). As a
control the same search runs with the step left out of the hash; then the state alone determines
the next one, and orbits must and do fall on cycles.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from mpgd import ChaoticNoise
from mpgd.noise.counter import MULTIPLIER, STRIDE, step_key
from mpgd.noise.engines import fused
from mpgd.noise.engines.threads import in_parts

GAMMAS: Final = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
STARTS: Final = 24
CYCLE_GAMMA: Final = 0.6

_u = np.uint64
_MULTIPLIER, _STRIDE, _HALF = _u(MULTIPLIER), _u(STRIDE), _u(32)


def frozen_or_lost(gamma: float, orbits: int, steps: int) -> tuple[int, int]:
    """Return how many states did not move in a step, and how many were not finite."""
    noise = ChaoticNoise(gamma)
    state = noise.init(orbits, seed=1)
    s, values, key = state.s.numpy(), np.empty(orbits), int(state.key)
    constants = fused.arguments(noise.driver)
    counts = np.zeros((orbits, 2), dtype=np.int64)

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        for k in range(steps):
            before = s[part].copy()
            bits = _u(step_key(key, k) % 2**64)
            fused.advance_values(s[part], values[part], first, bits, *constants)
            counts[first, 0] += np.count_nonzero(s[part] == before)
            counts[first, 1] += np.count_nonzero(~np.isfinite(s[part]))

    in_parts(orbits, run)
    return int(counts[:, 0].sum()), int(counts[:, 1].sum())


def compiled(function: Any) -> Any:
    """Return ``function`` compiled, free of the interpreter's lock and kept on disk."""
    return numba.njit(cache=True, nogil=True)(function)


@compiled
def follow(
    s: Any, clock: Any, kept: Any, visits: Any, met: Any, offset: int, steps: int, key: Any,
    stride: Any, table: Any, threshold: int, product: Any, c0: float, c1: float,
) -> None:  # fmt: skip
    """Advance orbits by ``steps`` steps, visit by visit; write where one meets its kept state.

    Several orbits side by side hide each other's waiting for memory.
    """
    running = len(s)
    while running > 0:
        running = 0
        for i in range(len(s)):
            if clock[i] >= steps:
                continue
            running += 1
            h = key + _u(clock[i]) * stride
            h = (h ^ (h >> _HALF)) * _MULTIPLIER
            h = (h ^ (h >> _HALF)) * _MULTIPLIER
            h = h ^ (h >> _HALF)
            u = fused.counted_down(s[i])
            after = fused.visited(u, _u(offset + i), h, table, threshold, product)
            phase = np.floor(abs(after))
            s[i] = np.copysign(abs(after) - phase, after)
            clock[i] += 1 + np.int64(phase)
            visits[i] += 1
            if s[i] == kept[i] and met[i] == 0:
                met[i] = clock[i]
            if visits[i] & (visits[i] - 1) == 0:
                kept[i] = s[i]


def cycles(steps: int, hash_has_the_step: bool = True) -> tuple[int, int, NDArray[np.int64]]:
    """Return the steps and visits taken, and when each orbit that did met an earlier state."""
    noise = ChaoticNoise(CYCLE_GAMMA)
    state = noise.init(STARTS, seed=2)
    phase = np.floor(state.s.abs().numpy())
    s = np.copysign(state.s.abs().numpy() - phase, state.s.numpy())
    clock, visits, met = phase.astype(np.int64), np.zeros(STARTS, int), np.zeros(STARTS, int)
    kept, constants = np.full(STARTS, np.nan), fused.arguments(noise.driver)
    key, stride = _u(int(state.key) % 2**64), _STRIDE if hash_has_the_step else _u(0)

    def run(first: int, last: int) -> None:
        parts = [array[first:last] for array in (s, clock, kept, visits, met)]
        follow(*parts, first, steps, key, stride, *constants)

    in_parts(STARTS, run, smallest=STARTS // 2)
    return int(clock.sum()), int(visits.sum()), np.sort(met[met > 0])


def same_orbits(steps: int = 5000) -> bool:
    """Return whether going from visit to visit gives the states of the public ``step``."""
    noise = ChaoticNoise(CYCLE_GAMMA)
    state = noise.init(STARTS, seed=2)
    s = state.s.abs().numpy() % 1.0
    s, clock = np.copysign(s, state.s.numpy()), np.floor(state.s.abs().numpy()).astype(np.int64)
    nothing = [np.full(STARTS, np.nan), np.zeros(STARTS, int), np.zeros(STARTS, int)]
    key, constants = _u(int(state.key) % 2**64), fused.arguments(noise.driver)
    follow(s, clock, *nothing, 0, steps, key, _STRIDE, *constants)
    for _ in range(steps):
        _, state = noise.step(state)
    ahead = clock - steps  # whole steps until the visit each orbit was left at
    return bool(np.array_equal(np.abs(s) + ahead, state.s.abs().numpy()))


def main() -> None:
    """Run both studies and print what they found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_orbits", description=__doc__)
    parser.add_argument("--orbits", type=int, default=400_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--far", type=int, default=10**9, help="steps of each single orbit")
    options = parser.parse_args()
    print(f"{options.orbits:,} orbits x {options.steps:,} steps, looked at after every step")
    for gamma in GAMMAS:
        began = time.perf_counter()
        frozen, lost = frozen_or_lost(gamma, options.orbits, options.steps)
        seconds = time.perf_counter() - began
        print(f"  gamma {gamma}: {frozen} frozen, {lost} not finite  ({seconds:.0f} s)", flush=True)
    print(f"visit to visit equals step by step: {same_orbits()}")
    for hashed, name in ((True, "the driver"), (False, "control, hash without the step")):
        began = time.perf_counter()
        steps, visits, met = cycles(options.far, hashed)
        seconds = time.perf_counter() - began
        print(
            f"{name}: {STARTS} starts, {steps:,} steps, {visits:,} visits to Z  ({seconds:.0f} s)"
        )
        print(
            f"  {len(met)} met an earlier state", *(f"at step {k:,}" for k in met[:4]), flush=True
        )


if __name__ == "__main__":
    main()
