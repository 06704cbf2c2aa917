"""The audit: what each deviation of the authors' scripts does, alone and together."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from mpgd.experiments.audit.compared import BASE, Compared, Line, compared
from mpgd.experiments.audit.deviations import DEVIATIONS
from mpgd.experiments.audit.runs import CORRECTED, TOGETHER
from mpgd.experiments.content.blocks import (
    Block,
    Cell,
    Column,
    Panel,
    Plate,
    Table,
    Text,
    panel,
)
from mpgd.experiments.content.style import BLUE, GREY, RED
from mpgd.experiments.content.tables import cell
from mpgd.experiments.statistics import RULE, Difference
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
        "What each deviation changes against its base, with 95 % intervals; orange where the "
        "interval leaves out 0."
    )
    return [
        Text(
            "The released scripts do not do what the text says. Starting from the corrected "
            "protocol, each deviation is switched on alone, then all together, with the same "
            "seeds. A line of MPGD stands beside its base (`control` for deviations of the noise, "
            "which the same code draws, else `corrected`) and beside descent and the Gaussian "
            "under the same deviation, or themselves where it does not concern them. Differences "
            "are paired by seed, with 95 % intervals. A verdict is on being better than that "
            "rival. A deviation alone makes a gain if it is better than all three."
        ),
        Text(RULE),
        *(Text(line, answer=True) for line in map(_gains, found) if line),
        *([Plate("audit", caption, panels)] if panels else ()),
        *map(_table, found),
    ]


def _gains(case: Compared) -> str:
    """Return in words which deviations alone make a gain, for every metric of MPGD."""
    if case.case.scheme.kind != "mpgd":
        return ""
    said = []
    for place, line in enumerate(case.lines[CORRECTED]):
        alone = [label for label in case.lines if label not in (*PLAIN, "control")]
        makers = [label for label in alone if case.lines[label][place].is_gain]
        named = ", ".join(makers) or f"none of {len(alone)}"
        said.append(f"in {line.columns.title} {named}")
    return f"{_named(case)}. Deviations that make a gain alone: {'; '.join(said)}."


def _table(case: Compared) -> Table:
    metrics = [line.columns.title for line in case.lines[CORRECTED]]
    own = ("ours", *(f"− {rival}" for rival in case.rivals))
    columns = [Column("deviation"), Column("meaning")]
    columns += [Column(title, metric) for metric in metrics for title in own]
    rows = (
        (Cell(label), Cell(MEANINGS[label]), *(c for line in each for c in _cells(case, line)))
        for label, each in case.lines.items()
    )
    return Table(_named(case), tuple(columns), tuple(rows))


def _cells(case: Compared, line: Line) -> Iterator[Cell]:
    yield cell(case.own(line))
    for rival, text in zip(case.rivals, case.differences(line), strict=True):
        judged = line.verdicts.get(rival)
        yield cell(text, judged.shown if judged else None)


def _named(case: Compared) -> str:
    return f"{NAMES[case.study]}, {case.case.scheme}"


def _panels(case: Compared) -> Iterator[Panel]:
    if len(case.lines) < MANY:
        return
    for place, line in enumerate(case.lines[CORRECTED]):
        pairs = {label: each[place].difference(BASE) for label, each in case.lines.items()}
        differences = {label: found for label, found in pairs.items() if found}
        metric = line.columns.title
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
