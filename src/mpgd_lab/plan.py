"""What `mpgd reproduce` is about to do: runs the store lacks, how long they take, idle options."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mpgd_lab.experiment import Experiment
from mpgd_lab.runner import Context, runs_of


@dataclass(frozen=True)
class Due:
    """What one study still has to train."""

    name: str
    runs: int  # that the store lacks
    seconds: float  # about, on all workers


def announce(studies: Sequence[Experiment], context: Context) -> list[Due]:
    """Return what each study has to train; times are those of the cores they were measured on."""
    places = 1 if context.cluster else context.workers
    found = []
    for study in studies:
        runs = {run.key: run for run in runs_of(study, context)}  # two lines may share a run
        missing = sum(not context.store.has(run) for run in runs.values())
        found.append(Due(study.name, missing, missing * study.seconds / places))
    return found


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
        idle = [study.name for study in studies if not heeds(study, option, context, plain)]
        if len(idle) == len(studies):
            raise ValueError(f"--{option} has no effect on {', '.join(idle)}; leave it out")
        if idle:
            context.reporter.say(f"--{option} has no effect on: {', '.join(idle)}")


def heeds(study: Experiment, option: str, context: Context, plain: Context) -> bool:
    """Return whether a study runs otherwise in one context than in another."""
    if option == "device":
        return context.device in study.devices
    if option == "size":
        return study.sized
    keys = [{run.key for run in runs_of(study, each)} for each in (context, plain)]
    return keys[0] != keys[1]
