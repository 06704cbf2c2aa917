"""What the comparison says: a figure of all methods on all tasks, and a table for each task."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from mpgd_lab.content.blocks import Block, Table, Text
from mpgd_lab.content.tables import IncompleteError, table, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.compare.comparison_verdicts import (
    LEVEL,
    Line,
    all_lines,
    ranges,
    reported,
    succeeds,
)
from mpgd_lab.studies.compare.figure import mark, plate
from mpgd_lab.studies.compare.methods import BY_NAME, KINDS
from mpgd_lab.studies.compare.pairs import pair_tables, wells_plate
from mpgd_lab.studies.compare.runs import configuration
from mpgd_lab.studies.compare.tasks import TASKS, Task

HEADS: Final = ("method", "tuned", "score", "against", "change", "Holm p", "", "diverged")
KNOBS: Final = {"weight_decay": "w", "rho": "rho", "batch": "batch"}


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows, of records whose method is known."""
    records = [record for record in records if record.run.scheme in BY_NAME]
    by_task = all_lines(records)
    if not by_task:
        raise IncompleteError("no task has fresh seeds of descent")
    marks = [mark(line) for own in by_task.values() for line in own[1:]]
    return [
        Text(_successes(by_task), answer=True),
        plate(marks),
        Text(
            "Every method has the same number of configurations on a task. The best on validation "
            "rows is run with 20 fresh seeds, 80 on the rugged landscapes, and measured on test "
            "rows that nothing else saw. "
            f"p-values are corrected by Holm's method within a task; below {LEVEL} a method helps "
            "or harms."
        ),
        *wells_plate(by_task),
        *pair_tables(by_task),
        *(task_table(own) for own in by_task.values()),
        *range_tables(records),
        *pruning_table(records),
    ]


def _successes(result: dict[str, list[Line]]) -> str:
    parts = []
    for kind in KINDS:
        by_method = {own[0].task.title: succeeds(own, kind) for own in result.values()}
        successes = [
            f"{title} ({', '.join(map(_in_text, names))})"
            for title, names in by_method.items()
            if names
        ]
        parts.append(f"{kind.capitalize()} noise: {'; '.join(successes) or 'nowhere'}.")
    return f"Where a noise helps and no method of another kind is surely better. {' '.join(parts)}"


def _in_text(title: str) -> str:
    """Return a method's title without its comma, as in "capped MPGD"."""
    return " ".join(reversed(title.split(", ")))


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the tables, and where which kind of noise helps."""
    by_task = all_lines(records)
    for own in by_task.values():
        yield terminal_table(task_table(own))
    for one in (*pair_tables(by_task), *range_tables(records), *pruning_table(records)):
        yield terminal_table(one)
    yield _successes(by_task)


def task_table(own: Sequence[Line]) -> Table:
    """Return the table of all methods on a task."""
    task = own[0].task
    seeds = len(own[0].records)
    title = f"{task.title}: {task.score}, {task.better} is better, {seeds} fresh seeds"
    return table(title, HEADS, [_row(line) for line in own])


def _row(line: Line) -> list[str]:
    digits, method = line.task.digits, line.method
    first = [method.title, setting(line.records[0].run), line.score.text(digits)]
    if method.base is None:
        return [*first, "", "", "", "", str(line.diverged)]
    base = BY_NAME[method.base].title
    compared = [base, line.to_base.text(digits), f"{line.p_holm:.4f}", line.word]
    return [*first, *compared, str(line.diverged)]


def setting(run: Run) -> str:
    """Return the tuned values of a run in words."""
    h = configuration(run)
    parts = [f"lr {h['lr']:.3g}"]
    parts += [f"{title} {h[name]:g}" for name, title in KNOBS.items() if name in h]
    if "level" in h:
        parts.append(f"{'F' if h['place'] == 'additive' else 'M'} {h['level']:g}")
    return ", ".join(parts)


def range_tables(records: Sequence[Record]) -> list[Table]:
    """Return on which functions which levels of noise work."""
    heads = ("function", "method", "width, decades", "lowest that works", "best", "success there")
    rows = []
    for task in (task for task in TASKS if task.is_function):
        try:
            by_name = ranges(records, task)
        except IncompleteError:
            continue
        for name, one in by_name.items():
            lowest = "" if one.lowest is None else f"{one.lowest:g}"
            title = BY_NAME[name].title
            last = [f"{one.best:g}", f"{one.success:.0f} %"]
            rows.append([task.title, title, f"{one.width:.2f}", lowest, *last])
    title = "Levels that work on the functions, from the tuning seeds"
    return [table(title, heads, rows)] if rows else []


def pruning_table(records: Sequence[Record]) -> list[Table]:
    """Return the accuracy at every share of neurons that is kept."""
    task: Task = next(task for task in TASKS if task.kind == "pruning")
    by_method = reported(records, task)
    if not by_method:
        return []
    shares = next(iter(by_method.values()))[0].curves["share"]
    rows = []
    for name, own in by_method.items():
        means = np.mean([record.curves["accuracy"] for record in own], axis=0)
        rows.append([BY_NAME[name].title, *(f"{mean:.1f}" for mean in means)])
    heads = ("method", *(f"{100 * share:g} % kept" for share in shares))
    return [table("Pruning: accuracy in per cent against the share of neurons kept", heads, rows)]
