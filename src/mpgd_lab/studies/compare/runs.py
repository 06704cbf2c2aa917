"""The stages of the comparison: what is tuned first, what then, and what is reported.

    first    descent, mini-batches and AdamW, each among its configurations       validation rows
    second   all others, at the step size that was best for their base            validation rows
    report   the best configuration of every method, with fresh seeds             test rows

What a later stage runs depends on the records of an earlier one, so they are completed one after
the other; a finished run is never repeated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mpgd_lab.runner import Context, Train, complete
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.compare.data_tasks import REPORT, TUNE
from mpgd_lab.studies.compare.methods import (
    ADAMW_DECAY,
    ADAMW_STEP,
    BY_NAME,
    FIRST,
    Configuration,
    Method,
    configurations,
    methods_of,
)
from mpgd_lab.studies.compare.tasks import BY_NAME as TASKS_BY_NAME
from mpgd_lab.studies.compare.tasks import TASKS, WALKERS, Task
from mpgd_lab.verdicts import grouped

FRESH: Final = 101  # the first seed of the report
PROTOCOL: Final = "own"  # there is one
SET: Final = (  # hyperparameters that are part of a configuration
    *("lr", "steps", "batch", "weight_decay", "rho"),
    *("noise", "gamma", "beta", "place", "level", "per", "longest", "burst", "dwell", "time"),
)

Chosen = Mapping[tuple[str, str], Configuration]  # of task and method


@dataclass(frozen=True)
class Size:
    """How much is run; None leaves what a task says."""

    tasks: tuple[str, ...] = tuple(task.name for task in TASKS)
    seeds: int | None = None  # of the report
    tuning: int | None = None  # seeds of tuning
    configurations: int | None = None
    steps: int | None = None
    walkers: int | None = None


FULL: Final = Size()


def tasks(protocol: str, seeds: Sequence[int], size: Size = FULL) -> list[Run]:
    """Return the runs of the first stage, the only ones that depend on no other."""
    return stage(size, {}, first=True)


def stage(size: Size, chosen: Chosen, first: bool) -> list[Run]:
    """Return what is tuned in the first or in the second stage."""
    return [
        run
        for task in map(TASKS_BY_NAME.__getitem__, size.tasks)
        for method in methods_of(task)
        if (method.name in FIRST) == first
        for given in configurations(task, method, _base(task, method, chosen), size.configurations)
        for run in _runs(task, method, given, TUNE, _tuning(task, size), size)
    ]


def _base(task: Task, method: Method, chosen: Chosen) -> Configuration:
    """Return where a method starts from: its base's best, on a function a step size of the task.

    On a function descent is stuck at any step size, so that none of them is best.
    """
    if task.is_function and method.base == "descent":
        return {"lr": task.lr, "steps": task.steps}
    if task.is_function and method.base == "adamw":
        return {"lr": ADAMW_STEP, "weight_decay": ADAMW_DECAY, "steps": task.steps}
    return chosen.get((task.name, method.base or ""), {})


def _tuning(task: Task, size: Size) -> range:
    return range(1, (size.tuning or task.tuning) + 1)


def report_runs(size: Size, chosen: Chosen) -> list[Run]:
    """Return the runs of the last stage."""
    return [
        run
        for (name, method), given in chosen.items()
        for task in (TASKS_BY_NAME[name],)
        for run in _runs(task, BY_NAME[method], given, REPORT, _fresh(task, size), size)
    ]


def _fresh(task: Task, size: Size) -> range:
    return range(FRESH, FRESH + (size.seeds or task.report))


def _runs(
    task: Task, method: Method, given: Configuration, part: str, seeds: Iterable[int], size: Size
) -> list[Run]:
    """Return a run for every seed; its rule is its ``study``, so that a batch shares it."""
    h = {"data": task.name, "part": part, "study": method.rule, **given}
    if size.steps:
        h["steps"] = min(size.steps, h["steps"])
    walkers = size.walkers or task.walkers
    if task.is_function and walkers != WALKERS:
        h["walkers"] = walkers
    return [Run("compare", PROTOCOL, method.name, h, seed) for seed in seeds]


def configuration(run: Run) -> dict[str, Any]:
    """Return the configuration of a run."""
    return {name: run.hyperparameters[name] for name in SET if name in run.hyperparameters}


def choose(records: Iterable[Record]) -> dict[tuple[str, str], Configuration]:
    """Return the configuration of each task and method with the best mean validation score."""
    groups = grouped(records, lambda run: (run.hyperparameters["data"], run.scheme))
    return {key: best(own)[0] for key, own in groups.items()}


def best(records: Sequence[Record]) -> tuple[dict[str, Any], float]:
    """Return the best configuration of a method on a task, and its mean score."""
    means = scores(records)
    lower = TASKS_BY_NAME[records[0].run.hyperparameters["data"]].better == "lower"
    result = (min if lower else max)(means, key=lambda pair: pair[1])
    return result


def scores(records: Iterable[Record]) -> list[tuple[dict[str, Any], float]]:
    """Return every configuration with its mean score over seeds."""
    groups = grouped(records, lambda run: repr(configuration(run)))
    return [
        (configuration(own[0].run), float(np.mean([record.metrics["score"] for record in own])))
        for own in groups.values()
    ]


def run_stages(context: Context, train: Train, max_batch: int, size: Size = FULL) -> list[Record]:
    """Complete all stages and return all records."""
    records: list[Record] = []
    chosen: dict[tuple[str, str], Configuration] = {}
    for first in (True, False):
        context.reporter.say(f"  tuning, {'first' if first else 'second'} stage")
        finished = complete(context, stage(size, chosen, first), train, lambda run: max_batch)
        chosen |= choose(finished)
        records += finished
    context.reporter.say("  report, fresh seeds")
    return [
        *records,
        *complete(context, report_runs(size, chosen), train, lambda run: max_batch),
    ]
