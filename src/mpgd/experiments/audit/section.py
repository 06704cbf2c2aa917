"""The audit: what each deviation of the authors' scripts does, alone and together."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from mpgd.experiments.audit.deviations import DEVIATIONS
from mpgd.experiments.audit.runs import CORRECTED, TOGETHER, Compared, compared
from mpgd.experiments.content.blocks import Block, Panel, Plate, Table, Text, panel
from mpgd.experiments.content.style import BLUE, GREY, RED
from mpgd.experiments.content.tables import table
from mpgd.experiments.statistics import Difference
from mpgd.experiments.store import Record

PLAIN: Final = {CORRECTED: "none: the corrected protocol", TOGETHER: "the scripts' protocol"}
MEANINGS: Final = DEVIATIONS | PLAIN
NAMES: Final = {"airfoil": "Airfoil", "ecg": "ECG", "valley": "Valley"}
MANY: Final = 6  # rows of a table that is worth a picture


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows; ``records`` are the audit's and those of its studies."""
    found = compared(records)
    panels = tuple(panel for case in found for panel in _panels(case))
    caption = (
        "What each deviation changes against the text's protocol, with 95 % intervals; orange "
        "where the interval leaves out 0."
    )
    return [
        Text(
            "The released scripts do not do what the text says. Starting from the text's protocol, "
            "each deviation is switched on alone, then all together, with the same seeds; "
            "differences to the text's protocol are paired by seed, with 95 % intervals."
        ),
        *([Plate("audit", caption, panels)] if panels else ()),
        *map(_table, found),
    ]


def _table(case: Compared) -> Table:
    _, headings, rows = case.table
    body = [[row[0], MEANINGS.get(row[0], ""), *row[1:]] for row in rows]
    return table(_named(case), [headings[0], "meaning", *headings[1:]], body)


def _named(case: Compared) -> str:
    return f"{NAMES[case.study]}, {case.scheme}"


def _panels(case: Compared) -> Iterator[Panel]:
    if len(case.lines) < MANY:
        return
    for place, (metric, _) in enumerate(case.metrics):
        pairs = {label: line[place][1] for label, line in case.lines.items()}
        differences = {label: found for label, found in pairs.items() if found}
        alt = f"{_named(case)}: change of {metric} by each deviation."
        yield panel(alt, _draw, differences, _named(case), metric, left=0.34)


def _draw(ax: Any, differences: Mapping[str, Difference], title: str, metric: str) -> None:
    """Draw a difference and its interval for each deviation, the first on top."""
    held = {name: each for name, each in differences.items() if isfinite(each.low)}
    for place, each in enumerate(held.values()):
        look = {"color": BLUE if each.low <= 0.0 <= each.high else RED, "elinewidth": 1.2}
        bar = np.array([[each.mean - each.low], [each.high - each.mean]])
        ax.errorbar(each.mean, place, xerr=bar, fmt="o", ms=4, capsize=2, **look)
    ax.axvline(0.0, color=GREY, lw=0.8)
    ax.set_yticks(range(len(held)), [name.replace("_", " ") for name in held])
    ax.locator_params(axis="x", nbins=5)
    ax.set(ylim=(len(held) - 0.5, -0.5), xlabel=f"change of {metric}")
    ax.set_title(title, fontsize=8.5)
