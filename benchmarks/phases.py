"""Lengths of phases of telegraph and phase noise, counted over 10^8 visits, and the cost of a step.

    python -m benchmarks.phases [visits]

Counts of N > n are compared with the law, in standard errors. A step is timed beside the chaotic
one, on one thread, the two taking turns.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np
import torch

from benchmarks.timing import interleaved
from mpgd import ChaoticNoise, TelegraphNoise
from mpgd.noise import PhaseNoise
from mpgd.noise.engines import cpu
from mpgd.noise.word import FAR, FRACTION, steps_to_go

ORBITS: Final = 100_000
ELEMENTS: Final = 10**6
NOISES: Final[list[Any]] = [
    TelegraphNoise(2),
    TelegraphNoise(20),
    TelegraphNoise(300),
    TelegraphNoise(20, longest=10),
    PhaseNoise([1.0] * 7),
    PhaseNoise([1.0, 0.9, 0.5, 0.5, 0.5, 0.1]),
    PhaseNoise(lambda n: n**-1.5),
]


def count(noise: Any, visits: int) -> tuple[int, float, int]:
    """Return the visits, the largest deviation in standard errors, and of how many counts."""
    state = noise.init(ORBITS, seed=11)
    word = state.word & FRACTION
    step, bounds = torch.zeros(ORBITS, dtype=torch.int64), np.arange(1, 10)
    bounds = np.unique(np.append(bounds, np.geomspace(10, 10**7, 80).astype(np.int64)))
    seen, rounds = np.zeros(len(bounds), np.int64), max(1, visits // ORBITS)
    for _ in range(rounds):
        cpu.visit(noise.driver, word, step, int(state.key))
        n = steps_to_go(word).to(torch.int64)
        step += 1 + n
        place = np.searchsorted(bounds, n.numpy(), side="right")
        seen += np.cumsum(np.bincount(place, minlength=len(bounds) + 1)[::-1])[::-1][1:]
        word &= torch.where(n < FAR, FRACTION, 0).to(torch.int32)
    p, total = noise.law.tail(bounds), rounds * ORBITS
    kept = (p * total > 20) & (p < 1)
    z = (seen - p * total)[kept] / np.sqrt(total * p * (1 - p))[kept]
    return total, float(np.abs(z).max(initial=0.0)), int(kept.sum())


def main() -> None:
    """Print one line for each noise, then the cost of a step."""
    visits = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
    for noise in NOISES:
        total, worst, counts = count(noise, visits)
        print(f"{noise!r}: {total:.0e} visits, largest of {counts} deviations {worst:.2f}")
    torch.set_num_threads(1)
    cases = {}
    for name, noise in (("telegraph", TelegraphNoise(20)), ("chaotic", ChaoticNoise(0.6))):
        state, out = noise.init(ELEMENTS, seed=1), torch.empty(ELEMENTS)
        cases[name] = lambda d=noise.driver, w=state.word, o=out: cpu.advance(d, w, o, 7)
    times = interleaved(cases, 21)
    print(f"telegraph step / chaotic step: {times['telegraph'].over(times['chaotic']):.3f}")


if __name__ == "__main__":
    main()
