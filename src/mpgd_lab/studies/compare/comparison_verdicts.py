"""What the fresh seeds say: paired differences, p-values from sign flips, Holm's correction.

A method helps if its corrected p is below 0.05 and the mean difference has the good sign, and harms
if it has the bad one. Corrections are made within a task, over all its methods but descent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd_lab.content.selection import matching
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.store import Record
from mpgd_lab.studies.compare.data_tasks import REPORT, TUNE
from mpgd_lab.studies.compare.methods import BY_NAME, Method, methods_of
from mpgd_lab.studies.compare.runs import best, configuration, scores
from mpgd_lab.studies.compare.tasks import TASKS, Task
from mpgd_lab.verdicts import (
    BySeed,
    Difference,
    Summary,
    by_seed,
    grouped,
    holm,
    paired_difference,
    summary,
)

Array = NDArray[np.float64]

FLIPS: Final = 20_000
LEVEL: Final = 0.05
WORKS: Final = 10.0  # points of success above descent, from which on a level works
QUARTER: Final = 0.25  # of a decade: the distance of two levels


@dataclass(frozen=True)
class Line:
    """What is known of a method on a task."""

    task: Task
    method: Method
    records: Sequence[Record]  # of the fresh seeds
    score: Summary
    to_descent: Difference
    to_base: Difference  # to the method whose step size it uses
    p: float  # of the latter
    p_holm: float = 1.0

    @property
    def word(self) -> str:
        """Helps, harms, or empty without a significant difference."""
        if self.p_holm >= LEVEL:
            return ""
        good = (self.to_base.mean > 0) == (self.task.better == "higher")
        return "helps" if good else "harms"

    @property
    def values(self) -> Array:
        """The scores of the fresh seeds."""
        return np.array([*_scores(self.records, self.task).values()])

    @property
    def diverged(self) -> int:
        """Runs of which some start, or the net, diverged."""
        return sum(record.metrics["diverged"] > 0 for record in self.records)


def lines(records: Sequence[Record], task: Task) -> list[Line]:
    """Return what the fresh seeds say of all methods that have records, descent first."""
    methods = reported(records, task)
    if "descent" not in methods:
        raise IncompleteError(f"no fresh seed of descent on {task.title}")
    values = {name: _scores(own, task) for name, own in methods.items()}
    rows = []
    for method in methods_of(task):
        base = method.base or "descent"
        if not {method.name, base} <= methods.keys():
            continue
        mine, theirs = values[method.name], values[base]
        compared = _difference(mine, theirs)
        own = (summary(mine.values()), paired_difference(mine, values["descent"]), *compared)
        rows.append(Line(task, method, methods[method.name], *own))
    p = holm([line.p for line in rows[1:]])
    return rows[:1] + [replace(line, p_holm=c) for line, c in zip(rows[1:], p, strict=True)]


def difference(first: Line, second: Line) -> tuple[Difference, float]:
    """Return the difference of two methods on a task, paired by seed, and its p-value."""
    return _difference(*(_scores(line.records, line.task) for line in (first, second)))


def _difference(first: BySeed, second: BySeed) -> tuple[Difference, float]:
    d = np.array([first[seed] - second[seed] for seed in sorted({*first} & {*second})])
    return paired_difference(first, second), sign_flips(d)


def reported(records: Sequence[Record], task: Task) -> dict[str, list[Record]]:
    """Return the records of the fresh seeds of each method, of the configuration most have."""
    methods = {}
    for name, each in _by_method(records, task, REPORT).items():
        alike = grouped(each, lambda run: repr(configuration(run)))
        methods[name] = max(alike.values(), key=len)
    return methods


def _by_method(records: Sequence[Record], task: Task, stage: str) -> dict[str, list[Record]]:
    """Return the records of each method, methods in the order of the tables.

    Levels ascend, as they were tuned, so that of equal ones the lowest is best in any store.
    """
    own = matching(records, data=task.name, part=stage)
    own = sorted(own, key=lambda r: (r.run.hyperparameters.get("level", 0.0), r.run.seed))
    methods = grouped(own, lambda run: run.scheme)
    return {one.name: methods[one.name] for one in methods_of(task) if one.name in methods}


def _scores(records: Sequence[Record], task: Task) -> dict[int, float]:
    """Return the score of each seed; one that is no number counts as the worst."""
    scores_by_seed = by_seed(records, "score")
    return {seed: x if np.isfinite(x) else task.worst for seed, x in scores_by_seed.items()}


def sign_flips(d: Array, seed: int = 0) -> float:
    """Return the p-value of a mean difference of zero: how often random signs give as much.

    Examples:
        >>> sign_flips(np.array([1.0, -1.0])), sign_flips(np.full(20, 0.5)) < 0.001
        (1.0, True)
    """
    if not np.isfinite(d).all():
        raise ValueError(f"differences must be finite, got {d[~np.isfinite(d)][0]}")
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (FLIPS, len(d)))
    as_much = np.abs(signs @ d) >= abs(d.sum()) * (1 - 1e-12)
    return float((1 + as_much.sum()) / (1 + FLIPS))


def all_lines(records: Sequence[Record]) -> dict[str, list[Line]]:
    """Return the lines of every task that has fresh seeds of descent."""
    by_task = {}
    for task in TASKS:
        try:
            by_task[task.name] = lines(records, task)
        except IncompleteError:
            continue
    return by_task


def succeeds(own: Sequence[Line], kind: str) -> list[str]:
    """Return the methods of a kind that help, and no method of another kind is surely better."""
    others = [line for line in own if line.method.kind != kind]
    sign = 1.0 if own[0].task.better == "higher" else -1.0
    rival = max(others, key=lambda line: sign * line.score.mean)
    values = by_seed(rival.records, "score")
    names = []
    for line in own:
        if line.method.kind == kind and line.word == "helps":
            d = paired_difference(by_seed(line.records, "score"), values)
            if sign * (d.high if sign > 0 else d.low) >= 0.0:
                names.append(line.method.title)
    return names


@dataclass(frozen=True)
class Range:
    """The levels of a method that work on a test function."""

    width: float  # in decades
    lowest: float | None  # the lowest that works
    best: float | None  # the one with the most success
    success: float  # there, in per cent


def ranges(records: Sequence[Record], task: Task) -> dict[str, Range]:
    """Return for each method with levels those that work, from the tuning seeds."""
    methods = _by_method(records, task, TUNE)
    if "descent" not in methods:
        raise IncompleteError(f"no tuning of descent on {task.title}")
    _, floor = best(methods["descent"])
    by_name = {}
    for name, each in methods.items():
        if BY_NAME[name].noise == "none":
            continue
        works = [given["level"] for given, score in scores(each) if score >= floor + WORKS]
        given, top = best(each)
        lowest = min(works, default=None)
        by_name[name] = Range(QUARTER * len(works), lowest, given["level"], top)
    return by_name
