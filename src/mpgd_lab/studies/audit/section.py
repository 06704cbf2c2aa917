"""The audit: what each deviation of the authors' scripts does, alone and together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mpgd_lab.content.blocks import Block, Cell, Column, Panel, Plate, Table, Text, panel
from mpgd_lab.content.tables import cell, table
from mpgd_lab.store import Record
from mpgd_lab.studies.audit.case_comparison import BASE, CaseComparison, Line, compare_cases
from mpgd_lab.studies.audit.deviations import DEVIATIONS
from mpgd_lab.studies.audit.figure import CAPTION, draw_changes
from mpgd_lab.studies.audit.runs import CORRECTED, TOGETHER
from mpgd_lab.verdicts import RULE

PLAIN: Final = {CORRECTED: "none: the corrected protocol", TOGETHER: "the scripts' protocol"}
MEANINGS: Final = DEVIATIONS | PLAIN
NAMES: Final = {"airfoil": "Airfoil", "ecg": "ECG", "valley": "Valley"}
MANY: Final = 6  # rows of a table that is worth a picture
RIVALS: Final = "better than all three: itself without it, descent and Gaussian noise"


@dataclass(frozen=True)
class Gains:
    """Which deviations make a gain on one line of MPGD, by one metric."""

    line: str
    metric: str
    short: str  # both as a sentence names them
    tried: int  # deviations switched on alone
    alone: tuple[str, ...]  # those among them that make a gain
    together: bool | None  # whether all of them do; None where that was not run

    @property
    def row(self) -> list[str]:
        """The same as a row of a table."""
        together = {True: "yes", False: "no", None: ""}[self.together]
        alone = ", ".join(self.alone) or "none"
        return [self.line, self.metric, str(self.tried), alone, together]


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows; ``records`` are the audit's and those of its studies."""
    cases = compare_cases(records)
    panels = tuple(panel for case in cases for panel in _panels(case))
    gains = [each for case in cases for each in _gains(case)]
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
        *([Text(_answer(gains), answer=True), _gains_table(gains)] if gains else ()),
        *([Plate("audit", CAPTION, panels)] if panels else ()),
        *map(_table, cases),
    ]


def _gains(case: CaseComparison) -> Iterator[Gains]:
    """Yield for every metric of MPGD which deviations make a gain."""
    if case.case.scheme.kind != "mpgd":
        return
    alone = [label for label in case.lines if label not in (*PLAIN, "control")]
    for place, line in enumerate(case.lines[CORRECTED]):
        makers = tuple(label for label in alone if case.lines[label][place].is_gain)
        together = case.lines[TOGETHER][place].is_gain if TOGETHER in case.lines else None
        title = line.measure.title
        yield Gains(_named(case), title, _short(case, title), len(alone), makers, together)


def _short(case: CaseComparison, metric: str) -> str:
    """Return a line without the parameters that it shares with the others of its study."""
    line = f"{NAMES[case.study]} {case.case.scheme.variant}"
    return f"{line} ({metric})" if len(case.lines[CORRECTED]) > 1 else line


def _answer(gains: Sequence[Gains]) -> str:
    """Return in a sentence which deviations make a gain alone, and whether all together do."""
    lines = len({each.line for each in gains})
    of = f"on any of the {lines} lines of MPGD" if lines > 1 else "on the line of MPGD"
    makers = [f"{' and '.join(each.alone)} on {each.short}" for each in gains if each.alone]
    sentence = f"In these runs no single deviation was seen to make MPGD {RIVALS}, {of}"
    if makers:
        sentence = f"In these runs deviations that alone made MPGD {RIVALS}: {', '.join(makers)}"
    known = [each for each in gains if each.together is not None]
    together = [each.short for each in known if each.together]
    if not known:
        return f"{sentence}."
    done = f"did on {', '.join(together)}" if together else "did not"
    return f"{sentence}; all together {done}."


def _gains_table(gains: Sequence[Gains]) -> Table:
    heads = ["line", "metric", "deviations tried", "make a gain alone", "all together make a gain"]
    return table("Which deviations make a gain", heads, [each.row for each in gains])


def _table(case: CaseComparison) -> Table:
    metrics = [line.measure.title for line in case.lines[CORRECTED]]
    own = ("ours", *(f"− {rival}" for rival in case.rivals))
    columns = [Column("deviation"), Column("meaning")]
    columns += [Column(title, metric) for metric in metrics for title in own]
    rows = (
        (Cell(label), Cell(MEANINGS[label]), *(c for line in each for c in _cells(case, line)))
        for label, each in case.lines.items()
    )
    return Table(_named(case), tuple(columns), tuple(rows))


def _cells(case: CaseComparison, line: Line) -> Iterator[Cell]:
    yield cell(case.own(line))
    for rival, text in zip(case.rivals, case.differences(line), strict=True):
        judged = line.verdicts.get(rival)
        yield cell(text, judged.label if judged else None)


def _named(case: CaseComparison) -> str:
    return f"{NAMES[case.study]}, {case.case.scheme}"


def _panels(case: CaseComparison) -> Iterator[Panel]:
    if len(case.lines) < MANY:
        return
    for place, line in enumerate(case.lines[CORRECTED]):
        pairs = {label: each[place].difference(BASE) for label, each in case.lines.items()}
        differences = {label: result for label, result in pairs.items() if result}
        alt = f"{_named(case)}: change of {line.measure.title} by each deviation."
        yield panel(alt, draw_changes, differences, _named(case), line.measure, left=0.34)
