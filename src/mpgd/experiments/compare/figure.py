"""All methods on one task: the difference to descent, with its interval."""

from collections.abc import Sequence
from typing import Any, Final

from mpgd.experiments.compare.verdicts import Line
from mpgd.experiments.content.style import BLUE, GREY, ORANGE

LOOK: Final[Any] = {"fmt": "o", "ms": 3.5, "elinewidth": 1.2, "capsize": 2}
KINDS: Final = {"MPGD": BLUE, "other noise": ORANGE, "no noise": GREY}


def kind(line: Line) -> str:
    """Return what a colour stands for."""
    if line.method.is_chaotic:
        return "MPGD"
    return "no noise" if line.method.noise == "none" else "other noise"


def draw_task(ax: Any, lines: Sequence[Line]) -> None:
    """Draw an interval for every method; filled marks are those that help or harm."""
    own = lines[1:]
    for place, line in enumerate(reversed(own)):
        d, shade = line.to_descent, KINDS[kind(line)]
        error = [[d.mean - d.low], [d.high - d.mean]]
        full = {"mfc": shade if line.word else "white", "color": shade, "label": kind(line)}
        ax.errorbar([d.mean], [place], xerr=error, **LOOK, **full)
    ax.axvline(0.0, color=GREY, lw=0.8, ls=":")
    task = lines[0].task
    good = "left" if task.better == "lower" else "right"
    ax.set(title=task.title, xlabel=f"{task.score}, minus descent;\n{good} is better")
    ax.set_yticks(range(len(own)), [line.method.title for line in reversed(own)], fontsize=6.5)
