"""What one value of chaotic noise costs, beside other noises and beside iterating T itself.

The opponents are written as one would write them, and get the easier task: T by powers computes
y -> T(y) alone, without values or signs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from scipy.stats import levy_stable
from torch import Tensor

from benchmarks.timing import Case, Claim, Table, Timing, interleaved, threads
from mpgd import ChaoticNoise, ThalerMap
from mpgd.noise.engines import cpu

GAMMA: Final = 0.6
BETA: Final = 0.5
COUNT: Final = 1_000_000
ITERATES: Final = 10_000  # the paper's way to a stationary start
TIMED_ITERATES: Final = 20

FLOAT32, FLOAT64 = (
    "CPU engine, in place, float32 values",
    "CPU engine, in place, float64 values",
)
STEP, EAGER, COMPILED = (
    "CPU engine, `noise.step`",
    "torch engine, eager",
    "torch engine, compiled",
)
RANDN, CMS, SCIPY = (
    "`torch.randn` float32",
    "numpy Chambers-Mallows-Stuck",
    "scipy `levy_stable.rvs`",
)
POWERS, POWERS_COMPILED = "T by powers, torch float64", "T by powers, torch float64, compiled"


def in_place(dtype: torch.dtype) -> Case:
    """Return one step of 10^6 orbits as the optimizer takes it: words and values in place."""
    noise = ChaoticNoise(GAMMA, BETA)
    state, values = noise.init(COUNT), torch.empty(COUNT, dtype=dtype)
    clock = itertools.count()
    return lambda: cpu.advance(noise.driver, state.word, values, int(state.key), next(clock))


def public(engine: str, compiled: bool = False) -> Case:
    """Return ``noise.step`` of 10^6 orbits, which allocates its results."""
    noise = ChaoticNoise(GAMMA, BETA, engine=engine)
    state = noise.init(COUNT)
    advance = torch.compile(noise.step, fullgraph=True) if compiled else noise.step

    def step() -> None:
        nonlocal state
        _, state = advance(state)

    return step


def thaler(y: Tensor) -> Tensor:
    """Return T(y) by the textbook formula."""
    e = 1 - GAMMA
    z = (y**e + (1 + y) ** e - 1) ** (1 / e)
    return torch.where(z > 1, z - 1, z)


def powers(function: Callable[[Tensor], Tensor]) -> Case:
    """Return one iterate of T on 10^6 stationary points."""
    y = torch.tensor(ThalerMap(GAMMA).quantile(np.random.default_rng(0).random(COUNT)))

    def step() -> None:
        nonlocal y
        y = function(y)

    return step


def chambers_mallows_stuck() -> Case:
    """Return 10^6 stable draws by numpy."""
    rng, a = np.random.default_rng(0), 1 / GAMMA
    t = BETA * np.tan(np.pi * a / 2)
    b, scale = np.arctan(t) / a, (1 + t * t) ** (1 / (2 * a))

    def draw() -> Any:
        V, W = np.pi * (rng.random(COUNT) - 0.5), rng.standard_exponential(COUNT)
        size = scale * np.sin(a * (V + b)) / np.cos(V) ** (1 / a)
        return size * (np.cos(V - a * (V + b)) / W) ** ((1 - a) / a)

    return draw


def values_table(count: int, rounds: int) -> tuple[Table, dict[str, Timing]]:
    """Return nanoseconds per value with ``count`` threads."""
    law = levy_stable(1 / GAMMA, BETA)
    cases = {
        FLOAT32: in_place(torch.float32),
        FLOAT64: in_place(torch.float64),
        STEP: public("cpu"),
        EAGER: public("torch"),
        COMPILED: public("torch", compiled=True),
        RANDN: lambda: torch.randn(COUNT),
        CMS: chambers_mallows_stuck(),
        SCIPY: lambda: law.rvs(COUNT, random_state=0),
        POWERS: powers(thaler),
        POWERS_COMPILED: powers(torch.compile(thaler)),
    }
    with threads(count):
        timings = interleaved(cases, rounds)
    rows = [
        [
            name,
            *(f"{x * 1e9 / COUNT:.2f}" for x in (t.median, t.best)),
            f"{t.over(timings[RANDN]):.2f}",
        ]
        for name, t in timings.items()
    ]
    columns = ["10^6 values, ns per value", "median", "best", "relative to randn"]
    return Table(f"One value, {_words(count)}", columns, rows), timings


def one_thread(rounds: int) -> Table:
    """Return the table at one thread, with the promised ratios."""
    table, t = values_table(1, rounds)
    claims = [
        Claim(
            "kernels, float32 / randn, at most 0.8", t[FLOAT32].over(t[RANDN]), 0.8, at_least=False
        ),
        Claim(
            "kernels, float64 / randn, at most 0.8", t[FLOAT64].over(t[RANDN]), 0.8, at_least=False
        ),
        Claim("T by powers / kernels, at least 8", t[POWERS].over(t[FLOAT64]), 8),
        Claim("T by powers / torch engine eager, at least 1", t[POWERS].over(t[EAGER]), 1),
        Claim("T by powers / torch engine compiled, at least 3", t[POWERS].over(t[COMPILED]), 3),
    ]
    both = t[POWERS_COMPILED].over(t[COMPILED])
    remark = f"With both compiled, T by powers / torch engine = {both:.2f}."
    return Table(table.title, table.columns, table.rows, [remark], claims)


def two_threads(rounds: int) -> Table:
    """Return the table at two threads."""
    return values_table(2, rounds)[0]


def start(rounds: int) -> Table:
    """Return the stationary start against the paper's 10,000 iterates."""
    noise, iterate = ChaoticNoise(GAMMA, BETA), powers(thaler)

    def some_iterates() -> None:
        for _ in range(TIMED_ITERATES):
            iterate()

    cases: dict[str, Case] = {"start": lambda: noise.init(COUNT), "iterates": some_iterates}
    with threads(1):
        t = interleaved(cases, min(rounds, 7))
    begun, iterated, scale = t["start"], t["iterates"], ITERATES // TIMED_ITERATES
    rows = [
        ["`noise.init`", f"{begun.median:.4f}", f"{begun.best:.4f}"],
        ["10,000 iterates", f"{iterated.median * scale:.1f}", f"{iterated.best * scale:.1f}"],
    ]
    remark = f"Iterates: {TIMED_ITERATES} were timed and the time multiplied by {scale}."
    ratio = iterated.over(begun) * scale
    claim = Claim("10,000 iterates / stationary start, at least 1000", ratio, 1000)
    columns = ["seconds", "median", "best"]
    return Table("A stationary start of 10^6, one thread", columns, rows, [remark], [claim])


def linearity(rounds: int) -> Table:
    """Return nanoseconds per value against the number of orbits and of steps, and bytes."""
    noise = ChaoticNoise(GAMMA, BETA)
    sizes = [(100, n) for n in (1_000, 10_000, 100_000, 1_000_000)]
    sizes += [(k, 10_000) for k in (10, 1_000, 10_000)]
    cases: dict[str, Case] = {f"{k:,} x {n:,}": partial(noise.birkhoff, k, n) for k, n in sizes}
    with threads(1):
        timings = interleaved(cases, min(rounds, 5))
    rows = [
        [name, *(f"{x * 1e9 / (k * n):.2f}" for x in (timings[name].median, timings[name].best))]
        for name, (k, n) in zip(cases, sizes, strict=True)
    ]
    size = noise.init(COUNT).word.element_size()
    remark = f"State: {size} bytes per driver and coordinate, and two int64 per tensor."
    claim = Claim("bytes of state per driver and coordinate, at most 4", size, 4, at_least=False)
    columns = ["`birkhoff`, steps x orbits, ns per value", "median", "best"]
    return Table("Cost is linear, one thread", columns, rows, [remark], [claim])


TABLES: Sequence[Callable[[int], Table]] = (one_thread, two_threads, start, linearity)


def _words(count: int) -> str:
    return {1: "one thread", 2: "two threads"}[count]
