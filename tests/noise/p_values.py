"""P-values of several comparisons together, and of means."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

Array = NDArray[np.float64]


def worst(p: ArrayLike) -> float:
    """Return the p-value of several comparisons together."""
    p = np.atleast_1d(p)
    return float(min(1.0, p.min() * p.size))


def mean_is(samples: Array, mean: ArrayLike) -> Array:
    """Return the p-values of ``mean``, one for each row of ``samples`` (row, orbit)."""
    error = samples.std(axis=-1) / np.sqrt(samples.shape[-1])
    return 2 * norm.sf(np.abs(samples.mean(axis=-1) - mean) / error)
