"""What the networks say of the paper's two claims, from differences paired by seed."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mpgd_lab import verdicts
from mpgd_lab.store import Record
from mpgd_lab.studies.generalization.runs import GAMMAS, MPGD
from mpgd_lab.verdicts import Verdict, holm_corrected

Array = NDArray[np.float64]
Records = Mapping[str, Record]  # of every scheme, on one data set


def verdict_blocks(records: Records) -> list[Verdict]:
    """Return the verdicts on the paper's two claims for one data set, judged together."""
    gaps, late = (
        np.array([records[scheme].curves[key] for scheme in MPGD])
        for key in ("worst_gap", "late_gap")
    )
    traces = {scheme: np.array(records[scheme].curves["hessian_trace"]) for scheme in records}
    mpgd = np.mean([traces[scheme] for scheme in MPGD], axis=0)
    differences = {
        "smaller alpha, smaller gap": fitted_change(gaps),
        "smaller alpha, smaller gap, second half": fitted_change(late),
        "MPGD lowers the Hessian, against descent": mpgd - traces["descent"],
        "MPGD lowers the Hessian, against Gaussian noise": mpgd - traces["gaussian"],
    }
    return holm_corrected(
        Verdict(claim, "lower", verdicts.interval(d)) for claim, d in differences.items()
    )


def fitted_change(gaps: Array) -> Array:
    """Return for every seed a line's change from the largest alpha to the smallest."""
    alpha = 1.0 / np.array(GAMMAS)
    centered = alpha - alpha.mean()
    slope = centered @ gaps / (centered @ centered)
    return np.asarray(slope * (alpha.min() - alpha.max()))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of a scheme's seeds and the ends of its interval."""
    result = verdicts.interval(np.asarray(values, dtype=np.float64))
    return result.mean, result.low, result.high
