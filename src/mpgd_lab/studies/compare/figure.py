"""All methods on all tasks in one picture: what each changes, and whether that helps or harms."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, Final

from mpgd_lab.content.blocks import Plate, panel
from mpgd_lab.content.style import GREEN, GREY, RED
from mpgd_lab.studies.compare.comparison_verdicts import Line
from mpgd_lab.studies.compare.methods import METHODS
from mpgd_lab.studies.compare.tasks import TASKS

WORDS: Final = {"helps": (GREEN, 0.45), "": (GREY, 0.10), "harms": (RED, 0.55)}
SEEN: Final = {"helps": "helps", "": "no significant difference", "harms": "harms"}
SIZE: Final = (9.2, 6.0)  # inches
LEFT: Final = 0.17
CAPTION: Final = (
    "All methods on all tasks: the change against descent, of MPGD with AdamW and MPGD on "
    "mini-batches against AdamW and mini-batches, in points of success or accuracy, on airfoil of "
    "RMSE, where less is better, with 95 % intervals. Green helps and orange harms after the "
    "correction, grey is neither."
)
ALT: Final = "A table of methods and tasks, coloured by whether a method helps or harms."


@dataclass(frozen=True)
class Mark:
    """What one cell of the picture says."""

    task: str  # titles, as in the tables
    method: str
    change: str
    interval: str  # of 95 %
    word: str  # helps, harms, or empty


def mark(line: Line) -> Mark:
    """Return the cell of a line."""
    d, digits = line.to_base, line.task.digits
    change, low, high = (f"{x:+.{digits}f}" for x in (d.mean, d.low, d.high))
    return Mark(line.task.title, line.method.title, change, f"[{low}, {high}]", line.word)


def plate(marks: Sequence[Mark], caption: str = CAPTION) -> Plate:
    """Return the picture of some cells."""
    return Plate("compare", caption, (panel(ALT, draw_marks, marks, left=LEFT),), size=SIZE)


def draw_marks(ax: Any, marks: Sequence[Mark]) -> None:
    """Draw a column for every task and a row for every method, in the order of the tables."""
    columns = _in_order((task.title for task in TASKS), {one.task for one in marks})
    rows = _in_order((method.title for method in METHODS), {one.method for one in marks})
    for one in marks:
        shade, alpha = WORDS[one.word]
        x, y = columns.index(one.task), rows.index(one.method)
        box = (x - 0.48, x + 0.48, x + 0.48, x - 0.48), (y - 0.46, y - 0.46, y + 0.46, y + 0.46)
        ax.fill(*box, color=shade, alpha=alpha, lw=0)
        weight = "bold" if one.word else "normal"  # so that it can be read without colours too
        ax.text(x, y - 0.12, one.change, ha="center", va="center", fontsize=7, weight=weight)
        size = min(4.6, 66 / len(one.interval))  # so that it stays in its box
        ax.text(x, y + 0.27, one.interval, ha="center", va="center", fontsize=size)
    names = [fill(name, 9) for name in columns]
    ax.set_xticks(range(len(columns)), names, fontsize=7)
    ax.set_yticks(range(len(rows)), rows, fontsize=7.5)
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    _explain(ax)


def _in_order(names: Any, wanted: set[str]) -> list[str]:
    return [name for name in names if name in wanted]


def _explain(ax: Any) -> None:
    """Say above the table what its colours stand for."""
    for word, (shade, alpha) in WORDS.items():
        ax.fill([], [], color=shade, alpha=alpha, lw=0, label=SEEN[word])
    look: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "fontsize": 7.5}
    ax.legend(ncols=len(WORDS), handlelength=1.4, borderaxespad=0.3, **look)
