"""The plan of `mpgd reproduce`: runs to train, estimated times, options without effect."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mpgd.noise.engines import has_numba
from mpgd_lab.experiment import Experiment
from mpgd_lab.runner import Context, SilentReporter, runs_of
from mpgd_lab.store import Run


@dataclass(frozen=True)
class PlannedStudy:
    """The runs that a study still has to train."""

    name: str
    runs: int  # that the store lacks
    seconds: float  # estimated, on all workers


def plan_studies(studies: Sequence[Experiment], context: Context) -> list[PlannedStudy]:
    """Return the runs and the estimated time of each study; times were measured on our cores."""
    places = 1 if context.cluster else context.workers
    planned = []
    for study in studies:
        runs = runs_by_key(study, context)
        missing = sum(not context.store.has(run) for run in runs.values())
        planned.append(PlannedStudy(study.name, missing, missing * study.seconds / places))
    return planned


def runs_by_key(study: Experiment, context: Context) -> dict[str, Run]:
    """Return the runs of a study by their keys, as two lines may share one, and say nothing."""
    return {run.key: run for run in runs_of(study, replace(context, reporter=SilentReporter()))}


def must_compile() -> bool:
    """Return whether numba is installed and has no compiled kernel of this version cached."""
    if not has_numba():
        return False
    from mpgd.noise.engines.compiled import is_kept
    from mpgd.noise.engines.fused import advance_copy, advance_sums, advance_tensors, advance_values

    return not any(map(is_kept, (advance_tensors, advance_values, advance_copy, advance_sums)))


def check_options(studies: Sequence[Experiment], context: Context) -> None:
    """Refuse an option without effect on any study, and name the studies it does not affect."""
    usual = Context(Path())
    for option, name in (
        ("protocol", "protocols"),
        ("seeds", "seeds"),
        ("device", "device"),
        ("size", "size"),
    ):
        if getattr(context, name) == getattr(usual, name):
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
