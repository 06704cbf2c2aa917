"""Means, paired differences with a bootstrap interval, and verdicts from a stated rule.

Runs of two schemes with the same seed share their initial parameters, so schemes are compared by
the differences d_s of their metric, one for each seed. The interval is the percentile bootstrap of
the mean difference, 95 %, seeded. The rule: a claim that the difference has a sign is

    supported      if the whole interval has that sign
    contradicted   if the whole interval has the other sign
    undecided      else; then the smallest difference the runs could have seen is stated, the one
                   found with probability 0.8 at level 0.05: (1.96 + 0.84) std(d) / sqrt(seeds)

Fewer than five seeds decide nothing: three or four of one sign are no rarer than 1 in 8. With five
a percentile interval is still too short (it covers about 85 %). A run that diverged has no
difference: its seed is left out, and counted where that is done. Metrics of heavy-tailed runs have
outliers, so the median difference stands beside the mean.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isfinite, nan, sqrt
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments.schemes import Scheme, gaussian_of, place
from mpgd.experiments.store import Record, Run

Array = NDArray[np.float64]
BySeed = Mapping[int, float]
Groups = Sequence[Sequence[Record]]  # the records of some schemes
Key = TypeVar("Key")
Direction = Literal["lower", "higher"]

RESAMPLES: Final = 10_000
LEVEL: Final = 0.95
LEAST: Final = 5  # seeds for a verdict
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
    """A mean paired difference, its 95 % interval, and the smallest one the runs could see.

    ``count`` seeds entered it; in ``diverged`` others one of the two runs had no finite metric.
    """

    mean: float
    low: float
    high: float
    visible: float
    count: int
    diverged: int = 0
    median: float = nan

    def text(self, digits: int) -> str:
        """Return the difference with its interval."""
        if not isfinite(self.low):
            return f"{self.mean:+.{digits}f} [{self.count} seeds]"
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


def paired(first: BySeed, second: BySeed, seed: int = 0) -> Difference:
    """Return first - second over the seeds both have.

    Examples:
        >>> paired({1: 3.0, 2: 5.0}, {1: 2.0, 2: 4.0, 3: 9.0}).text(1)
        '+1.0 [+1.0, +1.0]'
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        raise ValueError(f"no seed is in both, got {sorted(first)} and {sorted(second)}")
    d = np.array([first[s] - second[s] for s in seeds])
    finite = d[np.isfinite(d)]
    return replace(interval(finite, seed), diverged=len(d) - len(finite))


def interval(d: Array, seed: int = 0) -> Difference:
    """Return the mean of ``d`` with its percentile bootstrap interval; one value has none."""
    n = len(d)
    if n < 2:
        only = float(d.mean()) if n else nan
        return Difference(only, -inf, inf, inf, n, median=only)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(_weights(n, seed) @ d, [tail, 1 - tail])
    visible = VISIBLE * float(d.std(ddof=1)) / sqrt(n)
    middle = float(np.median(d))
    return Difference(float(d.mean()), float(low), float(high), visible, n, median=middle)


@lru_cache(maxsize=4)
def _weights(n: int, seed: int) -> Array:
    """Return how often each of n values is drawn in a resample, over n, (resample, value)."""
    draws = np.random.default_rng(seed).integers(n, size=(RESAMPLES, n))
    places = draws + n * np.arange(RESAMPLES)[:, None]
    return np.bincount(places.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n) / n


@dataclass(frozen=True)
class Verdict:
    """What the runs say about a claim."""

    claim: str
    direction: Direction
    difference: Difference

    @property
    def word(self) -> str:
        """Supported, contradicted or undecided."""
        low, high = self.difference.low, self.difference.high
        if low <= 0.0 <= high or self.difference.count < LEAST:
            return "undecided"
        return "supported" if (high < 0.0) == (self.direction == "lower") else "contradicted"

    def text(self, digits: int) -> str:
        """Return the verdict with its reason."""
        found = self.difference
        middle = f"median {found.median:+.{digits}f}"
        said = f"{self.claim}: {self.word}, {found.text(digits)}, {middle}, over {found.count} seed"
        said += "" if found.count == 1 else "s"
        if found.diverged:
            said += f", without {found.diverged} in which a run diverged"
        if found.count < LEAST:
            said += ", too few for a verdict"
        if self.word == "undecided":
            seen = f"{found.visible:.{digits}f}" if isfinite(found.visible) else "none"
            said += f"; the smallest difference they could have seen is {seen}"
        return said


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


def claim(text: str, direction: Direction, ours: Groups, theirs: Groups, metric: str) -> Verdict:
    """Return the verdict on the mean over the schemes ``ours`` against that over ``theirs``."""
    first, second = (average([by_seed(each, metric) for each in part]) for part in (ours, theirs))
    return Verdict(text, direction, paired(first, second))
