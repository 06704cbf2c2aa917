"""What the networks say of the paper's two claims, from differences paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments.generalization.runs import GAMMAS, MPGD
from mpgd.experiments.store import Record

Array = NDArray[np.float64]
Records = Mapping[str, Record]  # of every scheme, on one data set

RESAMPLES: Final = 10_000
VISIBLE: Final = 1.96 + 0.84  # standard errors: seen with probability 0.8 at level 0.05


@dataclass(frozen=True)
class Verdict:
    """What a paired difference says about a claim that it is negative.

    Attributes:
        claim: the claim in words.
        effect: the mean difference.
        low: the lower end of its 95 % bootstrap interval.
        high: the upper end.
        visible: the smallest difference seen with probability 0.8.
    """

    claim: str
    effect: float
    low: float
    high: float
    visible: float

    @property
    def word(self) -> str:
        """Supported, contradicted or undecided."""
        if self.low <= 0.0 <= self.high:
            return "undecided"
        return "supported" if self.high < 0.0 else "contradicted"

    def __str__(self) -> str:
        text = f"{self.claim}: {self.word}; {self.effect:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"
        if self.word == "undecided":
            text += f"; a difference of {self.visible:.3g} would have been seen (power 0.8)"
        return text


def judge(claim: str, differences: Array) -> Verdict:
    """Return the verdict from one difference for each seed."""
    n = len(differences)
    draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    visible = VISIBLE * float(np.std(differences, ddof=1)) / sqrt(n)
    return Verdict(claim, float(differences.mean()), float(low), float(high), visible)


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
    judged = judge("", np.asarray(values, dtype=np.float64))
    return judged.effect, judged.low, judged.high
