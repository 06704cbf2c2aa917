"""What memory does to a tail index: rows in order of time against rows without it.

For independent rows of mean zero with block sums S of m rows,

    g = (E log|S| - E log|X|) / log m = 1/alpha

but g grows with memory too: sums of correlated rows are large because their signs agree, not
because a tail is heavy. A Gaussian AR(1) of coefficient 0.5 reads alpha = 1.4 at n = 500 and 1.55
at n = 10,000. The order of time makes the difference, so it can be taken away:

    shuffled   the same rows in random orders. If rows are independent, the order given is one of
               them, so a value of g outside of what they give (Student, level 1e-4) is memory.
    strided    a block has rows as far apart as they can be, n/m. What is left is the tail of one
               row. Neighbouring blocks still share their memory, so the interval is Student's over
               8 stretches of time. It holds if the memory is short beside n/8.

An estimator that does not see the order has the same value in any, but its interval supposes
independence. With memory it gets the jackknife's, that leaves out one of the 8 stretches at a time.
"""

from collections.abc import Callable
from math import cos, inf, log, pi, sin, sqrt, tan

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Triple = tuple[float, float, float]
Estimator = Callable[[Array, float], Triple]

SHUFFLES = 19
SURPRISE = 4.97  # Student's two-sided quantile of level 1e-4 with SHUFFLES - 1 degrees of freedom
STRETCHES = 8  # `_student` has their degrees of freedom, 7


class DependenceWarning(UserWarning):
    """Rows are not independent, and the tail index that was read is in part their memory.

    Examples:
        >>> issubclass(DependenceWarning, UserWarning)
        True
    """


def growth(x: Array, strided: bool = False) -> Array:
    """Return g of each block of m = floor(n^0.4) rows, consecutive or as far apart as can be."""
    m = int(len(x) ** 0.4)
    count = len(x) // m
    kept, d = x[: count * m], x.shape[1]
    far = kept.reshape(m, count, d).swapaxes(0, 1)
    blocks = far if strided else kept.reshape(count, m, d)
    sums = blocks.sum(axis=1)
    if zeros := int(np.sum(blocks == 0.0) + np.sum(sums == 0.0)):
        raise ValueError(
            f"log_moments needs samples and block sums other than 0, but {zeros} are 0"
        )
    logs = np.log(np.abs(sums)) - np.log(np.abs(blocks)).mean(axis=1)
    return np.asarray(logs.mean(axis=1) / log(m))


def shuffled(x: Array, seed: int) -> tuple[float, bool]:
    """Return the mean of 1/alpha over random orders of the rows, and whether ours is one of them.

    Rows are moved whole, so coordinates may depend on each other as they like.
    """
    rng = np.random.default_rng(seed)
    means = [float(growth(rng.permutation(x)).mean()) for _ in range(SHUFFLES)]
    center = float(np.mean(means))
    spread = float(np.std(means, ddof=1)) * sqrt(1.0 + 1.0 / SHUFFLES)
    return center, abs(float(growth(x).mean()) - center) <= SURPRISE * spread


def strided(x: Array, level: float) -> Triple:
    """Return alpha and its interval from rows that are far apart in time."""
    each = growth(x, strided=True)
    stretches = [float(part.mean()) for part in np.array_split(each, STRETCHES)]
    half = _student(level) * float(np.std(stretches, ddof=1)) / sqrt(STRETCHES)
    center = float(each.mean())
    return inverse(center), inverse(center + half), inverse(center - half)


def jackknife(estimator: Estimator, x: Array, z: float, level: float) -> Triple:
    """Return an estimate with the interval that leaves out one stretch of time after the other.

    It is never narrower than that of independent rows.
    """
    value, low, high = estimator(x, z)
    parts = np.array_split(np.arange(len(x)), STRETCHES)
    without = [estimator(np.delete(x, part, axis=0), z)[0] for part in parts]
    scatter = float(np.std(without)) * sqrt(STRETCHES - 1.0)
    half = _student(level) * scatter
    return value, min(low, value - half), max(high, value + half)


def inverse(gamma: float) -> float:
    """Return 1/gamma, and infinity where gamma is not positive."""
    return 1.0 / gamma if gamma > 0.0 else inf


def _student(level: float) -> float:
    """Return Student's two-sided quantile with 7 degrees of freedom, by bisection of its law.

    With t = sqrt(7) tan a: P(|T| < t) = (2/pi)(a + sin a (cos a + 2/3 cos^3 a + 8/15 cos^5 a)).
    """
    low, high = 0.0, pi / 2.0
    for _ in range(60):
        a = (low + high) / 2.0
        c = cos(a)
        inside = 2.0 / pi * (a + sin(a) * (c + 2.0 / 3.0 * c**3 + 8.0 / 15.0 * c**5))
        low, high = (a, high) if inside < level else (low, a)
    return sqrt(STRETCHES - 1.0) * tan((low + high) / 2.0)
