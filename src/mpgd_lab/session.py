"""A session of `mpgd reproduce`: what is checked, what is trained, and what is left out.

published, without --fresh    a sample of its runs is trained again and compared
--seeds N                     the same of all its runs of seeds 1 to N; new ones are added
--fresh, or not published     the study is trained as a whole
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mpgd_lab.catalogue import EXPERIMENTS
from mpgd_lab.data.sources import DataError, Source, download, is_available
from mpgd_lab.experiment import Experiment
from mpgd_lab.runner import Context, print_items, reproduce
from mpgd_lab.runner.plan import PlannedStudy, plan_study, runs_by_key
from mpgd_lab.store import Run
from mpgd_lab.terminal import Terminal, duration, runs_text
from mpgd_lab.verification import (
    Check,
    check_folder,
    published_records,
    sample,
    train_again,
    trainable,
)

LEFT_OUT: Final = ("left out", "because", "size", "command")


@dataclass(frozen=True)
class StudyWork:
    """What a session does for one study."""

    study: Experiment
    again: tuple[Run, ...] = ()  # published runs, to be trained again
    whole: bool = False  # whether the study is trained as a whole
    reason: str = ""  # why nothing of it, or not all, is done

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.again or self.whole)


@dataclass(frozen=True)
class Choice:
    """What the user asked for."""

    named: bool = False  # whether studies were named
    fresh: bool = False  # train without the published records
    seeds: int | None = None  # None: the sample
    protocols: tuple[str, ...] = ()  # none: all


def run_session(
    studies: Sequence[Experiment], context: Context, choice: Choice, terminal: Terminal
) -> tuple[list[Check], dict[str, str]]:
    """Do all that is asked for, a line for each study; return the checks and what is left out."""
    known = [
        one
        for one in studies
        if one.name in published_records() and (choice.named or not one.heavy)
    ]
    if not choice.fresh:
        fetch_data(known, context)
    works = [choose_work(study, context, choice) for study in studies]
    busy = [work for work in works if not work.is_idle]
    idle = [work for work in works if work.is_idle]
    terminal.plan([planned(work, context) for work in busy])
    if idle and not terminal.quiet:
        terminal.table("Not run", LEFT_OUT, left_out_rows(idle, context))
    checks = [_run_study(work, context, terminal) for work in busy]
    return [one for one in checks if one], {work.study.name: work.reason for work in idle}


def _run_study(work: StudyWork, context: Context, terminal: Terminal) -> Check | None:
    """Train what a study asks for and print its line."""
    study, began, check = work.study, time.perf_counter(), None
    terminal.begin(study.name)
    train_again(study, replace(context, verbose=False), work.again)
    if work.whole:
        reproduce(study, context)
    result = f"trained: {study.title}"
    if work.again:
        check = check_folder(context.out, study, context.data)
        result = check.counts
        if context.verbose and not work.whole:
            print_items(context, study.printout([*published_records()[study.name]]))
    terminal.say(f"{study.name:<15} {result} ({time.perf_counter() - began:.0f} s)")
    for text in check.disagreements if check else ():
        terminal.say(f"  disagrees: {text}")
    return check


def choose_work(study: Experiment, context: Context, choice: Choice) -> StudyWork:
    """Return what is to be done for a study."""
    records = () if choice.fresh else published_records().get(study.name, ())
    if not records or study.name not in EXPERIMENTS:
        return _whole(study, context, choice)
    if study.heavy and not choice.named:
        return StudyWork(study, reason="takes long")
    asked = [one for one in records if one.run.protocol in (choice.protocols or [one.run.protocol])]
    if study.sized or choice.seeds is not None:
        wanted = runs_by_key(study, context)
        asked = [one for one in asked if one.run.key in wanted]
    if study.sized and not asked:
        return _whole(study, context, choice)  # nothing of this size is published
    whole = choice.seeds is not None
    runs = [one.run for one in asked] if whole else sample(asked, study.sample)
    there = trainable(study, runs, context.data)
    if not there:
        return StudyWork(study, reason=_missing_data(study, context.data))
    return StudyWork(study, tuple(there), whole)


def _whole(study: Experiment, context: Context, choice: Choice) -> StudyWork:
    if choice.named:
        return StudyWork(study, whole=True)
    if study.on_request:
        return StudyWork(study, reason="takes long")
    missing = _missing_data(study, context.data) if _lacks(study.data, context.data) else ""
    return StudyWork(study, whole=not missing, reason=missing)


def _lacks(sources: Iterable[Source], data: Path | None) -> list[Source]:
    return [source for source in sources if not is_available(source, data)]


def _missing_data(study: Experiment, data: Path | None) -> str:
    names = [one.name for one in _lacks((*study.data, *study.optional_data), data)]
    return f"no data: {', '.join(names)}"


def fetch_data(studies: Sequence[Experiment], context: Context) -> None:
    """Download the data that studies lack; what cannot be had is said once, and nothing fails."""
    sources = {one.name: one for study in studies for one in (*study.data, *study.optional_data)}
    for source in _lacks(sources.values(), context.data):
        try:
            download(source)
        except DataError as problem:
            reason = str(problem).splitlines()[1].strip()
            context.reporter.say(f"{source.name} could not be had: {reason}; see --data")


def planned(work: StudyWork, context: Context) -> PlannedStudy:
    """Return how many runs the store lacks for a study, and how long they take."""
    whole = runs_by_key(work.study, context).values() if work.whole else ()
    return plan_study(work.study, (*work.again, *whole), context)


def left_out_rows(works: Sequence[StudyWork], context: Context) -> list[tuple[str, ...]]:
    """Return the table of what is left out: the study, the reason, its size, its command."""
    rows: list[tuple[str, ...]] = []
    for work in works:
        study = work.study
        runs = runs_by_key(study, context)
        size = f"{runs_text(len(runs))}, {duration(study.total_seconds(runs.values()))} of one core"
        data = " --data DIR" if work.reason.startswith("no data") else ""
        rows.append((study.name, work.reason, size, f"mpgd reproduce {study.name}{data}"))
    return rows
