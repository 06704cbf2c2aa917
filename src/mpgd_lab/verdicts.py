"""Means over seeds, differences paired by seed, and the two tests that are made of them.

Runs of two schemes with the same seed share their initial parameters, so schemes are compared by
the differences d_s of their metric, one for each seed:

    mean of d     Student's 95 % interval and t-test
    signs of d    Wilcoxon's test of signed ranks, which outliers hardly move

Metrics of heavy-tailed runs have outliers, so the median difference stands beside the mean. A run
has diverged if its metric is not finite or exceeds `DIVERGED_ABOVE`. It counts as the worst outcome
of all other runs of the table. (The bound was set after the runs: of 12,900 on airfoil three ended
at an error of 2e4, 1e30 and 7e134, and these alone determined the means of tables.)

The rule by which differences decide a claim of a table stands here.
A claim says that the paired differences of two schemes have a sign. Two tests are made of each, at
the level 0.05: Student's of the mean and Wilcoxon's of the ranks. The p-values of all claims that
are judged together, those of one table, are corrected by Holm's method, for each test. Then a claim

    is supported      if both tests are significant, with the claimed sign
    is contradicted   if both are, with the other sign
    is mixed          if only one is, or if their signs differ
    is undecided      if neither is; then the smallest difference that the runs could have seen is
                      stated: found with probability 0.8 at level 0.05, before the correction

Fewer than five seeds are not judged, and five decide nothing, since the ranks of n differences have
a p of at least 2^(1-n). With fewer than eight every verdict is provisional. Under the
null hypothesis a table has a false verdict with probability 0.05 at most, as far as either test
keeps its level; `python -m benchmarks.verdicts` measures it on simulated tables.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isfinite, nan, sqrt
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpgd_lab.schemes import Scheme, gaussian_of, sort_key
from mpgd_lab.store import Record, Run

Array = NDArray[np.float64]
BySeed = Mapping[int, float]
Groups = Sequence[Sequence[Record]]  # the records of some schemes
Key = TypeVar("Key")
Direction = Literal["lower", "higher"]

CONFIDENCE: Final = 0.95
SIGNIFICANCE: Final = 0.05
MIN_SEEDS: Final = 5  # for a verdict
FIRM_SEEDS: Final = 8  # below, a verdict is provisional
DIVERGED_ABOVE: Final = 1000.0  # |metric|
EXACT_RANKS: Final = 13  # up to so many differences Wilcoxon's test enumerates all signs
POWER: Final = 0.8
DETECTABLE: Final = 1.96 + 0.84  # standard errors: that power at level 0.05
RULE: Final = (
    "Rule: runs of two schemes with one seed start alike, so their difference is taken seed by "
    "seed. Student's test of the mean and Wilcoxon's of the ranks are made at level 0.05, "
    "corrected by Holm's method over all claims of a table. A claim is supported if both are "
    "significant with the claimed sign, contradicted if both are with the other, mixed if only one "
    "is or their signs differ, else undecided. A run that diverged, to no number or to one beyond "
    f"{DIVERGED_ABOVE:,.0f}, counts as the worst of its table; that bound was set with the runs in "
    f"hand. Fewer than {MIN_SEEDS} seeds are "
    f"not judged; below {FIRM_SEEDS} a verdict is provisional. The ranks of n seeds have a p of at "
    "least 2^(1-n), before the correction."
)


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
        if not self.count and self.diverged:
            return f"all {self.diverged} diverged"
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
    detectable: float  # the smallest true difference seen with power 0.8 at level 0.05
    count: int  # seeds
    diverged: int = 0  # seeds among them in which one of the two runs diverged
    median: float = nan
    p_mean: float = 1.0  # of Student's test
    p_rank: float = 1.0  # of Wilcoxon's
    rank: float = 0.0  # the sum of signed ranks; its sign is what Wilcoxon's test says

    def text(self, digits: int) -> str:
        """Return the difference with its interval."""
        if not self.count:
            return "nothing to compare"
        if not isfinite(self.low):
            return f"{self.mean:+.{digits}f} [{self.count} seed]"
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


def paired_difference(first: BySeed, second: BySeed, worst: float = nan) -> Difference:
    """Return first - second over the seeds both have; a run that diverged has the value ``worst``.

    Without a ``worst`` its seed is left out.

    Examples:
        >>> paired_difference({1: 3.0, 2: 5.0}, {1: 2.0, 2: 4.0, 3: 9.0}).text(1)
        '+1.0 [+1.0, +1.0]'
        >>> found = paired_difference({1: nan, 2: 5.0}, {1: 2.0, 2: 4.0}, worst=9.0)
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
    return replace(_interval(np.asarray(d, dtype=np.float64).tobytes()), diverged=diverged)


@lru_cache(maxsize=2**13)  # a table and its verdicts ask for the same
def _interval(values: bytes) -> Difference:
    from scipy.special import stdtr, stdtrit

    d, diverged = np.frombuffer(values), 0
    n = len(d)
    mean, middle = (float(np.mean(d)), float(np.median(d))) if n else (nan, nan)
    if n < 2:
        return Difference(mean, -inf, inf, inf, n, diverged, middle)
    error = float(d.std(ddof=1)) / sqrt(n)
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
    p_mean = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else float(mean == 0.0)
    ranks = (*_signed_ranks(d),)
    ends = (mean - half, mean + half)
    return Difference(mean, *ends, DETECTABLE * error, n, diverged, middle, p_mean, *ranks)


def _signed_ranks(d: Array) -> tuple[float, float]:
    """Return the p-value of Wilcoxon's test and the sum of signed ranks.

    For few differences all signs are gone through, as scipy does where there are ties, which takes
    it seconds.
    """
    from scipy.stats import rankdata, wilcoxon

    if not d.any():
        return 1.0, 0.0
    ranks = rankdata(np.abs(d))
    total = float(np.sign(d) @ ranks)
    if len(d) > EXACT_RANKS:
        return float(wilcoxon(d, zero_method="pratt").pvalue), total
    flips = 1.0 - 2.0 * (np.arange(2 ** len(d))[:, None] >> np.arange(len(d)) & 1)
    sums = flips @ (ranks * (d != 0.0))  # of every way to give the differences signs
    return float(np.mean(np.abs(sums) > abs(total) - 0.25)), total  # sums are multiples of 1/2


def by_seed(records: Iterable[Record], metric: str) -> dict[int, float]:
    """Return the metric of each seed, NaN where the run diverged."""
    values = {record.run.seed: float(record.metrics[metric]) for record in records}
    return {seed: x if abs(x) <= DIVERGED_ABOVE else nan for seed, x in values.items()}


def average(schemes: Sequence[BySeed]) -> dict[int, float]:
    """Return the mean over schemes for every seed that all have.

    Examples:
        >>> average([{1: 1.0, 2: 2.0}, {1: 3.0}])
        {1: 2.0}
    """
    seeds = set.intersection(*(set(scheme) for scheme in schemes))
    return {s: float(np.mean([scheme[s] for scheme in schemes])) for s in sorted(seeds)}


@dataclass(frozen=True)
class Measure:
    """A metric as a table of schemes shows it, and what is claimed of it."""

    metric: str  # its name in the records
    title: str  # its name in the table
    digits: int  # after the point
    printed: Callable[[str], str] = lambda name: ""  # the paper's number of a scheme, or nothing
    better: Direction = "lower"  # where a scheme is claimed to be
    noun: str = ""  # its name in a claim


def printed_column(printed: Mapping[str, Sequence[str]], place: int) -> Callable[[str], str]:
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
    runs = {record.run.scheme: record.run for record in records}
    schemes = {name: Scheme.of(run) for name, run in runs.items()}
    return dict(sorted(schemes.items(), key=lambda item: (sort_key(item[1]), item[0])))


def rivals(records: Iterable[Record]) -> dict[str, str]:
    """Return for each MPGD scheme the name of the Gaussian it is compared with, if it is there."""
    schemes = schemes_of(records)
    names = {scheme: name for name, scheme in reversed(schemes.items())}
    gaussians = {
        name: gaussian_of(scheme, schemes.values())
        for name, scheme in schemes.items()
        if scheme.kind == "mpgd"
    }
    return {name: names[gaussian] for name, gaussian in gaussians.items() if gaussian}


@dataclass(frozen=True)
class Verdict:
    """What the runs say about a claim; `holm_corrected` adjusts the p-values of a family."""

    claim: str
    direction: Direction
    difference: Difference
    p: tuple[float, float] | None = None  # of the mean and of the ranks, corrected
    family_size: int = 1  # how many claims are judged together

    @property
    def word(self) -> str:
        """Supported, contradicted, mixed or undecided."""
        d = self.difference
        if d.count < MIN_SEEDS:
            return "undecided"
        means, ranks = self.p or (d.p_mean, d.p_rank)
        significant = [p < SIGNIFICANCE for p in (means, ranks)]
        if not any(significant):
            return "undecided"
        if not all(significant) or (d.mean > 0) != (d.rank > 0):
            return "mixed"
        return "supported" if (d.mean < 0) == (self.direction == "lower") else "contradicted"

    @property
    def is_provisional(self) -> bool:
        """Whether there are so few seeds that more may well change it."""
        return self.difference.count < FIRM_SEEDS

    @property
    def label(self) -> str:
        """The word as a page shows it: with few seeds it is provisional."""
        word = self.word
        return f"provisionally {word}" if self.is_provisional and word != "undecided" else word

    @property
    def deciding_seeds(self) -> float:
        """How many seeds would decide it with power 0.8, if the difference is as measured.

        Bonferroni's level stands for Holm's. It is 0 where the claim is decided.
        """
        from scipy.special import ndtri

        d = self.difference
        if self.word != "undecided" or not isfinite(d.detectable):
            return 0.0
        factor = ndtri(1 - SIGNIFICANCE / 2 / self.family_size) + ndtri(POWER)
        error = d.detectable / DETECTABLE
        return d.count * (factor * error / d.mean) ** 2 if d.mean else inf

    def reason(self, digits: int) -> str:
        """Return the numbers it rests on."""
        d = self.difference
        p_mean, p_rank = self.p or (d.p_mean, d.p_rank)
        text = f"{d.text(digits)}, median {d.median:+.{digits}f}, {d.count} seed"
        text += "" if d.count == 1 else "s"
        text += f", {d.diverged} with a run that diverged" if d.diverged else ""
        if d.count < MIN_SEEDS:
            return text + ", too few for a verdict"
        text += f", p {p_mean:.2g} (mean) and {p_rank:.2g} (ranks)"
        text += f" corrected for {self.family_size} claims" if self.family_size > 1 else ""
        text += ", provisional" if self.is_provisional else ""
        if self.word == "undecided" and isfinite(d.detectable):
            text += f"; the smallest difference they could have seen is {d.detectable:.{digits}f}"
        return text

    def text(self, digits: int) -> str:
        """Return the verdict with its reason."""
        return f"{self.claim}: {self.word}, {self.reason(digits)}"


def holm_corrected(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts that are judged together, with p-values corrected for their number."""
    every = list(verdicts)
    means = holm([one.difference.p_mean for one in every])
    ranks = holm([one.difference.p_rank for one in every])
    return [
        replace(one, p=p, family_size=len(every))
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
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raised)) if len(given) else raised
    return [float(value) for value in adjusted]


def judge_claim(
    text: str, direction: Direction, ours: Groups, theirs: Groups, metric: str
) -> Verdict:
    """Return the verdict on the mean over the schemes ``ours`` against that over ``theirs``."""
    groups = [[by_seed(each, metric) for each in part] for part in (ours, theirs)]
    worst = worst_of([scheme for part in groups for scheme in part], direction)
    filled = [[_filled(scheme, worst) for scheme in part] for part in groups]
    lost = {s for part in groups for one in part for s, x in one.items() if not isfinite(x)}
    first, second = (average(part) for part in filled)
    difference = paired_difference(first, second)
    return Verdict(text, direction, replace(difference, diverged=len(lost & set(first))))


def _filled(scheme: dict[int, float], worst: float) -> dict[int, float]:
    return {seed: x if isfinite(x) else worst for seed, x in scheme.items()}
