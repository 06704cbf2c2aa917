"""How often the rule of verdicts is wrong on tables without any effect, and how intervals cover.

    python -m benchmarks.verdicts [--count 2000]

A table has descent, a Gaussian and six schemes, all with the same law, so that every verdict is
false; runs of one seed share a part of their outcome. Laws: normal, Student's t with 3 degrees, a
skewed one (lognormal), a stable one of index 1.7, and normal with 3 % of the runs diverged. Then:
how often Student's interval of a mean difference covers it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import nan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import levy_stable

from mpgd_lab.verdicts import Verdict, holm_corrected, interval, paired_difference, worst_of

SEEDS: Final = (5, 8, 20, 100)
SCHEMES: Final = 6
Rng = np.random.Generator
Outcomes = NDArray[Any]  # (scheme, seed)
Law = Callable[[Rng, tuple[int, int]], Outcomes]


def diverging(rng: Rng, shape: tuple[int, int]) -> Outcomes:
    """Return normal outcomes of which 3 % are missing."""
    return np.where(rng.random(shape) < 0.03, nan, rng.normal(size=shape))


LAWS: Final[dict[str, Law]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t, 3 degrees": lambda rng, shape: rng.standard_t(3, size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape),
    "stable, 1.7": lambda rng, shape: levy_stable.rvs(1.7, 0.0, size=shape, random_state=rng),
    "3 % diverged": diverging,
}


def false_verdicts(law: Law, seeds: int, tables: int) -> tuple[float, float]:
    """Return the share of tables with a verdict, and of those with one or a mixed claim."""
    rng = np.random.default_rng(0)
    every = [
        words_of(law(rng, (SCHEMES + 2, seeds)) + rng.normal(size=seeds)) for _ in range(tables)
    ]
    decided = sum(bool(words & {"supported", "contradicted"}) for words in every)
    return decided / tables, sum(bool(words - {"undecided"}) for words in every) / tables


def words_of(outcomes: Outcomes) -> set[str]:
    """Return the verdicts on all schemes against the first two, judged together."""
    rows = [dict(enumerate(row)) for row in outcomes]
    worst = worst_of(rows, "lower")
    claims = (
        Verdict("", "lower", paired_difference(row, rival, worst))
        for row in rows[2:]
        for rival in rows[:2]
    )
    return {verdict.word for verdict in holm_corrected(claims)}


def coverage(law: Law, seeds: int, samples: int) -> float:
    """Return how often the interval of a mean difference of two like schemes covers 0."""
    rng, inside = np.random.default_rng(1), 0
    for _ in range(samples):
        a, b = law(rng, (2, seeds))
        d = (a - b)[np.isfinite(a - b)]
        found = interval(d)
        inside += found.low <= 0.0 <= found.high
    return inside / samples


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    count = parser.parse_args().count
    print(f"{count} tables of {2 * SCHEMES} claims: false verdict | mixed or verdict | coverage")
    for name, law in LAWS.items():
        for seeds in SEEDS:
            wrong, some = false_verdicts(law, seeds, count)
            covers = coverage(law, seeds, 2 * count)
            print(
                f"  {name:14} {seeds:4} seeds: {wrong:.4f} | {some:.4f} | {covers:.3f}", flush=True
            )


if __name__ == "__main__":
    main()
