"""The audit: what each deviation of the authors' scripts does, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mpgd.experiments.audit import PAPER, TOGETHER, tables
from mpgd.experiments.deviations import DEVIATIONS
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Missing, Text
from mpgd.report.tables import table

TITLE: Final = "The audit"
MEANINGS: Final = DEVIATIONS | {
    PAPER: "the text's protocol",
    TOGETHER: "the scripts' protocol",
}


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows; ``records`` are the audit's and those of its studies."""
    found = tables(records)
    if not found:
        return [Missing("Not in this store.", "mpgd reproduce audit --data DIR")]
    return [
        Text(
            "The released scripts do not do what the text says. Starting from the text's protocol, "
            "each deviation is switched on alone, then all together, with the same seeds; "
            "differences to the text's protocol are paired by seed, with 95 % intervals."
        ),
        *(table(title.removeprefix("audit, ").capitalize(), [headings[0], "meaning", *headings[1:]],
                [[row[0], MEANINGS.get(row[0], ""), *row[1:]] for row in rows])
          for title, headings, rows in found),
    ]  # fmt: skip
