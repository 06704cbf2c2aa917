"""The rule by which runs decide a claim. It stands here and nowhere else.

A claim says that the paired differences of two schemes have a sign. Two tests are made of each, at
the level 0.05: Student's of the mean and Wilcoxon's of the ranks. The p-values of all claims that
are judged together, those of one table, are corrected by Holm's method, for each test. Then a claim

    is supported      if both tests are significant, with the claimed sign
    is contradicted   if both are, with the other sign
    is mixed          if only one is, or if their signs differ
    is undecided      if neither is; then the smallest difference that the runs could have seen is
                      stated: found with probability 0.8 at level 0.05, before the correction

Fewer than five seeds decide nothing. With fewer than eight every verdict is provisional. Under the
null hypothesis a table has a false verdict with probability 0.05 at most, as far as either test
keeps its level; `python -m benchmarks.verdicts` measures it on simulated tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

import numpy as np

from mpgd.experiments.statistics import Difference, Direction, average, by_seed, paired, worst_of
from mpgd.experiments.store import Record

Groups = Sequence[Sequence[Record]]  # the records of some schemes

LEVEL: Final = 0.05
LEAST: Final = 5  # seeds for a verdict
FEW: Final = 8  # seeds, below which it is provisional
RULE: Final = (
    "Rule: runs of two schemes with one seed start alike, so their difference is taken seed by "
    "seed. Student's test of the mean and Wilcoxon's of the ranks are made at level 0.05, "
    "corrected by Holm's method over all claims of a table. A claim is supported if both are "
    "significant with the claimed sign, contradicted if both are with the other, mixed if only one "
    "is or their signs differ, else undecided. A run that diverged counts as the worst of its "
    f"table. Fewer than {LEAST} seeds decide nothing; below {FEW} a verdict is provisional."
)


@dataclass(frozen=True)
class Verdict:
    """What the runs say about a claim; `corrected` puts its p-values right for their number."""

    claim: str
    direction: Direction
    difference: Difference
    p: tuple[float, float] | None = None  # of the mean and of the ranks, corrected
    among: int = 1  # how many claims were judged together

    @property
    def word(self) -> str:
        """Supported, contradicted, mixed or undecided."""
        found = self.difference
        if found.count < LEAST:
            return "undecided"
        means, ranks = self.p or (found.p_mean, found.p_rank)
        significant = [p < LEVEL for p in (means, ranks)]
        if not any(significant):
            return "undecided"
        if not all(significant) or (found.mean > 0) != (found.rank > 0):
            return "mixed"
        return "supported" if (found.mean < 0) == (self.direction == "lower") else "contradicted"

    @property
    def is_provisional(self) -> bool:
        """Whether there are so few seeds that more may well change it."""
        return self.difference.count < FEW

    def reason(self, digits: int) -> str:
        """Return the numbers it rests on."""
        found = self.difference
        p_mean, p_rank = self.p or (found.p_mean, found.p_rank)
        said = f"{found.text(digits)}, median {found.median:+.{digits}f}, {found.count} seed"
        said += "" if found.count == 1 else "s"
        said += f", {found.diverged} with a run that diverged" if found.diverged else ""
        if found.count < LEAST:
            return said + ", too few for a verdict"
        said += f", p {p_mean:.2g} (mean) and {p_rank:.2g} (ranks)"
        said += f" corrected for {self.among} claims" if self.among > 1 else ""
        said += ", provisional" if self.is_provisional else ""
        if self.word == "undecided" and isfinite(found.visible):
            said += f"; the smallest difference they could have seen is {found.visible:.{digits}f}"
        return said

    def text(self, digits: int) -> str:
        """Return the verdict with its reason."""
        return f"{self.claim}: {self.word}, {self.reason(digits)}"


def corrected(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts that are judged together, with p-values corrected for their number."""
    every = list(verdicts)
    means = holm([one.difference.p_mean for one in every])
    ranks = holm([one.difference.p_rank for one in every])
    return [
        replace(one, p=p, among=len(every))
        for one, p in zip(every, zip(means, ranks, strict=True), strict=True)
    ]


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the order given.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    given = np.array(p, dtype=np.float64)
    order = np.argsort(given)
    raised = given[order] * np.arange(len(given), 0, -1)
    found = np.empty(len(given))
    found[order] = np.minimum(1.0, np.maximum.accumulate(raised)) if len(given) else raised
    return [float(value) for value in found]


def claim(text: str, direction: Direction, ours: Groups, theirs: Groups, metric: str) -> Verdict:
    """Return the verdict on the mean over the schemes ``ours`` against that over ``theirs``."""
    groups = [[by_seed(each, metric) for each in part] for part in (ours, theirs)]
    worst = worst_of([scheme for part in groups for scheme in part], direction)
    filled = [[_filled(scheme, worst) for scheme in part] for part in groups]
    lost = {s for part in groups for one in part for s, x in one.items() if not isfinite(x)}
    first, second = (average(part) for part in filled)
    difference = paired(first, second)
    return Verdict(text, direction, replace(difference, diverged=len(lost & set(first))))


def _filled(scheme: dict[int, float], worst: float) -> dict[int, float]:
    return {seed: x if isfinite(x) else worst for seed, x in scheme.items()}
