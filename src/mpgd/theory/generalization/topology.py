"""How complex a trajectory is as a set of points, and what that says of its worst gap.

For a finite set of parameters w_1, ..., w_k with a (pseudo-)metric rho:

    E_alpha = sum of |e|^alpha over the edges e of the minimal spanning tree
    weights b(s):  sum_j exp(-s rho(w_i, w_j)) b_j = 1 for every i
    magnitude = sum of all b_j,   positive magnitude = sum of those above 0

E_alpha is the alpha-weighted lifetime sum of zero-dimensional persistent homology. Andreeva et al.
(2024) bound the worst gap of a trajectory by these two. Their constants are not used here:
`topological_bound` has constants of our own, and this is its proof.

Assumptions. The n examples are independent, of one law; the loss l lies in [0, B], and
|l(w, z) - l(w', z)| <= L rho(w, w') for all z. W is the trajectory, S the data, and
I = I_oo(S, W) as in Theorem 4.2. D(w) is empirical minus population risk.

1. It is enough to treat a W that does not depend on S, with delta exp(-I) for delta: by the
   definition of I_oo, an event has at most exp(I) times the chance it has for independent S and W.
   From here W is fixed, so what is optimised below may depend on W.
2. D is 2L-Lipschitz. By Hoeffding P(|D(w)| > t) <= 2 exp(-2 n t^2 / B^2) and
   E exp(+-lambda D(w)) <= exp(lambda^2 B^2 / (8n)).
3. Number of points. The union over all k: sup|D| <= B sqrt((log(2k) + I + log(1/delta)) / (2n)).
4. Lifetimes, 0 < alpha <= 1. Take a largest set of N points with distances above eps: all others
   are within eps of it, so sup|D| <= 2 L eps + (step 3 with N for k). Walk around the tree, twice
   along each edge. If N > 1 the walk makes N hops between such points, each of rho^alpha >
   eps^alpha, at most the sum of |e|^alpha on its way: N eps^alpha < 2 E_alpha.
5. Positive magnitude, s = 2 L lambda. For each i, leaving out the negative b_j,
   exp(lambda D(w_i)) <= sum_j b_j^+ exp(lambda D(w_i) - s rho(w_i, w_j))
   <= sum_j b_j^+ exp(lambda D(w_j)), so E exp(lambda sup|D|) <= 2 PMag exp(lambda^2 B^2 / (8n)),
   and by Markov sup|D| <= (log(2 PMag) + I + log(1/delta)) / lambda + lambda B^2 / (8n).

Reference: Andreeva, Dupuis, Sarkar, Birdal & Simsekli (2024); Leinster (2013) for magnitude.
"""

from dataclasses import dataclass
from math import inf, isfinite, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.parameters import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    check_real,
)

Array = NDArray[np.float64]

METRICS = ("euclidean", "precomputed")
LAMBDAS = 16  # values of lambda that are tried
RADII = 64  # values of eps that are tried
NEAR = 1e-9  # of the largest distance; nearer points count as one
WIDEST = 2.0**16  # ratio of the largest to the smallest eps


@dataclass(frozen=True)
class TopologicalBound:
    """Three bounds on one worst gap: by number of points, lifetimes, and positive magnitude.

    Examples:
        >>> TopologicalBound(number=0.5, lifetime=0.25, magnitude=0.375).value
        0.25
    """

    number: float
    lifetime: float
    magnitude: float

    @property
    def value(self) -> float:
        """The smallest of the three; it is a bound too."""
        return min(self.number, self.lifetime, self.magnitude)


def lifetime_sum(points: ArrayLike, alpha: float = 1.0, *, metric: str = "euclidean") -> float:
    """Return E_alpha, the sum of |e|^alpha over the edges of the minimal spanning tree.

    Args:
        points: (point, coordinate), or all distances (point, point) if ``metric="precomputed"``.
        alpha: the power, positive.
        metric: "euclidean", or "precomputed" for a (pseudo-)metric of your own.

    Raises:
        ValueError: a wrong shape, values that are not finite, or no distances.

    Examples:
        >>> lifetime_sum([[0.0], [1.0], [3.0]], alpha=2.0)
        5.0
        >>> lifetime_sum([[0.0, 2.0], [2.0, 0.0]], metric="precomputed")
        2.0
    """
    alpha = check_positive("alpha", alpha)
    return float((_tree_edges(_distances(points, metric)) ** alpha).sum())


def magnitude(points: ArrayLike, scale: float, *, metric: str = "euclidean") -> float:
    """Return the magnitude of the set, with all distances multiplied by ``scale``.

    It lies between 1, for a set that is one point at this scale, and, for Euclidean points, their
    number. Points within 1e-9 of the largest distance of another count once: of the weights of
    such points their sum alone is more than rounding.

    Args:
        points: (point, coordinate), or all distances (point, point) if ``metric="precomputed"``.
        scale: s, positive.
        metric: "euclidean", or "precomputed" for a (pseudo-)metric of your own.

    Raises:
        ValueError: the weights are not defined at this scale: this happens for some metrics.

    Examples:
        >>> import math
        >>> two = magnitude([[0.0], [1.0]], scale=3.0)  # 1 + tanh(s d / 2)
        >>> math.isclose(two, 1.0 + math.tanh(1.5))
        True
    """
    return float(_weights(points, scale, metric).sum())


def positive_magnitude(points: ArrayLike, scale: float, *, metric: str = "euclidean") -> float:
    """Return the sum of the positive weights of the set at ``scale``: see `magnitude`.

    Examples:
        >>> line = [[0.0], [0.5], [2.0]]  # on a line no weight is negative
        >>> positive_magnitude(line, 1.0) == magnitude(line, 1.0)
        True
    """
    b = _weights(points, scale, metric)
    return float(b[b > 0.0].sum())


def topological_bound(
    points: ArrayLike,
    n: int,
    *,
    bound: float,
    lipschitz: float,
    mutual_information: float,
    delta: float,
    alpha: float = 1.0,
    metric: str = "euclidean",
) -> TopologicalBound:
    """Bound the worst gap along a trajectory by the topology of its points.

    With probability 1 - delta, |empirical - population risk| is at most each of the three values,
    at every point. In the manner of Andreeva et al. (2024); constants and proof are ours,
    in the source of this function's module.

    Args:
        points: the trajectory W, (point, coordinate), or its distances.
        n: number of examples the empirical risk averages over.
        bound: B; the loss lies in [0, B].
        lipschitz: L of the loss in the parameters, in this metric, for every example.
        mutual_information: I_oo between these examples and W. It is 0 if W was trained on others:
            then this is a bound on how far a validation loss can mislead at any step. For the
            training set itself it is unknown, but for toy problems.
        delta: chance that the bound fails, in (0, 1).
        alpha: power of the lifetimes, in (0, 1].
        metric: "euclidean" or "precomputed"; it must not depend on the examples.

    Examples:
        >>> import numpy as np
        >>> path = np.random.default_rng(0).normal(size=(200, 3)).cumsum(axis=0) / 100.0
        >>> rules = {"bound": 1.0, "lipschitz": 1.0, "mutual_information": 0.0, "delta": 0.05}
        >>> found = topological_bound(path, 1000, **rules)
        >>> found.value < found.number
        True
    """
    n = check_integer("n", n, 1)
    B, L = check_positive("bound", bound), check_positive("lipschitz", lipschitz)
    I = check_nonnegative("mutual_information", mutual_information)  # noqa: E741
    delta = check_real("delta", delta, "(0, 1)", 0.0, 1.0, "()")
    alpha = check_real("alpha", alpha, "(0, 1]", 0.0, 1.0, "(]")
    rho = _distances(points, metric)
    chance = log(2.0) + I - log(delta)
    hoeffding = B / sqrt(2.0 * n)
    total = float((_tree_edges(rho) ** alpha).sum())
    radii = hoeffding / L * np.geomspace(1.0 / WIDEST, 1.0, RADII) * sqrt(WIDEST)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not the least
        packed = np.clip(2.0 * total / radii**alpha, 1.0, len(rho))
        return TopologicalBound(
            hoeffding * sqrt(log(len(rho)) + chance),
            float((2.0 * L * radii + hoeffding * np.sqrt(np.log(packed) + chance)).min()),
            _by_magnitude(rho, n, B, L, chance),
        )


def _by_magnitude(rho: Array, n: int, B: float, L: float, chance: float) -> float:
    """Return the least bound of step 5; lambda is best for complexities between one and all points.

    The step only asks for b >= 0 with sum_j exp(-s rho_ij) b_j >= 1. So the computed positive
    weights are scaled up until this holds in spite of rounding; where there are none, b = 1 is
    taken.
    """
    bounds = []
    for complexity in np.linspace(chance, chance + log(len(rho)), LAMBDAS):
        lam = sqrt(8.0 * n * complexity) / B
        b, off, kernel = _solved(2.0 * L * lam * rho)
        b = np.maximum(b, 0.0) if off < 0.5 else np.ones(len(rho))
        size = b.sum() / min(1.0, float((kernel @ b).min()))
        bounds.append((log(size) + chance) / lam + lam * B**2 / (8.0 * n))
    return min(filter(isfinite, bounds), default=inf)


def _distances(points: ArrayLike, metric: str) -> Array:
    """Return all distances, after checks, with one point for those at distance 0."""
    check_choice("metric", metric, METRICS)
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or len(x) == 0:
        raise ValueError(f"points must have shape (point, coordinate), got {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"points must be finite, got {x[~np.isfinite(x)][0]}")
    if metric == "euclidean":
        return _euclidean(np.unique(x, axis=0))
    _check_metric(x)
    kept = _apart(x, 0.0)
    return x[np.ix_(kept, kept)]


def _euclidean(x: Array) -> Array:
    """Return all distances of points, which may be huge, tiny or far from 0."""
    scale = 2.0 ** np.floor(np.log2(max(float(np.abs(x).max()), np.finfo(float).tiny)))
    x = x / scale  # by a power of 2, which is exact
    y = x - x[0]
    squares = (y**2).sum(axis=1)
    near = squares[:, None] + squares - 2.0 * y @ y.T
    rho = np.sqrt(np.maximum(near, 0.0))
    # The product cancels for near points: those are done again by their difference.
    for i, j in np.argwhere(near < 1e-6 * (squares[:, None] + squares)):
        rho[i, j] = np.linalg.norm(x[i] - x[j])
    with np.errstate(over="ignore"):
        rho = np.asarray(rho * scale, dtype=np.float64)
    if not np.isfinite(rho).all():
        raise ValueError("points must have finite distances, got one beyond the largest float")
    return rho


def _check_metric(rho: Array) -> None:
    """Raise unless ``rho`` is square, symmetric, non-negative and 0 on the diagonal."""
    if rho.shape[0] != rho.shape[1]:
        raise ValueError(f"points must be distances (point, point), got shape {rho.shape}")
    if (rho < 0.0).any() or np.diag(rho).any():
        raise ValueError(
            "points must be distances, at least 0 and 0 on the diagonal, got "
            f"{rho.min():g} at least and {np.abs(np.diag(rho)).max():g} on the diagonal"
        )
    if (off := float(np.abs(rho - rho.T).max())) > 0.0:
        raise ValueError(f"points must be symmetric distances, got a difference of {off:g}")


def _tree_edges(rho: Array) -> Array:
    """Return the edges of the minimal spanning tree: join the nearest point until none is left."""
    nearest = rho[0].copy()
    outside = np.ones(len(rho), dtype=bool)
    outside[0] = False
    edges = []
    for _ in range(len(rho) - 1):
        j = int(np.argmin(np.where(outside, nearest, np.inf)))
        edges.append(nearest[j])
        outside[j] = False
        nearest = np.minimum(nearest, rho[j])
    return np.array(edges)


def _weights(points: ArrayLike, scale: float, metric: str) -> Array:
    """Return b with sum_j exp(-scale rho_ij) b_j = 1."""
    scale = check_positive("scale", scale)
    rho = _distances(points, metric)
    kept = _apart(rho, NEAR * float(rho.max()))
    b, off, _ = _solved(scale * rho[np.ix_(kept, kept)])
    if not off < 1e-6:
        raise ValueError(
            f"scale must be one where the weights are defined, got {scale:g}: they miss their "
            f"equations by {off:.1g}"
        )
    return b


def _apart(rho: Array, least: float) -> list[int]:
    """Return points that are further than ``least`` from each other; all others are near one."""
    kept: list[int] = []
    for i in range(len(rho)):
        if not kept or rho[i, kept].min() > least:
            kept.append(i)
    return kept


def _solved(rho: Array) -> tuple[Array, float, Array]:
    """Return the weights of all distances, by how much they miss their equations, and the kernel.

    At a small scale the kernel is 1 - E with tiny E, and rounding would leave nothing of E. Then
    E c = 1 is solved: b = c / (sum of c - 1) has sum_j (1 - E_ij) b_j = 1.
    """
    kernel: Array = np.exp(-rho)
    is_small = len(rho) > 1 and float(rho.max()) < 1.0
    try:
        left = -np.expm1(-rho) if is_small else kernel
        b = np.asarray(np.linalg.solve(left, np.ones(len(rho))), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.zeros(len(rho)), 1.0, kernel
    with np.errstate(divide="ignore", invalid="ignore"):
        b = b / (b.sum() - 1.0) if is_small else b
        return b, float(np.abs(kernel @ b - 1.0).max()), kernel
