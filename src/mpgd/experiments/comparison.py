"""Schemes compared: tables of means and paired differences, and verdicts on the paper's claims.

Every study that trains nets, and the valley, claims the same of different metrics:

    MPGD (variant, gamma, beta) has a lower (higher) metric than descent, and than the Gaussian

Each row of a table has verdicts of its own. As a summary, the mean over gammas and betas is judged
too; it says over what. All is at equal seeds.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mpgd.experiments.content.blocks import Table
from mpgd.experiments.content.tables import Setting, row_verdicts, scheme_table, told
from mpgd.experiments.experiment import Said
from mpgd.experiments.schemes import Scheme, gaussian_of
from mpgd.experiments.statistics import (
    Columns,
    Groups,
    Verdict,
    by_scheme,
    claim,
    corrected,
    grouped,
)
from mpgd.experiments.store import Record


class IncompleteError(LookupError):
    """Records that a comparison needs are not there."""


@dataclass(frozen=True)
class Comparison:
    """How a study compares its schemes."""

    groups: Callable[[Sequence[Record]], Mapping[str, Sequence[Record]]]  # those compared, by title
    schemes: Callable[[str], Sequence[Scheme]]  # returns the schemes of a protocol
    measures: Callable[[str], Sequence[Columns]]  # returns what is shown of a protocol, and claimed
    digits: int  # of a verdict
    beta: float | None = None  # the skewness of which something is claimed; None is any
    has_variants: bool = True  # whether claims name the variant

    def told(self, records: Sequence[Record]) -> Iterator[Said]:
        """Yield a table for each measure and the verdicts, group by group."""
        for title, own in self.groups(records).items():
            for columns in self.measures(own[0].run.protocol):
                yield told(self.table(title, own, columns))
            yield from self.judged(title, own)

    def judged(self, title: str, records: Sequence[Record]) -> Iterator[str]:
        """Yield in lines how many rows have which verdict, and the pooled verdicts."""
        pooled = self.pooled(records)
        for columns in self.measures(records[0].run.protocol):
            words = Counter(one.word for one in self.rows(records, columns))
            counts = ", ".join(f"{count} {word}" for word, count in words.items())
            yield f"{title}, {columns.title}, {words.total()} comparisons row by row: {counts}"
        for verdict in pooled:
            yield f"{title}: {verdict.text(self.digits)}"

    def table(self, title: str, records: Sequence[Record], columns: Columns) -> Table:
        """Return the table of one measure of a group."""
        setting = Setting(title, records, columns)
        return scheme_table(f"{title}: {columns.title}", [setting], columns.better)

    def rows(self, records: Sequence[Record], columns: Columns) -> list[Verdict]:
        """Return the verdicts on each comparison that the paper prints of a measure."""
        return list(row_verdicts(Setting("", records, columns)).values())

    def pooled(self, records: Sequence[Record]) -> list[Verdict]:
        """Return what the runs of one group say of means over gammas and betas, judged together.

        Raises:
            IncompleteError: if a scheme has no record, or two schemes have no seed in common.
        """
        protocol = records[0].run.protocol
        schemes, held = self.schemes(protocol), by_scheme(records)
        mpgd = [s for s in schemes if s.kind == "mpgd" and self.beta in (None, s.beta)]
        found = []
        for variant in dict.fromkeys(scheme.variant for scheme in mpgd):
            ours = [scheme for scheme in mpgd if scheme.variant == variant]
            who = f"MPGD ({variant})" if self.has_variants else "MPGD"
            who = f"{who}, mean over {_over(ours)},"
            for columns in self.measures(protocol):
                for other, theirs in _others(ours, schemes).items():
                    text = f"{who} has a {columns.better} {columns.said} than {other}"
                    pair = (_held(part, held) for part in (ours, theirs))
                    found.append(_claim(text, columns, *pair))
        return corrected(found)


def _over(schemes: Sequence[Scheme]) -> str:
    """Return in words over which gammas and betas a mean is taken."""
    held = {name: [getattr(one, name) for one in schemes] for name in ("gamma", "beta")}
    parts = {name: sorted({x for x in own if x is not None}) for name, own in held.items()}
    return " and ".join(
        f"{name} {', '.join(f'{x:g}' for x in own)}" for name, own in parts.items() if own
    )


def _others(ours: Sequence[Scheme], schemes: Sequence[Scheme]) -> dict[str, list[Scheme]]:
    """Return what some MPGD schemes are compared with."""
    descents = [scheme for scheme in schemes if scheme.kind == "gd"]
    names = ("descent", "descent of as many steps")  # the authors' CIFAR-10 has both
    others = {name: [descent] for name, descent in zip(names, descents, strict=False)}
    gaussians = [gaussian_of(scheme, schemes) for scheme in ours]
    return others | {"the Gaussian": [gaussian for gaussian in gaussians if gaussian]}


def _held(schemes: Sequence[Scheme], records: Mapping[str, Sequence[Record]]) -> Groups:
    if lacking := [str(scheme) for scheme in schemes if str(scheme) not in records]:
        raise IncompleteError(f"no run of {', '.join(lacking)}")
    return [records[str(scheme)] for scheme in schemes]


def _claim(text: str, columns: Columns, ours: Groups, theirs: Groups) -> Verdict:
    seeds = [{record.run.seed for record in each} for each in (*ours, *theirs)]
    if not set.intersection(*seeds):
        raise IncompleteError(f"no seed is in all schemes: {text}")
    return claim(text, columns.better, ours, theirs, columns.metric)


def by_protocol(name: str) -> Callable[[Sequence[Record]], dict[str, list[Record]]]:
    """Return the function that groups records of an experiment by protocol."""
    return lambda records: grouped(records, lambda run: f"{name}, {run.protocol}")
