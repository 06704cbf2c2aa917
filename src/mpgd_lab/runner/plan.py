"""The plan of `mpgd reproduce`: runs to train, estimated times, options without effect."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mpgd_lab.experiment import Experiment
from mpgd_lab.runner import Context, SilentReporter, runs_of
from mpgd_lab.store import Run


@dataclass(frozen=True)
class PlannedStudy:
    """The runs that a study still has to train."""

    name: str
    runs: int  # that the store lacks
    seconds: float  # estimated, on all workers


def plan_study(study: Experiment, runs: Iterable[Run], context: Context) -> PlannedStudy:
    """Return how many of the runs the store lacks, and their time, as measured on our cores."""
    places = 1 if context.cluster else context.workers
    each = {run.key: run for run in runs}.values()
    missing = [run for run in each if not context.store.has(run)]
    return PlannedStudy(study.name, len(missing), study.total_seconds(missing) / places)


def runs_by_key(study: Experiment, context: Context) -> dict[str, Run]:
    """Return the runs of a study by their keys, as two lines may share one, and say nothing."""
    return {run.key: run for run in runs_of(study, replace(context, reporter=SilentReporter()))}


def check_options(
    studies: Sequence[Experiment], context: Context, ignored: Container[str] = ()
) -> None:
    """Refuse an option without effect on any study, and name the studies it does not affect."""
    usual = Context(Path())
    for option, name in (
        ("protocol", "protocols"),
        ("seeds", "seeds"),
        ("device", "device"),
        ("size", "size"),
    ):
        if name in ignored or getattr(context, name) == getattr(usual, name):
            continue
        plain = replace(context, **{name: getattr(usual, name)})
        idle = [study.name for study in studies if not has_effect(study, option, context, plain)]
        if len(idle) == len(studies):
            raise ValueError(f"--{option} has no effect on {', '.join(idle)}; leave it out")
        if idle:
            context.reporter.say(f"--{option} has no effect on: {', '.join(idle)}")


def has_effect(study: Experiment, option: str, context: Context, plain: Context) -> bool:
    """Return whether an option changes the runs of a study."""
    if option == "device":
        return context.device in study.devices
    if option == "size":
        return study.sized
    return runs_by_key(study, context).keys() != runs_by_key(study, plain).keys()
