"""Rows of texts as tables that sort by their numbers, and the tables that compare schemes.

A table of schemes has a row for each scheme: what the paper prints, and under every setting our
mean and standard deviation and the paired differences to descent and to the Gaussian, each with its
interval and the verdict on the paper's claim that the scheme is better.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mpgd.experiments import statistics
from mpgd.experiments.content.blocks import WORDS, Cell, Column, Findings, Table
from mpgd.experiments.statistics import BySeed, Columns, Direction, by_scheme, by_seed
from mpgd.experiments.store import Record

NUMBER: Final = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
SAME_SEEDS: Final = range(1, 6)  # the paper's five


def cell(text: str, word: str | None = None) -> Cell:
    """Return a cell that is sorted by the number its text begins with.

    Examples:
        >>> cell("1,000 (3)").order
        1000.0
    """
    found = NUMBER.match(text)
    return Cell(text, float(found[0].replace(",", "")) if found else None, word)


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], wordy: bool = False
) -> Table:
    """Return a table of texts."""
    body = tuple(tuple(cell(text) for text in row) for row in rows)
    return Table(caption, tuple(Column(title) for title in columns), body, wordy)


def told(found: Table) -> tuple[str, list[str], list[list[str]]]:
    """Return a table's caption, headings and rows as a terminal shows them."""
    heads = [column.title.replace("− ", "minus ") for column in found.columns]
    return found.caption, heads, [[cell.text for cell in row] for row in found.rows]


@dataclass(frozen=True)
class Setting:
    """The records of one way to run an experiment."""

    title: str  # its name
    records: Sequence[Record]  # of all schemes and seeds
    columns: Columns  # the metric and how it is shown; its ``printed`` is the paper's number
    as_printed: bool = False  # whether the paper's own five seeds get a column


def scheme_table(caption: str, settings: Sequence[Setting], direction: Direction) -> Table:
    """Return the table of all schemes under all settings."""
    known = statistics.schemes_of(record for setting in settings for record in setting.records)
    printed = {name: setting.columns.printed(name) for setting in settings for name in known}
    columns = [
        Column("scheme"),
        *([Column("printed", "the paper")] if any(printed.values()) else ()),
    ]
    rows = {name: [Cell(name), *(cell(printed[name]) for _ in columns[1:])] for name in known}
    for setting in settings:
        values, rival = _values(setting), statistics.rivals(setting.records)
        counts = sorted(map(len, values.values()))
        again = setting.as_printed and counts[-1] > len(SAME_SEEDS)
        own = ["ours", *(["seeds 1–5"] if again else ()), "− descent", "− Gaussian"]
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        group = f"{setting.title}, {seeds} seed{'s' * (counts[-1] > 1)}"
        columns += [Column(title, group) for title in own]
        for name, row in rows.items():
            claimed = direction if known[name].kind == "mpgd" else None
            row += _compared(name, rival.get(name), setting, values, claimed, again)
    return Table(caption, tuple(columns), tuple(map(tuple, rows.values())))


def _values(setting: Setting) -> Mapping[str, BySeed]:
    metric = setting.columns.metric
    return {name: by_seed(each, metric) for name, each in by_scheme(setting.records).items()}


def _compared(
    name: str,
    rival: str | None,
    setting: Setting,
    values: Mapping[str, BySeed],
    direction: Direction | None,
    again: bool,
) -> list[Cell]:
    """Return the cells of a scheme under one setting; ``direction`` is what is claimed of it."""
    if name not in values:
        return [Cell("")] * (4 if again else 3)
    own, digits = values[name], setting.columns.digits
    cells = [cell(statistics.summary(own.values()).text(digits))]
    if again:
        cells.append(cell(statistics.summary(own[s] for s in SAME_SEEDS if s in own).text(digits)))
    for other in ("gd", rival):
        theirs = values.get(other, {}) if other and other != name else {}
        cells.append(_against(own, theirs, direction, digits))
    return cells


def _against(own: BySeed, other: BySeed, direction: Direction | None, digits: int) -> Cell:
    if not set(own) & set(other):
        return Cell("")
    difference = statistics.paired(own, other)
    word = statistics.Verdict("", direction, difference).word if direction else None
    text = difference.text(digits)
    if set(own) != set(other) and difference.count > 1:  # the means are not of the same seeds
        text += f", {difference.count} seeds"
    return Cell(text, difference.mean, word)


def findings_table(found: Findings) -> Table:
    """Return verdicts as a table."""
    columns = tuple(Column(title) for title in ("claim", "verdict", "setting", "evidence"))
    rows = tuple(
        (
            Cell(one.claim),
            Cell("", WORDS.index(one.word), one.word),
            Cell(one.setting),
            Cell(one.reason),
        )
        for one in found.items
    )
    return Table("All verdicts, one by one", columns, rows, wordy=True)
