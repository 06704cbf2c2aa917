"""The schemes in the valley, what is said of them, and the paths kept for a figure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Final

from mpgd_lab.content.tables import Comparison, by_protocol, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.schemes import Scheme, chaotic, runs_of
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import Measure, by_scheme

GAMMAS: Final = (0.6, 0.7, 0.8)
BETA: Final = 0.5
FIXED: Final[dict[str, Any]] = {"eta": 0.01, "steps": 8000}
LEVEL: Final = {"mu": 0.02, "sigma": 0.05}
LANDSCAPE: Final = "landscape"  # the part of the store that holds paths
LANDSCAPE_STEPS: Final = 2000
TRACE: Final = Measure("trace", "final trace of the Hessian", 1, noun="final trace")


def tasks(protocol: str, seeds: Sequence[int], steps: int = FIXED["steps"]) -> list[Run]:
    """Return the runs of every scheme for these seeds."""
    fixed = FIXED | {"steps": steps} | LEVEL | {"symmetric": False}
    return runs_of("valley", protocol, schemes(protocol), seeds, fixed)


def schemes(protocol: str) -> list[Scheme]:
    """Return the schemes of a protocol; their levels are the same for all."""
    base = Scheme("switched") if protocol == "released" else chaotic(protocol)
    mpgd = [replace(base, gamma=gamma, beta=BETA) for gamma in GAMMAS]
    if protocol == "released":
        return [Scheme(), Scheme("released_gaussian"), *mpgd]
    matched = [Scheme("matched", gamma=gamma) for gamma in GAMMAS]
    langevin = [] if protocol == "text" else [Scheme("langevin")]
    return [Scheme(), *langevin, *matched, *mpgd]


def landscape(protocol: str, steps: int = LANDSCAPE_STEPS) -> list[Run]:
    """Return one run of every scheme whose path through the valley is kept."""
    part = {"part": LANDSCAPE}
    return [
        replace(task, hyperparameters={**task.hyperparameters, **part})
        for task in tasks(protocol, [1], steps)
    ]


def all_tasks(
    protocol: str,
    seeds: Sequence[int],
    steps: int = FIXED["steps"],
    landscape_steps: int = LANDSCAPE_STEPS,
) -> list[Run]:
    """Return the runs of every scheme, and those whose path is kept."""
    return [*tasks(protocol, seeds, steps), *landscape(protocol, landscape_steps)]


COMPARISON: Final = Comparison(
    by_protocol("valley"), schemes, lambda protocol: (TRACE,), 1, has_variants=False
)


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the final traces, with medians since a few paths go far, and the verdicts."""
    ends = [record for record in records if "part" not in record.run.hyperparameters]
    for title, own in COMPARISON.groups(ends).items():
        caption, heads, rows = terminal_table(COMPARISON.table(title, own, TRACE))
        schemes = by_scheme(own).items()
        medians = {name: median(r.metrics["trace"] for r in each) for name, each in schemes}
        body = [[name, f"{medians[name]:.1f}", *rest] for name, *rest in rows]
        yield caption, [heads[0], "median", *heads[1:]], body
        yield from COMPARISON.verdict_lines(title, own)
