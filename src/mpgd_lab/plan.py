"""What `mpgd reproduce` is about to do: runs the store lacks, how long they take, idle options."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mpgd.noise.engines import has_numba
from mpgd_lab.experiment import Experiment
from mpgd_lab.runner import Context, runs_of


@dataclass(frozen=True)
class PlannedStudy:
    """What one study still has to train."""

    name: str
    runs: int  # that the store lacks
    seconds: float  # about, on all workers


def plan_studies(studies: Sequence[Experiment], context: Context) -> list[PlannedStudy]:
    """Return what each study has to train; times are those of the cores they were measured on."""
    places = 1 if context.cluster else context.workers
    planned = []
    for study in studies:
        runs = {run.key: run for run in runs_of(study, context)}  # two lines may share a run
        missing = sum(not context.store.has(run) for run in runs.values())
        planned.append(PlannedStudy(study.name, missing, missing * study.seconds / places))
    return planned


def must_compile() -> bool:
    """Return whether numba is there and has compiled nothing of this version yet."""
    if not has_numba():
        return False
    from mpgd.noise.engines.compiled import is_kept
    from mpgd.noise.engines.fused import advance_copy, advance_sums, advance_tensors, advance_values

    return not any(map(is_kept, (advance_tensors, advance_values, advance_copy, advance_sums)))


def check_options(studies: Sequence[Experiment], context: Context) -> None:
    """Refuse an option that no chosen study heeds, and say which of them do not heed it."""
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
    """Return whether a study runs otherwise in one context than in another."""
    if option == "device":
        return context.device in study.devices
    if option == "size":
        return study.sized
    keys = [{run.key for run in runs_of(study, each)} for each in (context, plain)]
    return keys[0] != keys[1]
