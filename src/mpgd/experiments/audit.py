"""The audit: what each deviation of the authors' scripts does to the results, alone and together.

A case is one row of an experiment's tables. From its runs under protocol ``paper`` one deviation
is switched on at a time, with the same seeds; a table shows each metric and its difference to
``paper``, paired by seed, with a bootstrap interval. Its last row is protocol ``released``: all of
them together. ``control`` is no deviation but a check of the method, the text's noise drawn by
other means, which ought to make no difference.

A deviation is tried on the rows it concerns: of the noise, on plain and symmetric MPGD, or on the
Gaussian. On ECG5000 ``paper`` means the text's one hidden layer.

Reference: Lim, Wan & Simsekli (2022), Section 5 and Appendix F, and the scripts released with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mpgd.experiments import NEEDS, Context, airfoil, ecg, lacks, valley, valley_switches
from mpgd.experiments.deviations import deviate
from mpgd.experiments.released import SWITCHES
from mpgd.experiments.runner import complete
from mpgd.experiments.statistics import by_seed, paired, summary
from mpgd.experiments.store import Record, Run
from mpgd.experiments.training import Result

Train = Callable[..., Iterator[Result]]
Table = tuple[str, list[str], list[list[str]]]  # title, headings, rows

PAPER, TOGETHER = "paper", "all together"  # the first and the last row of a table
SYMMETRIC: Final = ("control", *SWITCHES)
PLAIN: Final = tuple(name for name in SYMMETRIC if name != "same_delta")
MEASURED: Final = ("early_metrics", "mse_gap")
TEXT: Final = {"ecg": ecg.DEPTHS["one hidden layer"]}  # widths, where ``paper`` has several nets


@dataclass(frozen=True)
class Case:
    """A row of an experiment's tables, and the deviations tried on it one by one."""

    scheme: str
    alone: tuple[str, ...]

    def holds(self, task: Run) -> bool:
        """Return whether a run belongs to this row; ``released`` has one Gaussian only."""
        if task.protocol == "released":
            return task.scheme == ("gaussian" if "gaussian" in self.scheme else self.scheme)
        widths = task.hyperparameters.get("widths")
        return task.scheme == self.scheme and widths == TEXT.get(task.experiment, widths)


@dataclass(frozen=True)
class Study:
    """An experiment that is audited.

    Attributes:
        train: trains its own runs.
        deviated: trains those with deviations.
        largest: how many like this one are trained together.
        metrics: what is shown: its title and digits.
        cases: the rows.
    """

    train: Train
    deviated: Train
    largest: Callable[[Run], int]
    metrics: Mapping[str, tuple[str, int]]
    cases: tuple[Case, ...]


STUDIES: Final = {
    "airfoil": Study(
        airfoil.train, airfoil.train, airfoil.largest,
        {"test_rmse": ("test RMSE", 4), "gap": ("RMSE gap", 4)},
        (
            Case("gd", ("float32", *MEASURED)),
            Case("gaussian plain 0.6", ("bare_gaussian", "shared_rows", *MEASURED)),
            Case("mpgd plain 0.6 beta 0.5", (*PLAIN, "lower_sigma", *MEASURED)),
            Case("mpgd symmetric 0.6 beta 0.5", (*SYMMETRIC, *MEASURED)),
        ),
    ),
    "ecg": Study(
        ecg.train, ecg.train, lambda task: min(10, ecg.largest(task)),
        {"test_accuracy": ("test accuracy, %", 2)},
        (
            Case("gd", ("two_layers",)),
            Case("gaussian plain 0.6", ("bare_gaussian", "shared_rows", "two_layers")),
            Case("mpgd plain 0.6 beta 0.5", (*PLAIN, "two_layers")),
            Case("mpgd symmetric 0.6 beta 0.5", (*SYMMETRIC, "two_layers")),
        ),
    ),
    "valley": Study(
        valley.train, valley_switches.train, lambda task: 1000,
        {"trace": ("final trace of the Hessian", 1)},
        (
            Case("gd", ("scalar_u",)),
            Case("gaussian plain 0.7", valley_switches.GAUSSIAN + valley_switches.MOTION),
            Case("mpgd plain 0.7 beta 0.5",
                 ("control", *valley_switches.ORBITS, *valley_switches.MOTION)),
        ),
    ),
}  # fmt: skip


def run(context: Context, steps: int | None = None) -> None:
    """Run what the store lacks of the studies whose data is found, and print their tables."""
    records: list[Record] = []
    for name, study in STUDIES.items():
        if reason := lacks(name, context.data):
            context.reporter.say(f"audit: {reason}")
            continue
        given = {"data": context.data} if name in NEEDS else {}
        wanted = tasks(name, range(1, context.seeds + 1), steps)
        for train, deviated in ((study.train, False), (study.deviated, True)):
            part = [task for task in wanted if (task.experiment == "audit") is deviated]
            records += complete(context, part, partial(train, **given), study.largest)
    for table in tables(records, steps):
        context.reporter.table(*table)


def tasks(name: str, seeds: Sequence[int], steps: int | None = None) -> list[Run]:
    """Return all runs of a study; those with a deviation are ``audit``'s, the rest its own."""
    return [task for case in STUDIES[name].cases
            for each in lines(name, case, seeds, steps).values() for task in each]  # fmt: skip


def lines(
    name: str, case: Case, seeds: Sequence[int], steps: int | None = None
) -> dict[str, list[Run]]:
    """Return the runs of every line of a case's table; ``steps`` shortens them, for a test."""
    first, last = (
        [task for task in _own(name, protocol, seeds, steps) if case.holds(task)]
        for protocol in ("paper", "released")
    )
    alone = {name: [_with(each, name) for each in first] for name in case.alone}
    if "float32" in alone:  # which the scripts' descent is, apart from how its gap is defined
        alone["float32"] = last
    return {PAPER: first, **alone, TOGETHER: last}


def _own(name: str, protocol: str, seeds: Sequence[int], steps: int | None) -> list[Run]:
    if name == "ecg":
        shorter = {} if steps is None else {"steps": steps, "stop": steps // 2}
        return ecg.tasks(protocol, seeds, ecg.FIXED | shorter)
    module = airfoil if name == "airfoil" else valley
    found: list[Run] = module.tasks(protocol, seeds, steps or module.FIXED["steps"])
    return found


def _with(task: Run, deviation: str) -> Run:
    """Return the run with a deviation; two kinds of them are runs of the experiment itself."""
    if deviation == "mse_gap":  # another number of the same run
        return task
    changed = task if task.experiment == "valley" else deviate(task, [deviation])
    if deviation == "two_layers":  # which ``paper`` has too
        return changed
    h = {**changed.hyperparameters, "study": task.experiment, "deviations": [deviation]}
    return replace(changed, experiment="audit", hyperparameters=h)


def tables(records: Iterable[Record], steps: int | None = None) -> list[Table]:
    """Return the table of every case with runs among ``records``, of the audit and its studies."""
    held = {record.run.key: record for record in records}
    seeds = sorted({record.run.seed for record in held.values()
                    if record.run.experiment == "audit"})  # fmt: skip
    found = []
    for name, study in STUDIES.items():
        for case in study.cases:
            runs = lines(name, case, seeds, steps)
            kept = {label: [held[task.key] for task in each if task.key in held]
                    for label, each in runs.items()}  # fmt: skip
            if kept[PAPER]:
                found.append(_table(name, case, study, kept))
    return found


def _table(name: str, case: Case, study: Study, kept: Mapping[str, list[Record]]) -> Table:
    title = f"audit, {name}, {case.scheme}"
    headings = ["deviation"]
    body = [[label] for label, records in kept.items() if records]
    for metric, (what, digits) in study.metrics.items():
        headings += [what, "minus paper"]
        paper = by_seed(kept[PAPER], metric)
        for row in body:
            ours = by_seed(kept[row[0]], _shown(metric, row[0]))
            difference = "" if row[0] == PAPER else paired(ours, paper).text(digits)
            row += [summary(ours.values()).text(digits), difference]
    return title, headings, body


def _shown(metric: str, label: str) -> str:
    """Return the metric a line shows in this column."""
    return "released_gap" if metric == "gap" and label in ("mse_gap", TOGETHER) else metric
