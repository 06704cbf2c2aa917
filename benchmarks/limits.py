"""What the limit costs: MPGD's recursion, its Marcus equation, and distances between paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from benchmarks.timing import Case, Claim, Table, interleaved, threads
from mpgd.limits import FastSlow, p_variation, skorokhod_distance
from mpgd.stable import StableLaw

PATHS: Final = 10_000
STEPS: Final = 1_000
RECURSION, EQUATION = "`FastSlow.simulate`", "`MarcusSDE.solve`"
BOUNDS: Final = {RECURSION: 2.0, EQUATION: 4.0}
J1, SM1, VARIATION = "J1, 5,000 points", "SM1, 5,000 points", "1.7-variation, 10^6 points"


def solvers(rounds: int) -> Table:
    """Return the seconds of both solvers on the quadratic with both noises, one and two threads."""
    mpgd = FastSlow.mpgd(lambda x: x, mu=0.1, sigma=0.5, gamma=0.6, beta=0.5)
    cases: dict[str, Case] = {
        RECURSION: partial(mpgd.simulate, 1.0, m=STEPS, t1=1.0, paths=PATHS),
        EQUATION: partial(mpgd.limit().solve, 1.0, t1=1.0, steps=STEPS, paths=PATHS),
    }
    timings = {}
    for count in (1, 2):
        with threads(count):
            timings[count] = interleaved(cases, min(rounds, 5))
    rows = []
    for name in cases:
        both = [timings[count][name] for count in (1, 2)]
        rows.append([name, *(f"{s:.2f}" for t in both for s in (t.median, t.best))])
    claims = [
        Claim(f"{name}, two threads, at most {bound:g} s", timings[2][name].median, bound, False)
        for name, bound in BOUNDS.items()
    ]
    columns = ["seconds", "1 thread, median", "best", "2 threads, median", "best"]
    title = f"MPGD on the quadratic and its equation, {PATHS:,} paths x {STEPS:,} steps"
    return Table(title, columns, rows, claims=claims)


def paths(rounds: int) -> Table:
    """Return the seconds of the distances between two stable paths."""
    law = StableLaw(1.6)
    x, y = (law.rvs(5_000, seed).cumsum() / 5_000**0.625 for seed in (0, 1))
    long = law.rvs(1_000_000, 2).cumsum()
    cases: dict[str, Case] = {
        J1: partial(skorokhod_distance, x, y, "J1"),
        SM1: partial(skorokhod_distance, x, y, "SM1"),
        VARIATION: partial(p_variation, np.asarray(long), 1.7),
    }
    with threads(1):
        t = interleaved(cases, min(rounds, 5))
    rows = [[name, f"{t[name].median:.2f}", f"{t[name].best:.2f}"] for name in cases]
    claim = Claim(f"{J1}, at most 1 s", t[J1].median, 1.0, False)
    return Table("Distances between paths", ["seconds", "median", "best"], rows, claims=[claim])


TABLES: Sequence[Callable[[int], Table]] = (solvers, paths)
