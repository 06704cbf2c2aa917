"""The remarks on step sizes and levels: verdicts, a figure, tables."""

from collections.abc import Iterator, Sequence
from typing import Final

from mpgd_lab import verdicts
from mpgd_lab.catalogue import PROTOCOLS as NAMES
from mpgd_lab.content.blocks import (
    Block,
    Finding,
    Findings,
    Missing,
    Panel,
    Plate,
    Table,
    Text,
    panel,
)
from mpgd_lab.content.findings import PROTOCOLS, command
from mpgd_lab.content.selection import most_common, records_of
from mpgd_lab.content.tables import IncompleteError, table, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.steps.figure import draw_levels, draw_steps
from mpgd_lab.studies.steps.runs import LOWER, STEPS, STUDIES, TIME, sizes, tasks
from mpgd_lab.studies.steps.step_verdicts import Row, all_sweeps, gathered, lowered

SMALL: Final = "Section 5: MPGD is better than descent at small steps"
LARGE: Final = "Section 5: MPGD and descent are alike at large steps"
WORSE: Final = "Appendix F.1: lower levels lower the accuracy on ECG5000"
STILL: Final = "Appendix F.1: MPGD stays above descent and Gaussian noise at lower levels"
RULE: Final = (
    f"{verdicts.RULE} Small steps are those below the paper's own (airfoil 0.1, ECG5000 0.05), "
    "large ones those above. A test can show that two schemes differ, never that they are alike: "
    "that claim is contradicted or undecided. The paper prints no numbers of these remarks: none "
    "of it is counted in the answer."
)
STEP_HEADS: Final = ("protocol", "step size", "MPGD", "descent", "minus descent", "median", "word")
LEVEL_HEADS: Final = ("protocol", "level", "MPGD", "rival", "its score", "minus rival", "word")
LINEAR: Final = {"airfoil": 0.01}  # where the axis of differences stops being linear, if it does


class Rows:
    """Every comparison that the records allow."""

    def __init__(self, records: Sequence[Record]) -> None:
        own = most_common(records, "shorter")
        shorter = own[0].run.hyperparameters.get("shorter", 1) if own else 1
        seeds = sorted({record.run.seed for record in own})
        ours = {run.key: run for name in NAMES for run in tasks(name, seeds, shorter)}
        held = gathered(records_of(own, ours.values()))  # a record may be of no run that we know
        self.seeds = len(seeds)
        whole = {name: sizes(name, shorter) for name in STUDIES}
        self.sweeps = all_sweeps(held, NAMES, whole)
        self.levels: dict[str, list[Row]] = {}
        for protocol in NAMES:
            try:
                self.levels[protocol] = lowered(held, protocol, shorter)
            except IncompleteError:
                continue
        if not self.sweeps and not self.levels:
            raise IncompleteError("no sweep of step sizes and none of levels is whole")

    def of(self, name: str, kind: str) -> dict[str, list[Row]]:
        """Return the rows of a study and kind of comparison, by protocol."""
        return {p: rows for (n, p, k), rows in self.sweeps.items() if (n, k) == (name, kind)}


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    rows = Rows(records)
    return [
        *unfinished(rows),
        Text(
            "At the end of Section 5 the paper says of step sizes it tried and does not show that "
            "MPGD consistently outperforms descent at smaller ones, and that both perform alike "
            "at large ones. Airfoil and ECG5000 (two hidden layers) are trained here at step sizes "
            "from 0.003 to 0.5, once for equal time η · steps and once for equal steps, at γ = 0.6 "
            "and β = 0.5. Appendix F.1 says that lower levels would lower the accuracy on ECG5000, "
            "but keep it above those of descent and of Gaussian noise."
        ),
        Findings(RULE, tuple(findings(rows))),
        Plate("steps", _caption(rows), tuple(_panels(rows)), legend=True),
        *tables(rows),
    ]


def unfinished(rows: Rows) -> Iterator[Missing]:
    """Yield what was not run under all protocols, and the command that runs it."""
    lacking = [
        f"{study.title} at {kind}"
        for name, study in STUDIES.items()
        for kind in (TIME, STEPS)
        if len(rows.of(name, kind)) < len(NAMES)
    ]
    lacking += ["levels of ECG5000"] * (len(rows.levels) < len(NAMES))
    if lacking:
        text = f"Unfinished, not run under all protocols: {', '.join(lacking)}. To finish it:"
        options = f"--protocol {','.join(NAMES)} --seeds {rows.seeds}"
        yield Missing(text, command("steps", options=options), begun=True)


def _caption(rows: Rows) -> str:
    swept = (
        "MPGD minus descent, paired by seed, with 95 % intervals; below 0 is better on airfoil, "
        "above 0 on ECG5000. The axis of airfoil is linear within 0.01 of 0 and logarithmic "
        "beyond. "
    )
    levels = "Mean test accuracy on ECG5000 against the level, with standard errors."
    if rows.sweeps and rows.levels:
        return f"{swept}Last: {levels[0].lower()}{levels[1:]}"
    return levels if rows.levels else swept.strip()


def _panels(rows: Rows) -> Iterator[Panel]:
    for name, study in STUDIES.items():
        for kind in (TIME, STEPS):
            if own := rows.of(name, kind):
                title, label = f"{study.title}, {kind}", study.metric.replace("_", " ")
                alt = f"{title}: MPGD minus descent against the step size."
                drawn = (own, title, f"{label} − descent’s", LINEAR.get(name))
                yield panel(alt, draw_steps, *drawn)
    if rows.levels:
        alt = "ECG5000: mean test accuracy against the level."
        yield panel(alt, draw_levels, rows.levels, "ECG5000, levels", "test accuracy, %")


def findings(rows: Rows) -> Iterator[Finding]:
    """Yield the verdicts on both remarks; the paper's own step and level are no part of them."""
    for (_, protocol, kind), own in rows.sweeps.items():
        for row in own:
            usual = row.study.fixed["eta"]
            if row.at != usual:
                claim = f"{row.study.title}, {kind}: step size {row.at:g}"
                yield _finding(SMALL if row.at < usual else LARGE, protocol, claim, row)
    for protocol, own in rows.levels.items():
        for row in own:
            if row.at < LOWER[-1]:
                claim = f"MPGD at level {row.at:g} is better than {row.kind}"
                yield _finding(STILL, protocol, claim, row)
            elif row.kind.startswith("level"):
                claim = f"MPGD at level {row.at:g} is better than at {row.kind}"
                yield _finding(WORSE, protocol, claim, row)


def _finding(headline: str, protocol: str, claim: str, row: Row) -> Finding:
    reason = row.verdict.reason(row.study.digits)
    return Finding(headline, PROTOCOLS[protocol], claim, row.word, reason)


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the tables and the verdicts."""
    rows = Rows(records)
    yield from map(terminal_table, tables(rows))
    for one in findings(rows):
        yield f"{one.headline}; {one.setting}, {one.claim}: {one.word}, {one.reason}"


def tables(rows: Rows) -> Iterator[Table]:
    """Yield a table for each study and kind of comparison, and that of the levels."""
    for name, study in STUDIES.items():
        for kind in (TIME, STEPS):
            if own := rows.of(name, kind):
                title = f"{study.title}, {kind}: {study.metric.replace('_', ' ')}"
                yield table(
                    title, STEP_HEADS, [_step_row(row) for each in own.values() for row in each]
                )
    if rows.levels:
        level_rows = [_level_row(row) for each in rows.levels.values() for row in each]
        yield table("ECG5000: test accuracy against the level", LEVEL_HEADS, level_rows)


def _scores(row: Row) -> list[str]:
    return [verdicts.summary(x.values()).text(row.study.digits) for x in (row.ours, row.theirs)]


def _step_row(row: Row) -> list[str]:
    result, digits = row.verdict.difference, row.study.digits
    differences = [result.text(digits), f"{result.median:+.{digits}f}"]
    return [row.protocol, f"{row.at:g}", *_scores(row), *differences, row.word]


def _level_row(row: Row) -> list[str]:
    ours, theirs = _scores(row)
    difference = row.verdict.difference.text(row.study.digits)
    return [row.protocol, f"{row.at:g}", ours, row.kind, theirs, difference, row.word]
