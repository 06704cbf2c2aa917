"""What the networks say of the paper's two claims, from differences paired by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments.generalization.runs import GAMMAS, MPGD
from mpgd.experiments.statistics import Difference
from mpgd.experiments.statistics import interval as bootstrapped
from mpgd.experiments.store import Record

Array = NDArray[np.float64]
Records = Mapping[str, Record]  # of every scheme, on one data set


@dataclass(frozen=True)
class Verdict:
    """What a paired difference says about a claim that it is negative."""

    claim: str
    difference: Difference

    @property
    def word(self) -> str:
        """Supported, contradicted or undecided."""
        if self.difference.low <= 0.0 <= self.difference.high:
            return "undecided"
        return "supported" if self.difference.high < 0.0 else "contradicted"

    @property
    def reason(self) -> str:
        """The numbers it comes from."""
        found = self.difference
        text = f"{found.mean:+.3g} [{found.low:+.3g}, {found.high:+.3g}]"
        if self.word == "undecided":
            text += f"; a difference of {found.visible:.3g} would have been seen (power 0.8)"
        return text

    def __str__(self) -> str:
        return f"{self.claim}: {self.word}; {self.reason}"


def judge(claim: str, differences: Array) -> Verdict:
    """Return the verdict from one difference for each seed."""
    return Verdict(claim, bootstrapped(differences))


def verdicts(records: Records) -> list[Verdict]:
    """Return the verdicts on the paper's two claims for one data set."""
    gaps, late = (
        np.array([records[scheme].curves[key] for scheme in MPGD])
        for key in ("worst_gap", "late_gap")
    )
    traces = {scheme: np.array(records[scheme].curves["hessian_trace"]) for scheme in records}
    mpgd = np.mean([traces[scheme] for scheme in MPGD], axis=0)
    return [
        judge("smaller alpha, smaller gap", fitted_change(gaps)),
        judge("smaller alpha, smaller gap, second half", fitted_change(late)),
        judge("MPGD lowers the Hessian, against descent", mpgd - traces["descent"]),
        judge("MPGD lowers the Hessian, against Gaussian noise", mpgd - traces["gaussian"]),
    ]


def fitted_change(gaps: Array) -> Array:
    """Return for every seed a line's change from the largest alpha to the smallest."""
    alpha = 1.0 / np.array(GAMMAS)
    centered = alpha - alpha.mean()
    slope = centered @ gaps / (centered @ centered)
    return np.asarray(slope * (alpha.min() - alpha.max()))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of a scheme's seeds and the ends of its bootstrap interval."""
    found = bootstrapped(np.asarray(values, dtype=np.float64))
    return found.mean, found.low, found.high
