"""The cases of the audit: rows of the experiments' tables, and the deviations tried on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from mpgd_lab.experiment import Experiment
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.runner import Context
from mpgd_lab.schema import Needs
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Run
from mpgd_lab.studies import airfoil, ecg, valley
from mpgd_lab.studies.airfoil.runs import is_random
from mpgd_lab.studies.airfoil.runs import tasks as airfoil_tasks
from mpgd_lab.studies.audit.deviations import OF_A_GAUSSIAN, deviate
from mpgd_lab.studies.ecg.runs import FIXED, PRIMARY
from mpgd_lab.studies.ecg.runs import tasks as ecg_tasks
from mpgd_lab.studies.valley import switches
from mpgd_lab.studies.valley.runs import tasks as valley_tasks
from mpgd_lab.verdicts import Measure

Tasks = Callable[[str, Sequence[int], int | None], list[Run]]  # of protocol, seeds and steps

CORRECTED, TOGETHER = "corrected", "all together"  # the first and the last row of a table
SYMMETRIC: Final = ("control", *SWITCHES)
PLAIN: Final = tuple(name for name in SYMMETRIC if name != "same_delta")
MEASURED: Final = ("early_metrics", "mse_gap")
SCRIPTS_GAUSSIAN: Final = ("bare_gaussian", "shared_rows")
WIDTHS: Final = {"ecg": PRIMARY}  # of the net that is audited, where there are several

GD: Final = Scheme()
GAUSSIAN: Final = Scheme("matched", False, 0.6)
MPGD: Final = Scheme("chaotic", False, 0.6, 0.5)


@dataclass(frozen=True)
class Case:
    """A row of an experiment's tables, and the deviations tried on it one by one."""

    scheme: Scheme
    alone: tuple[str, ...]

    def holds(self, task: Run) -> bool:
        """Return whether a run belongs to this row; ``released`` has one Gaussian only."""
        if task.protocol == "released" and self.scheme.kind == "gaussian":
            return Scheme.of(task).kind == "gaussian"
        widths = task.hyperparameters.get("widths")
        own = WIDTHS.get(task.experiment, widths)
        return task.scheme == str(self.scheme) and widths == own and not is_random(task)


@dataclass(frozen=True)
class Study:
    """An experiment that is audited; without steps its ``tasks`` have the paper's."""

    experiment: Experiment  # what it is
    tasks: Tasks
    metrics: tuple[Measure, ...]  # what is shown
    cases: tuple[Case, ...]  # the rows


def _of(tasks: Callable[..., list[Run]], size: Callable[[int], Any] = int) -> Tasks:
    return lambda protocol, seeds, steps: tasks(protocol, seeds, *([size(steps)] if steps else []))


STUDIES: Final = {
    "airfoil": Study(
        airfoil.EXPERIMENT,
        _of(airfoil_tasks),
        (Measure("test_rmse", "test RMSE", 4), Measure("gap", "RMSE gap", 4)),
        (
            Case(GD, ("float32", *MEASURED)),
            Case(GAUSSIAN, (*SCRIPTS_GAUSSIAN, *OF_A_GAUSSIAN, "lower_sigma", *MEASURED)),
            Case(replace(GAUSSIAN, symmetric=True), (*OF_A_GAUSSIAN, *MEASURED)),
            Case(MPGD, (*PLAIN, "lower_sigma", *MEASURED)),
            Case(replace(MPGD, symmetric=True), (*SYMMETRIC, *MEASURED)),
        ),
    ),
    "ecg": Study(
        ecg.EXPERIMENT,
        _of(ecg_tasks, lambda steps: FIXED | {"steps": steps, "stop": steps // 2}),
        (Measure("test_accuracy", "test accuracy, %", 2, better="higher"),),
        (
            Case(GD, ("one_layer",)),
            Case(GAUSSIAN, (*SCRIPTS_GAUSSIAN, *OF_A_GAUSSIAN, "one_layer")),
            Case(replace(GAUSSIAN, symmetric=True), (*OF_A_GAUSSIAN, "one_layer")),
            Case(MPGD, (*PLAIN, "one_layer")),
            Case(replace(MPGD, symmetric=True), (*SYMMETRIC, "one_layer")),
        ),
    ),
    "valley": Study(
        valley.EXPERIMENT,
        _of(valley_tasks),
        (Measure("trace", "final trace of the Hessian", 1),),
        (
            Case(GD, ("scalar_u",)),
            Case(replace(GAUSSIAN, gamma=0.7), switches.GAUSSIAN + switches.MOTION),
            Case(replace(MPGD, gamma=0.7), ("control", *switches.ORBITS, *switches.MOTION)),
        ),
    ),
}


def select_runs(context: Context, steps: int | None = None) -> list[Run]:
    """Return the runs of the studies whose data is found; the others are named."""
    runs = []
    for name, study in STUDIES.items():
        if reason := study.experiment.reason_to_skip(context.data):
            context.reporter.say(f"audit: {reason}")
        else:
            runs += tasks(name, range(1, context.seeds + 1), steps)
    return runs


def all_tasks(protocol: str, seeds: Sequence[int], steps: int | None = None) -> list[Run]:
    """Return the runs of all studies; each has two protocols, whichever is asked for."""
    return [run for name in STUDIES for run in tasks(name, seeds, steps)]


def tasks(name: str, seeds: Sequence[int], steps: int | None = None) -> list[Run]:
    """Return all runs of a study; those with a deviation are ``audit``'s, the rest its own."""
    cases = [lines(name, case, seeds, steps).values() for case in STUDIES[name].cases]
    return [task for each in cases for line in each for task in line]


def study_of(run: Run) -> str:
    """Return the study a run belongs to."""
    return str(run.hyperparameters["study"]) if run.experiment == "audit" else run.experiment


def needs(run: Run) -> Needs:
    """Return what the record of a run must hold: the metrics its study asks for."""
    if run.hyperparameters.get("study") not in STUDIES:
        return Needs(choices={"study": tuple(STUDIES)})
    return Needs(STUDIES[study_of(run)].experiment.needs(run).metrics)


def lines(
    name: str, case: Case, seeds: Sequence[int], steps: int | None = None
) -> dict[str, list[Run]]:
    """Return the runs of every line of a case's table; ``steps`` shortens them, for a test."""
    first, last = (
        [task for task in _tasks(name, protocol, tuple(seeds), steps) if case.holds(task)]
        for protocol in ("corrected", "released")
    )
    alone = {name: [_with(each, name) for each in first] for name in case.alone}
    if "float32" in alone:  # which the scripts' descent is, apart from how its gap is defined
        alone["float32"] = last
    return {CORRECTED: first, **alone, TOGETHER: last}


@lru_cache(maxsize=8)  # all cases of a study ask for the same
def _tasks(name: str, protocol: str, seeds: tuple[int, ...], steps: int | None) -> list[Run]:
    return STUDIES[name].tasks(protocol, seeds, steps)


def _with(task: Run, deviation: str) -> Run:
    """Return the run with a deviation; two kinds of them are runs of the experiment itself."""
    if deviation == "mse_gap":  # another number of the same run
        return task
    changed = task if task.experiment == "valley" else deviate(task, [deviation])
    if deviation == "one_layer":  # which ``corrected`` has too
        return changed
    h = {**changed.hyperparameters, "study": task.experiment, "deviations": [deviation]}
    return replace(changed, experiment="audit", hyperparameters=h)
