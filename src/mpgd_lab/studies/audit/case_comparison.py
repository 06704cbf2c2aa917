"""What a deviation does: beside its base, and beside descent and Gaussian under the same deviation.

A line of MPGD's table is one deviation. Its differences, paired by seed, are to

    base       ``control`` where the deviation is one of the noise, which the same code draws;
               else ``corrected``. That of ``control`` is ``corrected``: a check of the method
    descent    under the same deviation; descent itself where it does not concern descent
    Gaussian   likewise

A deviation alone makes a gain only if it is better than its base, than descent and than the
Gaussian. All comparisons of a table are judged together, by the rule of `verdicts`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mpgd_lab.experiment import Table
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.schemes import gaussian_of
from mpgd_lab.store import Record
from mpgd_lab.studies.audit.runs import (
    CORRECTED,
    GD,
    STUDIES,
    TOGETHER,
    Case,
    Study,
    lines,
    study_of,
)
from mpgd_lab.verdicts import (
    Difference,
    Measure,
    Summary,
    Verdict,
    by_seed,
    holm_corrected,
    paired_difference,
    summary,
    worst_of,
)

Lines = Mapping[str, Sequence[Record]]  # the records of each line of a case

BASE, DESCENT, GAUSSIAN = "base", "descent", "Gaussian"
SUPPORTED: Final = "supported"


@dataclass(frozen=True)
class Line:
    """One deviation and one metric: our numbers, and verdicts on being better than something."""

    measure: Measure
    summary: Summary
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # than what it is better

    def difference(self, rival: str) -> Difference | None:
        """Return a difference, None where there is nothing to compare with."""
        return self.verdicts[rival].difference if rival in self.verdicts else None

    @property
    def is_gain(self) -> bool:
        """Whether the line is better than its base, than descent and than the Gaussian."""
        words = {rival: verdict.word for rival, verdict in self.verdicts.items()}
        return all(words.get(rival) == SUPPORTED for rival in (BASE, DESCENT, GAUSSIAN))


@dataclass(frozen=True)
class CaseComparison:
    """A case: its runs with each deviation."""

    study: str  # the experiment it belongs to
    case: Case  # its row there
    lines: Mapping[str, Sequence[Line]]  # of each deviation, one for each metric

    @property
    def rivals(self) -> tuple[str, ...]:
        """What its lines are compared with."""
        held = {rival for each in self.lines.values() for one in each for rival in one.verdicts}
        return tuple(rival for rival in (BASE, DESCENT, GAUSSIAN) if rival in held)

    @property
    def table(self) -> Table:
        """The same as a table for a terminal."""
        metrics = [line.measure.title for line in self.lines[CORRECTED]]
        ours = [f"minus {rival}" for rival in self.rivals]
        heads = ["deviation", *(title for what in metrics for title in (what, *ours))]
        rows = [[label, *self._texts(each)] for label, each in self.lines.items()]
        return f"audit, {self.study}, {self.case.scheme}", heads, rows

    def _texts(self, each: Sequence[Line]) -> list[str]:
        return [text for line in each for text in (self.own(line), *self.differences(line))]

    def own(self, line: Line) -> str:
        """Return a line's mean and standard deviation."""
        return line.summary.text(line.measure.digits)

    def differences(self, line: Line) -> list[str]:
        """Return a line's differences, to each rival of the table."""
        differences = map(line.difference, self.rivals)
        return [one.text(line.measure.digits) if one else "" for one in differences]


def printout(records: Iterable[Record]) -> list[Table]:
    """Return the table of every case with runs among ``records``, of the audit and its studies."""
    return [case.table for case in compare_cases(records)]


def compare_cases(records: Iterable[Record]) -> list[CaseComparison]:
    """Return every case with runs among ``records``, of the size that most have."""
    held = {record.run.key: record for record in records}
    ours = [record.run for record in held.values() if record.run.experiment == "audit"]
    cases = []
    for name, study in STUDIES.items():
        mine = [run for run in ours if study_of(run) == name]
        if not mine:
            continue
        steps = Counter(run.hyperparameters["steps"] for run in mine).most_common(1)[0][0]
        seeds = sorted({run.seed for run in mine})
        kept = {
            case: {
                label: own
                for label, runs in lines(name, case, seeds, steps).items()
                if (own := [held[run.key] for run in runs if run.key in held])
            }
            for case in study.cases
        }
        cases += [
            _case_comparison(name, study, case, kept) for case in kept if CORRECTED in kept[case]
        ]
    return cases


def _case_comparison(
    name: str, study: Study, case: Case, kept: Mapping[Case, Lines]
) -> CaseComparison:
    rows = {
        label: [Line(c, _summary(c, label, kept[case])) for c in study.metrics]
        for label in kept[case]
    }
    for place, measure in enumerate(study.metrics):
        judged = _verdicts(measure, case, kept)
        for label in rows:
            mine = {rival: one for (to, rival), one in judged.items() if to == label}
            rows[label][place] = replace(rows[label][place], verdicts=mine)
    return CaseComparison(name, case, rows)


def _summary(measure: Measure, label: str, own: Lines) -> Summary:
    return summary(_values(measure, label, own[label]).values())


def _verdicts(
    measure: Measure, case: Case, kept: Mapping[Case, Lines]
) -> dict[tuple[str, str], Verdict]:
    """Return the verdict on every line and rival of a case, corrected for their number."""
    own, verdicts = kept[case], {}
    values = {label: _values(measure, label, each) for label, each in own.items()}
    worst = worst_of(values.values(), measure.better)
    for label, ours in values.items():
        for rival, theirs in _rivals(measure, label, case, kept).items():
            if set(ours) & set(theirs):
                difference = paired_difference(ours, theirs, worst)
                verdicts[label, rival] = Verdict("", measure.better, difference)
    return dict(zip(verdicts, holm_corrected(verdicts.values()), strict=True))


def _rivals(
    measure: Measure, label: str, case: Case, kept: Mapping[Case, Lines]
) -> dict[str, dict[int, float]]:
    """Return what a line is compared with: the metric of each rival, by seed."""
    own = kept[case]
    base = "control" if label in SWITCHES and "control" in own else CORRECTED
    rivals = {} if label == CORRECTED else {BASE: _values(measure, base, own.get(base, ()))}
    if case.scheme.kind != "mpgd":
        return rivals
    cases = {each.scheme: each for each in kept}
    gaussian = gaussian_of(case.scheme, cases)
    for rival, scheme in ((DESCENT, GD), (GAUSSIAN, gaussian)):
        if scheme is not None:
            theirs = kept[cases[scheme]]
            same = label if label in theirs else CORRECTED
            rivals[rival] = _values(measure, label, theirs.get(same, ()))
    return rivals


def _values(measure: Measure, label: str, own: Iterable[Record]) -> dict[int, float]:
    """Return the metric of each seed; some lines show the scripts' own gap."""
    scripts = measure.metric == "gap" and label in ("mse_gap", TOGETHER)
    return by_seed(own, "released_gap" if scripts else measure.metric)
