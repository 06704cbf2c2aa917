"""The audit: what each deviation of the authors' scripts does, alone and together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from mpgd.experiments.audit import PAPER, TOGETHER, tables
from mpgd.experiments.deviations import DEVIATIONS
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Panel, Plate, Text
from mpgd.report.drawing import BLUE, GREY, RED
from mpgd.report.tables import table

TITLE: Final = "The audit"
MEANINGS: Final = DEVIATIONS | {PAPER: "the text's protocol", TOGETHER: "the scripts' protocol"}
INTERVAL: Final = re.compile(r"([-+][\d.]+) \[([-+][\d.]+), ([-+][\d.]+)\]")
NAMES: Final = {"airfoil": "Airfoil", "ecg": "ECG", "valley": "Valley"}
MANY: Final = 6  # rows of a table that is worth a picture

Rows = Sequence[Sequence[str]]


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows; ``records`` are the audit's and those of its studies."""
    found = tables(records)
    panels = tuple(panel for each in found for panel in _panels(*each))
    picture = [Plate("audit", "What each deviation changes against the text's protocol, with 95 % "
                     "intervals; orange where the interval leaves out 0.", panels)]  # fmt: skip
    return [
        Text(
            "The released scripts do not do what the text says. Starting from the text's protocol, "
            "each deviation is switched on alone, then all together, with the same seeds; "
            "differences to the text's protocol are paired by seed, with 95 % intervals."
        ),
        *(picture if panels else ()),
        *(table(_named(title), [headings[0], "meaning", *headings[1:]],
                [[row[0], MEANINGS.get(row[0], ""), *row[1:]] for row in rows])
          for title, headings, rows in found),
    ]  # fmt: skip


def _named(title: str) -> str:
    study, _, scheme = title.removeprefix("audit, ").partition(", ")
    return f"{NAMES.get(study, study)}, {scheme}"


def _panels(title: str, headings: Sequence[str], rows: Rows) -> Iterator[Panel]:
    if len(rows) < MANY:
        return
    for place in range(2, len(headings), 2):
        metric = headings[place - 1]
        differences = {row[0]: row[place] for row in rows}
        draw = partial(_draw, differences=differences, title=_named(title), metric=metric)
        yield Panel(draw, f"{_named(title)}: change of {metric} by each deviation.", left=0.34)


def _draw(ax: Any, differences: dict[str, str], title: str, metric: str) -> None:
    """Draw a difference and its interval for each deviation, the first on top."""
    held = {name: found for name, text in differences.items() if (found := INTERVAL.match(text))}
    for place, found in enumerate(held.values()):
        mean, low, high = map(float, found.groups())
        color = BLUE if low <= 0.0 <= high else RED
        ax.errorbar(mean, place, xerr=np.array([[mean - low], [high - mean]]), fmt="o", ms=4,
                    color=color, elinewidth=1.2, capsize=2)  # fmt: skip
    ax.axvline(0.0, color=GREY, lw=0.8)
    ax.set_yticks(range(len(held)), [name.replace("_", " ") for name in held])
    ax.locator_params(axis="x", nbins=5)
    ax.set(ylim=(len(held) - 0.5, -0.5), xlabel=f"change of {metric}")
    ax.set_title(title, fontsize=8.5)
