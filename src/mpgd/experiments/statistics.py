"""Means over seeds, differences paired by seed, and the two tests that are made of them.

Runs of two schemes with the same seed share their initial parameters, so schemes are compared by
the differences d_s of their metric, one for each seed:

    mean of d     Student's 95 % interval and t-test
    signs of d    Wilcoxon's test of signed ranks, which outliers hardly move

Metrics of heavy-tailed runs have outliers, so the median difference stands beside the mean. A run
that diverged has no metric. It counts as the worst outcome that any run of the table has.
`mpgd.experiments.verdicts` has the rule by which differences decide a claim.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments.schemes import Scheme, gaussian_of, place
from mpgd.experiments.store import Record, Run

Array = NDArray[np.float64]
BySeed = Mapping[int, float]
Key = TypeVar("Key")
Direction = Literal["lower", "higher"]

LEVEL: Final = 0.95
VISIBLE: Final = 1.96 + 0.84  # standard errors: seen with probability 0.8 at level 0.05


@dataclass(frozen=True)
class Summary:
    """A scheme's metric over its seeds; std is the sample standard deviation.

    Runs that diverged, whose metric is no finite number, are counted and left out of both.
    """

    mean: float
    std: float
    count: int
    diverged: int = 0

    def text(self, digits: int) -> str:
        """Return the mean with the std in brackets, as the paper prints them."""
        lost = f", {self.diverged} diverged" if self.diverged else ""
        return f"{self.mean:.{digits}f} ({self.std:.{digits}f}){lost}"


def summary(values: Iterable[float]) -> Summary:
    """Return mean and sample standard deviation.

    Examples:
        >>> summary([1.0, 2.0, 3.0])
        Summary(mean=2.0, std=1.0, count=3, diverged=0)
    """
    everything = np.array(list(values), dtype=np.float64)
    x = everything[np.isfinite(everything)]
    mean = float(x.mean()) if len(x) else nan
    std = float(x.std(ddof=1)) if len(x) > 1 else nan
    return Summary(mean, std, len(x), len(everything) - len(x))


@dataclass(frozen=True)
class Difference:
    """A difference of two schemes, paired by seed."""

    mean: float
    low: float  # Student's interval of the mean
    high: float
    visible: float  # the smallest true difference that is seen with probability 0.8 at level 0.05
    count: int  # seeds
    diverged: int = 0  # seeds among them in which one of the two runs diverged
    median: float = nan
    p_mean: float = 1.0  # of Student's test
    p_rank: float = 1.0  # of Wilcoxon's
    rank: float = 0.0  # the sum of signed ranks; its sign is what Wilcoxon's test says

    def text(self, digits: int) -> str:
        """Return the difference with its interval."""
        if not isfinite(self.low):
            return f"{self.mean:+.{digits}f} [{self.count} seeds]"
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


def paired(first: BySeed, second: BySeed, worst: float = nan) -> Difference:
    """Return first - second over the seeds both have; a run that diverged has the value ``worst``.

    Without a ``worst`` its seed is left out.

    Examples:
        >>> paired({1: 3.0, 2: 5.0}, {1: 2.0, 2: 4.0, 3: 9.0}).text(1)
        '+1.0 [+1.0, +1.0]'
        >>> found = paired({1: nan, 2: 5.0}, {1: 2.0, 2: 4.0}, worst=9.0)
        >>> found.mean, found.diverged
        (4.0, 1)
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        raise ValueError(f"no seed is in both, got {sorted(first)} and {sorted(second)}")
    both = np.array([(first[s], second[s]) for s in seeds])
    lost = ~np.isfinite(both)
    both[lost] = worst
    d = both[:, 0] - both[:, 1]
    return interval(d[np.isfinite(d)], int(lost.any(axis=1).sum()))


def worst_of(schemes: Iterable[BySeed], better: Direction) -> float:
    """Return the worst outcome of all runs that did not diverge.

    Examples:
        >>> worst_of([{1: 0.3, 2: nan}, {1: 0.7}], "lower")
        0.7
    """
    finite = [x for scheme in schemes for x in scheme.values() if isfinite(x)]
    return (max if better == "lower" else min)(finite, default=nan)


def interval(d: Array, diverged: int = 0) -> Difference:
    """Return the mean of ``d`` with Student's interval, and both tests; one value has none."""
    from scipy.stats import t as student

    n = len(d)
    mean, middle = (float(np.mean(d)), float(np.median(d))) if n else (nan, nan)
    if n < 2:
        return Difference(mean, -inf, inf, inf, n, diverged, middle)
    error = float(d.std(ddof=1)) / sqrt(n)
    half = float(student.ppf((1 + LEVEL) / 2, n - 1)) * error
    p_mean = 2 * float(student.sf(abs(mean) / error, n - 1)) if error else float(mean == 0.0)
    ranks = (*_signed_ranks(d),)
    ends = (mean - half, mean + half)
    return Difference(mean, *ends, VISIBLE * error, n, diverged, middle, p_mean, *ranks)


def _signed_ranks(d: Array) -> tuple[float, float]:
    """Return the p-value of Wilcoxon's test and the sum of signed ranks."""
    from scipy.stats import rankdata, wilcoxon

    if not d.any():
        return 1.0, 0.0
    total = float(np.sign(d) @ rankdata(np.abs(d)))
    return float(wilcoxon(d, zero_method="pratt").pvalue), total


def by_seed(records: Iterable[Record], metric: str) -> dict[int, float]:
    """Return the metric of each seed."""
    return {record.run.seed: float(record.metrics[metric]) for record in records}


def average(schemes: Sequence[BySeed]) -> dict[int, float]:
    """Return the mean over schemes for every seed that all have.

    Examples:
        >>> average([{1: 1.0, 2: 2.0}, {1: 3.0}])
        {1: 2.0}
    """
    seeds = set.intersection(*(set(scheme) for scheme in schemes))
    return {s: float(np.mean([scheme[s] for scheme in schemes])) for s in sorted(seeds)}


@dataclass(frozen=True)
class Columns:
    """What a table of schemes shows, and what is claimed of it."""

    metric: str  # its name in the records
    title: str  # its name in the table
    digits: int  # after the point
    printed: Callable[[str], str] = lambda name: ""  # the paper's number of a scheme, or nothing
    better: Direction = "lower"  # where a scheme is claimed to be
    said: str = ""  # its name in a claim


def column(printed: Mapping[str, Sequence[str]], place: int) -> Callable[[str], str]:
    """Return what a table of the paper prints for a scheme in one of its columns."""
    return lambda name: printed[name][place] if name in printed else ""


def grouped(records: Iterable[Record], key: Callable[[Run], Key]) -> dict[Key, list[Record]]:
    """Return the records whose runs have the same key, in order."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record.run), []).append(record)
    return groups


def by_scheme(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of each scheme, in order."""
    return grouped(records, lambda run: run.scheme)


def schemes_of(records: Iterable[Record]) -> dict[str, Scheme]:
    """Return the schemes of records by name, in the order of a table."""
    found = {record.run.scheme: Scheme.of(record.run) for record in records}
    return dict(sorted(found.items(), key=lambda item: (place(item[1]), item[0])))


def rivals(records: Iterable[Record]) -> dict[str, str]:
    """Return for each MPGD scheme the name of the Gaussian it is compared with, if it is there."""
    schemes = schemes_of(records)
    names = {scheme: name for name, scheme in reversed(schemes.items())}
    found = {
        name: gaussian_of(scheme, schemes.values())
        for name, scheme in schemes.items()
        if scheme.kind == "mpgd"
    }
    return {name: names[gaussian] for name, gaussian in found.items() if gaussian}
