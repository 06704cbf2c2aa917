"""The picture at the top: the paper's numbers against ours, for every table that prints some.

A row is the mean over the printed rows of one table and variant: how much better MPGD is than its
rival, in per cent of the rival's test error or accuracy; a gap, which may be near 0, too. To the
right of 0 MPGD is better. Three dots a row: as printed, ours to the letter, ours as the authors'
scripts ran.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any, Final

import numpy as np

from mpgd_lab import verdicts
from mpgd_lab.content.blocks import RECORD_ERRORS, Plate, panel
from mpgd_lab.content.style import BLUE, GRID, ORANGE
from mpgd_lab.content.tables import RIVALS, Comparison, cell
from mpgd_lab.schemes import VARIANTS
from mpgd_lab.store import Record
from mpgd_lab.verdicts import Measure, by_scheme, by_seed

Pair = tuple[Measure, Measure]  # a measure, and the first of its table, whose value is the scale

BLACK: Final = "#000000"
KINDS: Final = {  # of dots: label, colour, marker
    "printed": ("printed", BLACK, "D"),
    "text": ("ours, to the letter", BLUE, "o"),
    "released": ("ours, as the authors' scripts ran", ORANGE, "s"),
}
LINEAR: Final = 1.0  # per cent; beyond, the axis is logarithmic
CAPTION: Final = (
    "How much better MPGD is than its rival, in per cent of the rival's test error or accuracy, a "
    "mean over the rows of a table. The paper prints means of 5 seeds; ours are medians over "
    "seeds, since single runs move the means of heavy-tailed ones. To the right of 0 MPGD is "
    "better. A dot is no verdict: those are below. ECG: nets with two hidden layers. Without "
    "CIFAR-10, which was not run in full."
)


@dataclass(frozen=True)
class TableSpec:
    """A table of the paper."""

    title: str
    comparison: Comparison
    groups: Mapping[str, str]  # protocol: title of its group of records


@dataclass(frozen=True)
class Row:
    """A row of the picture: per cent by which MPGD is better, by kind of dot."""

    label: str
    values: Mapping[str, float]


def overview(tables: Sequence[TableSpec], records: Mapping[str, Sequence[Record]]) -> Plate | None:
    """Return the picture, or nothing without records of a table that it can be drawn from."""
    rows = []
    for table in tables:
        with suppress(*RECORD_ERRORS):  # the section of the table says what is wrong
            rows += list(rows_of(table, records.get(table.title, ())))
    if not rows:
        return None
    alt = "; ".join(f"{row.label}: {_spoken(row.values)}" for row in rows)
    drawn = panel(alt, draw, rows, left=0.57)
    return Plate("overview", CAPTION, (drawn,), legend=True, size=(4.4, 0.8 + 0.2 * len(rows)))


def _spoken(values: Mapping[str, float]) -> str:
    return ", ".join(f"{KINDS[kind][0]} {value:+.1f} %" for kind, value in values.items())


def rows_of(table: TableSpec, records: Sequence[Record]) -> Iterator[Row]:
    """Yield a row for each measure, variant and rival of a table."""
    groups = table.comparison.groups(records)
    own = {kind: groups[title] for kind, title in table.groups.items() if title in groups}
    if not own:
        return
    names = [measure.noun for measure in table.comparison.measures("text")]
    for place, variant, rival in product(range(len(names)), VARIANTS, RIVALS):
        values = {}
        for kind, group in own.items():
            measures = table.comparison.measures(group[0].run.protocol)
            pair = (measures[place], measures[0])
            values["printed"] = _printed(group, pair, variant, rival)
            values[kind] = _ours(group, pair, variant, rival)
        name = names[place].removeprefix("test ")
        ordered = {kind: values[kind] for kind in KINDS if kind in values}
        yield Row(f"{table.title} {name}, {variant} vs {rival}", ordered)


def _gain(measure: Measure, ours: float, theirs: float, scale: float) -> float:
    """Return by how many per cent of ``scale`` MPGD is better."""
    sign = -1.0 if measure.better == "lower" else 1.0
    return 100.0 * sign * (ours - theirs) / scale


def _mpgd(group: Sequence[Record], measure: Measure, variant: str) -> list[str]:
    schemes = verdicts.schemes_of(group).items()
    ours = [name for name, one in schemes if one.kind == "mpgd" and one.variant == variant]
    return [name for name in ours if measure.printed(name)]


def _printed(group: Sequence[Record], pair: Pair, variant: str, rival: str) -> float:
    measure, _ = pair
    numbers = [_number(measure.printed(name)) for name in _mpgd(group, measure, variant)]
    theirs, scale = (_number(one.printed(RIVALS[rival])) for one in pair)
    return _gain(measure, fmean(numbers), theirs, scale)


def _number(text: str) -> float:
    order = cell(text).order
    return float("nan") if order is None else order


def _ours(group: Sequence[Record], pair: Pair, variant: str, rival: str) -> float:
    measure, first = pair
    gaussians, names = verdicts.rivals(group), _mpgd(group, measure, variant)
    theirs = [gaussians[name] if rival == "Gaussian" else "gd" for name in names]
    own, other = (_middle(group, measure, part) for part in (names, theirs))
    return _gain(measure, own, other, _middle(group, first, theirs))


def _middle(group: Sequence[Record], measure: Measure, names: Sequence[str]) -> float:
    """Return the mean over schemes of their medians over seeds."""
    schemes = by_scheme(group)
    medians = {
        name: float(np.nanmedian([*by_seed(schemes[name], measure.metric).values()]))
        for name in {*names}
    }
    return fmean(medians[name] for name in names)


def draw(ax: Any, rows: Sequence[Row]) -> None:
    """Draw the rows from top to bottom."""
    places = np.arange(len(rows))[::-1]
    ax.axvline(0.0, color=BLACK, lw=0.6)
    for kind, (label, color, marker) in KINDS.items():
        shown = [
            (row.values[kind], place)
            for row, place in zip(rows, places, strict=True)
            if kind in row.values
        ]
        if shown:
            ax.plot(*zip(*shown, strict=True), marker, ms=5, color=color, label=label, ls="none")
    ax.set_xscale("symlog", linthresh=LINEAR)
    ticks = [-100, -1, 0, 1, 100]
    ax.set_xticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])
    ax.set_yticks(places, [row.label for row in rows])
    ax.grid(axis="y", color=GRID, lw=0.6)
    ax.set_xlabel("MPGD is better by, %")
