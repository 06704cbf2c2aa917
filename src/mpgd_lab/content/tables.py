"""Rows of texts as tables that sort by their numbers, and schemes compared in tables.

A table of schemes has a row for each scheme: what the paper prints, and under every setting our
mean and standard deviation and the paired differences to descent and to the Gaussian, each with its
interval. A comparison that the paper prints has a verdict of its own: is the scheme better than its
rival, or worse where the paper's own number is worse. Where it prints no number of a measure, the
claim is that every row of MPGD is better. The verdicts of a table under one setting are judged
together.

Every study that trains nets, and the valley, claims the same of different metrics:

    MPGD (variant, gamma, beta) has a lower (higher) metric than descent, and than the Gaussian

As a summary of the rows, the mean over gammas and betas is judged too; it says over what. All is at
equal seeds.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mpgd_lab import verdicts
from mpgd_lab.content.blocks import WORDS, Cell, Column, Findings, Table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.schemes import Scheme, gaussian_of
from mpgd_lab.store import Record
from mpgd_lab.verdicts import (
    BySeed,
    Difference,
    Direction,
    Groups,
    Measure,
    Verdict,
    by_scheme,
    by_seed,
    grouped,
    holm_corrected,
    judge_claim,
)

NUMBER: Final = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
SAME_SEEDS: Final = range(1, 6)  # the paper's five
RIVALS: Final = {"descent": "gd", "Gaussian": "gaussian"}  # rivals, and their rows in the paper
AS_PRINTED: Final = ", as printed"  # ends a claim that a scheme is worse
SPOKEN: Final = {"descent": "descent", "Gaussian": "the Gaussian"}
Pair = tuple[str, str]  # a scheme and one of these rivals


class IncompleteError(LookupError):
    """Records that a comparison needs are not there."""


def cell(text: str, word: str | None = None) -> Cell:
    """Return a cell that is sorted by the number its text begins with.

    Examples:
        >>> cell("1,000 (3)").order
        1000.0
    """
    number = NUMBER.match(text)
    return Cell(text, float(number[0].replace(",", "")) if number else None, word)


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], wordy: bool = False
) -> Table:
    """Return a table of texts."""
    body = tuple(tuple(cell(text) for text in row) for row in rows)
    return Table(caption, tuple(Column(title) for title in columns), body, wordy)


def terminal_table(table: Table) -> tuple[str, list[str], list[list[str]]]:
    """Return a table's caption, headings and rows as a terminal shows them."""
    heads = [column.title.replace("− ", "minus ") for column in table.columns]
    return table.caption, heads, [[cell.text for cell in row] for row in table.rows]


def findings_table(findings: Findings, caption: str = "All verdicts, one by one") -> Table:
    """Return verdicts as a table, by default under its usual caption."""
    columns = tuple(Column(title) for title in ("claim", "verdict", "setting", "evidence"))
    rows = tuple(
        (
            Cell(one.claim),
            Cell("", WORDS.index(one.word), one.word),
            Cell(one.setting),
            Cell(one.reason),
        )
        for one in findings.items
    )
    return Table(caption, columns, rows, wordy=True)


@dataclass(frozen=True)
class Setting:
    """The records of an experiment under one setting, such as a protocol."""

    title: str  # its name
    records: Sequence[Record]  # of all schemes and seeds
    measure: Measure  # the metric and how it is shown; its ``printed`` is the paper's number
    as_printed: bool = False  # whether the paper's own five seeds get a column


def scheme_table(caption: str, settings: Sequence[Setting], direction: Direction) -> Table:
    """Return the table of all schemes under all settings."""
    known = verdicts.schemes_of(record for setting in settings for record in setting.records)
    printed = {name: setting.measure.printed(name) for setting in settings for name in known}
    columns = [
        Column("scheme"),
        *([Column("printed", "the paper")] if any(printed.values()) else ()),
    ]
    rows = {name: [Cell(name), *(cell(printed[name]) for _ in columns[1:])] for name in known}
    for setting in settings:
        values = _values(setting)
        counts = sorted(map(len, values.values()))
        again = setting.as_printed and counts[-1] > len(SAME_SEEDS)
        heads = ["ours", *(["seeds 1–5"] if again else ()), *(f"− {to}" for to in RIVALS)]
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        group = f"{setting.title}, {seeds} seed{'s' * (counts[-1] > 1)}"
        columns += [Column(title, group) for title in heads]
        differences = _differences(setting, values, direction)
        words = {pair: one.label for pair, one in _verdicts(differences, setting).items()}
        for name, row in rows.items():
            row += _summary_cells(values.get(name), setting.measure.digits, again)
            for pair in ((name, to) for to in RIVALS):
                entry = differences.get(pair), words.get(pair)
                row.append(_cell(*entry, setting.measure.digits, counts[-1]))
    return Table(caption, tuple(columns), tuple(map(tuple, rows.values())))


def _values(setting: Setting) -> Mapping[str, BySeed]:
    metric = setting.measure.metric
    return {name: by_seed(each, metric) for name, each in by_scheme(setting.records).items()}


def _differences(
    setting: Setting, values: Mapping[str, BySeed], better: Direction
) -> dict[Pair, Difference]:
    """Return every scheme's difference to descent and to its Gaussian, where seeds are shared."""
    gaussian = verdicts.rivals(setting.records)
    worst = verdicts.worst_of(values.values(), better)
    differences = {}
    for name, ours in values.items():
        for to, other in (("descent", "gd"), ("Gaussian", gaussian.get(name))):
            theirs = values.get(other, {}) if other and other != name else {}
            if set(ours) & set(theirs):
                differences[name, to] = verdicts.paired_difference(ours, theirs, worst)
    return differences


def row_verdicts(setting: Setting) -> dict[Pair, Verdict]:
    """Return the verdict on each comparison of a table under one setting, judged together."""
    differences = _differences(setting, _values(setting), setting.measure.better)
    return _verdicts(differences, setting)


def _verdicts(differences: Mapping[Pair, Difference], setting: Setting) -> dict[Pair, Verdict]:
    measure, schemes = setting.measure, verdicts.schemes_of(setting.records)
    ours = [pair for pair in differences if schemes[pair[0]].kind == "mpgd"]
    printed = [pair for pair in ours if measure.printed(pair[0])]
    claimed = {pair: _direction(pair, measure) for pair in printed or ours}
    judged = holm_corrected(
        Verdict(_claim_text(pair, measure, direction), direction, differences[pair])
        for pair, direction in claimed.items()
    )
    return dict(zip(claimed, judged, strict=True))


def _direction(pair: Pair, measure: Measure) -> Direction:
    """Return the direction of the paper's printed difference; by default that of its claim."""
    printed = [cell(measure.printed(name)).order for name in (pair[0], RIVALS[pair[1]])]
    ours, theirs = printed
    if ours is None or theirs is None or ours == theirs:
        return measure.better
    return "lower" if ours < theirs else "higher"


def _claim_text(pair: Pair, measure: Measure, direction: Direction) -> str:
    name, rival = pair
    as_printed = "" if direction == measure.better else AS_PRINTED
    what = f"has a {direction} {measure.noun or measure.title} than {SPOKEN[rival]}"
    return f"{name.replace('mpgd', 'MPGD', 1)} {what}{as_printed}"


def _summary_cells(values: BySeed | None, digits: int, again: bool) -> list[Cell]:
    """Return a scheme's numbers, and those of the paper's own seeds."""
    if values is None:
        return [Cell("")] * (2 if again else 1)
    first = [values[s] for s in SAME_SEEDS if s in values]
    shown = [list(values.values()), *([first] if again else ())]
    return [cell(verdicts.summary(each).text(digits)) for each in shown]


def _cell(difference: Difference | None, word: str | None, digits: int, most: int) -> Cell:
    """Return a difference; its seeds are counted where other schemes have more."""
    if difference is None:
        return Cell("")
    text = difference.text(digits)
    text += f", {difference.count} seeds" if 1 < difference.count < most else ""
    text += f", {difference.diverged} diverged" if difference.diverged else ""
    return Cell(text, difference.mean, word)


@dataclass(frozen=True)
class Comparison:
    """How a study compares its schemes."""

    groups: Callable[[Sequence[Record]], Mapping[str, Sequence[Record]]]  # those compared, by title
    schemes: Callable[[str], Sequence[Scheme]]  # returns the schemes of a protocol
    measures: Callable[[str], Sequence[Measure]]  # returns what is shown of a protocol, and claimed
    digits: int  # of a verdict
    beta: float | None = None  # the skewness of which something is claimed; None is any
    has_variants: bool = True  # whether claims name the variant

    def printout(self, records: Sequence[Record]) -> Iterator[PrintItem]:
        """Yield a table for each measure and the verdicts, group by group."""
        for title, group in self.groups(records).items():
            for measure in self.measures(group[0].run.protocol):
                yield terminal_table(self.table(title, group, measure))
            yield from self.verdict_lines(title, group)

    def verdict_lines(self, title: str, records: Sequence[Record]) -> Iterator[str]:
        """Yield the counts of the rows' verdicts, and the pooled verdicts, as lines."""
        pooled = self.pooled(records)
        for measure in self.measures(records[0].run.protocol):
            words = Counter(one.word for one in self.rows(records, measure))
            counts = ", ".join(f"{count} {word}" for word, count in words.items())
            yield f"{title}, {measure.title}, {words.total()} comparisons row by row: {counts}"
        for verdict in pooled:
            yield f"{title}: {verdict.text(self.digits)}"

    def table(self, title: str, records: Sequence[Record], measure: Measure) -> Table:
        """Return the table of one measure of a group."""
        setting = Setting(title, records, measure)
        return scheme_table(f"{title}: {measure.title}", [setting], measure.better)

    def rows(self, records: Sequence[Record], measure: Measure) -> list[Verdict]:
        """Return the verdicts on each comparison that the paper prints of a measure."""
        return list(row_verdicts(Setting("", records, measure)).values())

    def pooled(self, records: Sequence[Record]) -> list[Verdict]:
        """Return the verdicts on means over gammas and betas of one group, judged together.

        Raises:
            IncompleteError: if a scheme has no record, or two schemes have no seed in common.
        """
        protocol = records[0].run.protocol
        schemes, by_name = self.schemes(protocol), by_scheme(records)
        mpgd = [s for s in schemes if s.kind == "mpgd" and self.beta in (None, s.beta)]
        verdicts = []
        for variant in dict.fromkeys(scheme.variant for scheme in mpgd):
            ours = [scheme for scheme in mpgd if scheme.variant == variant]
            who = f"MPGD ({variant})" if self.has_variants else "MPGD"
            who = f"{who}, mean over {_over(ours)},"
            for measure in self.measures(protocol):
                for other, theirs in _others(ours, schemes).items():
                    text = f"{who} has a {measure.better} {measure.noun} than {other}"
                    pair = (_records_of(part, by_name) for part in (ours, theirs))
                    verdicts.append(_claim(text, measure, *pair))
        return holm_corrected(verdicts)


def _over(schemes: Sequence[Scheme]) -> str:
    """Return in words over which gammas and betas a mean is taken."""
    every = {name: [getattr(one, name) for one in schemes] for name in ("gamma", "beta")}
    values = {name: sorted({x for x in each if x is not None}) for name, each in every.items()}
    return " and ".join(
        f"{name} {', '.join(f'{x:g}' for x in each)}" for name, each in values.items() if each
    )


def _others(ours: Sequence[Scheme], schemes: Sequence[Scheme]) -> dict[str, list[Scheme]]:
    """Return the rivals of some MPGD schemes, by name."""
    descents = [scheme for scheme in schemes if scheme.kind == "gd"]
    names = ("descent", "descent of as many steps")  # the authors' CIFAR-10 has both
    others = {name: [descent] for name, descent in zip(names, descents, strict=False)}
    gaussians = [gaussian_of(scheme, schemes) for scheme in ours]
    return others | {"the Gaussian": [gaussian for gaussian in gaussians if gaussian]}


def _records_of(schemes: Sequence[Scheme], records: Mapping[str, Sequence[Record]]) -> Groups:
    if lacking := [str(scheme) for scheme in schemes if str(scheme) not in records]:
        raise IncompleteError(f"no run of {', '.join(lacking)}")
    return [records[str(scheme)] for scheme in schemes]


def _claim(text: str, measure: Measure, ours: Groups, theirs: Groups) -> Verdict:
    seeds = [{record.run.seed for record in each} for each in (*ours, *theirs)]
    if not set.intersection(*seeds):
        raise IncompleteError(f"no seed is in all schemes: {text}")
    return judge_claim(text, measure.better, ours, theirs, measure.metric)


def by_protocol(name: str) -> Callable[[Sequence[Record]], dict[str, list[Record]]]:
    """Return the function that groups records of an experiment by protocol."""
    return lambda records: grouped(records, lambda run: f"{name}, {run.protocol}")
