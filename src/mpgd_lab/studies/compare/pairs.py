"""Pairs of methods that the hypotheses of the second round name, paired by seed.

A verdict on a method compares it with its base. The hypotheses compare noises with each other:
persistent ones with white ones, and telegraph noise with MPGD. p-values are those of the verdicts,
Holm's correction is made within a task and a table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mpgd_lab.content import colors
from mpgd_lab.content.blocks import Plate, Table, panel
from mpgd_lab.content.tables import table
from mpgd_lab.studies.compare.comparison_verdicts import LEVEL, Line, difference
from mpgd_lab.studies.compare.methods import BY_NAME
from mpgd_lab.studies.compare.tasks import Task
from mpgd_lab.verdicts import Difference, holm, interval

Names = tuple[str, str]

PERSISTENT: Final = ("telegraph", "coloured", "mpgd", "mpgd capped", "mpgd smooth")
WHITE: Final = {True: ("gaussian", "annealed"), False: ("matched",)}  # on functions, on data
PLACED: Final = (  # where noise is multiplied, and on mini-batches
    *(
        (name, "gaussian multiplicative")
        for name in ("telegraph multiplicative", "mpgd multiplicative")
    ),
    *((name, "gaussian sgd") for name in ("telegraph sgd", "mpgd sgd")),
)
TELEGRAPH: Final = (
    *(("telegraph", name) for name in ("mpgd", "mpgd capped", "mpgd smooth")),
    ("mpgd smooth", "mpgd"),
    ("telegraph multiplicative", "mpgd multiplicative"),
    ("telegraph sgd", "mpgd sgd"),
)
HEADS: Final = ("task", "method", "against", "change", "Holm p", "")
SHOWN: Final = {  # noises of the figure, and the names of their colours
    "telegraph": "red",
    "mpgd smooth": "indigo",
    "mpgd": "blue",
    "coloured": "sky",
    "gaussian": "orange",
}
SIDES: Final = {  # of a panel: its tasks from left to right, and what they are called
    "Two wells": {"sharp well": "the steeper one", "wide well": "the wider one"},
    "Eight wells": {"rugged tied": "the steepest", "rugged independent": "any of them"},
}


@dataclass(frozen=True)
class Pair:
    """Two methods on a task."""

    task: Task
    names: Names
    change: Difference  # of the first from the second
    p: float  # corrected, in the end

    @property
    def word(self) -> str:
        """Better, worse, or empty without a significant difference."""
        if self.p >= LEVEL:
            return ""
        return "better" if (self.change.mean > 0) == (self.task.better == "higher") else "worse"


def white_pairs(task: Task) -> list[Names]:
    """Return which persistent noise is compared with which white one."""
    return [(name, rival) for rival in WHITE[task.is_function] for name in PERSISTENT] + [*PLACED]


def pairs(own: Sequence[Line], names: Sequence[Names]) -> list[Pair]:
    """Return the pairs of which both methods have lines, corrected together."""
    lines = {line.method.name: line for line in own}
    found = []
    for first, second in names:
        if {first, second} <= lines.keys():
            change, p = difference(lines[first], lines[second])
            found.append(Pair(own[0].task, (first, second), change, p))
    corrected = holm([pair.p for pair in found])
    return [replace(pair, p=p) for pair, p in zip(found, corrected, strict=True)]


def pair_tables(by_task: Mapping[str, Sequence[Line]]) -> Iterator[Table]:
    """Yield the tables of both kinds of pairs."""
    white = [pair for own in by_task.values() for pair in pairs(own, white_pairs(own[0].task))]
    telegraph = [pair for own in by_task.values() for pair in pairs(own, TELEGRAPH)]
    for title, found in (
        ("Persistent noise against white noise, paired by seed", white),
        (
            "Telegraph noise against MPGD, and MPGD with and without bursts, paired by seed",
            telegraph,
        ),
    ):
        if found:
            yield table(title, HEADS, [_row(pair) for pair in found])


def _row(pair: Pair) -> list[str]:
    first, second = (BY_NAME[name].title for name in pair.names)
    change = pair.change.text(pair.task.digits)
    return [pair.task.title, first, second, change, f"{pair.p:.4f}", pair.word]


def wells_plate(by_task: Mapping[str, Sequence[Line]]) -> list[Plate]:
    """Return the success of five noises where the best well is the steeper one, and where not."""
    sides = {name: tasks for name, tasks in SIDES.items() if tasks.keys() <= by_task.keys()}
    if not sides:
        return []
    caption = (
        "Success of tuned noises where the best well is the steepest one, and where it is not, "
        "with 95 % intervals. Persistent noises fall from left to right, the Gaussian rises."
    )
    panels = [
        panel(
            f"{name}: success of noises, where the best well is {' and '.join(tasks.values())}.",
            draw_wells,
            name,
            tasks,
            by_task,
        )
        for name, tasks in sides.items()
    ]
    return [Plate("persistence", caption, tuple(panels), legend=True)]


def draw_wells(
    ax: Any, title: str, tasks: Mapping[str, str], by_task: Mapping[str, Sequence[Line]]
) -> None:
    """Draw a line for each noise from one task to the other."""
    lines = {(task, line.method.name): line for task in tasks for line in by_task[task]}
    for place, (name, shade) in enumerate(SHOWN.items()):
        if not all((task, name) in lines for task in tasks):
            continue
        scores = [interval(lines[task, name].values) for task in tasks]
        x = [k + 0.03 * (place - 2) for k in range(len(tasks))]
        means = [score.mean for score in scores]
        errors = [score.high - score.mean for score in scores]
        look: Any = {"marker": "o", "ms": 4, "lw": 1.6, "capsize": 2}
        color = colors.PALETTE[shade][0]
        ax.errorbar(x, means, errors, color=color, label=BY_NAME[name].title, **look)
    ax.set_xticks(range(len(tasks)), tasks.values())
    ax.set(xlim=(-0.3, len(tasks) - 0.7), ylim=(0, None), xlabel="the best well is")
    ax.set(ylabel="success, %", title=title)
