"""Renyi divergence and mutual information: the information terms of Theorem 4.2.

For laws mu and nu with densities p and q, and rho > 0, rho not 1,

    D_rho(mu, nu) = log( sum p^rho q^(1-rho) ) / (rho - 1)
    D_1  = sum p log(p / q)         Kullback and Leibler's, the limit of rho -> 1
    D_oo = log max p / q            the limit of rho -> infinity
    I_rho(X, Y) = D_rho(law of (X, Y), law of X times law of Y)

On finite alphabets these are sums, in closed form; so they are for two normal variables of
correlation r (`gaussian_information`), where I_1 = -log(1 - r^2)/2 and I_rho is infinite from
rho = 1 + 1/|r| on. From samples of a finite alphabet, `information_from_samples` puts frequencies
in place of probabilities. Its bias falls like 1/n: for rho = 1 it is about (k - 1)(l - 1) / (2 n),
with k and l values of X and Y, which is taken off (Miller and Madow's correction).

Reference: Lim, Wan & Simsekli (2022), Section 4.2; Renyi (1961); Miller (1955).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.parameters import check_real

Array = NDArray[np.float64]


def renyi_divergence(p: ArrayLike, q: ArrayLike, rho: float = 1.0) -> float:
    """Return D_rho of two laws on the same finite alphabet.

    Args:
        p: probabilities, non-negative, of sum 1; any shape.
        q: probabilities of the other law, of the same shape.
        rho: the order, positive; 1 is Kullback and Leibler's, ``math.inf`` the largest log ratio.

    Returns:
        A number of at least 0; infinite where p has mass and q has none, if rho >= 1.

    Raises:
        ValueError: no law, different shapes, or an order that is not positive.

    Examples:
        >>> round(renyi_divergence([0.5, 0.5], [0.9, 0.1], rho=2.0), 6)
        1.021651
        >>> math.isclose(renyi_divergence([0.5, 0.5], [0.9, 0.1], rho=math.inf), math.log(5.0))
        True
    """
    one, two = _law("p", p), _law("q", q)
    if one.shape != two.shape:
        raise ValueError(f"p and q must have the same shape, got {one.shape} and {two.shape}")
    return _divergence(one, _log(two), rho)


def mutual_information(joint: ArrayLike, rho: float = 1.0) -> float:
    """Return I_rho of two variables with the joint law ``joint``, (values of X, values of Y).

    Examples:
        >>> mutual_information([[0.25, 0.25], [0.25, 0.25]])  # independent
        0.0
        >>> mutual_information([[0.5, 0.0], [0.0, 0.5]], rho=math.inf) == math.log(2.0)
        True
    """
    law = _law("joint", joint)
    if law.ndim != 2:
        raise ValueError(f"joint must be (values of X, values of Y), got shape {law.shape}")
    log_product = _log(law.sum(axis=1, keepdims=True)) + _log(law.sum(axis=0, keepdims=True))
    return _divergence(law, log_product - math.log(law.sum()), rho)


def gaussian_information(r: float, rho: float = 1.0) -> float:
    """Return I_rho of two normal variables of correlation ``r``.

    With the quadratic forms A of the joint law and the identity of the product, the integral of
    p^rho q^(1-rho) is det(A)^(rho/2) / det(rho A + (1 - rho) I)^(1/2), where A has the eigenvalues
    1/(1+r) and 1/(1-r). It is finite while rho A + (1 - rho) I is positive: rho < 1 + 1/|r|. With
    t = rho - 1 this makes I_rho = -(log(1 - r^2) + log(1 - t^2 r^2) / t) / 2.

    Examples:
        >>> gaussian_information(0.0, rho=2.0)
        0.0
        >>> round(gaussian_information(0.6), 6)  # -log(1 - r^2) / 2
        0.223144
    """
    r = check_real("r", r, "(-1, 1)", -1.0, 1.0, "()")
    rho = check_real("rho", rho, "(0, inf]", 0.0, math.inf, "(]")
    if r == 0.0:
        return 0.0
    if rho == 1.0:
        return -0.5 * math.log((1.0 - r) * (1.0 + r))
    if rho >= 1.0 + 1.0 / abs(r):
        return math.inf
    t = rho - 1.0
    return -0.5 * (math.log((1.0 - r) * (1.0 + r)) + math.log1p(-((t * r) ** 2)) / t)


def information_from_samples(x: ArrayLike, y: ArrayLike, rho: float = 1.0) -> float:
    """Return an estimate of I_rho from samples of two variables with few values.

    Frequencies stand for probabilities. At rho = 1 the bias (k-1)(l-1)/(2n) is taken off, where k
    and l are the numbers of values seen; at other orders it is not known, and stays. The estimate
    is worth something if n is much larger than k l.

    Args:
        x: labels, (n,), integers or strings.
        y: labels of the other variable, drawn together with those of x.
        rho: the order.

    Examples:
        >>> information_from_samples([0, 1, 0, 1] * 500, [0, 0, 1, 1] * 500)
        0.0
    """
    one, two = np.asarray(x), np.asarray(y)
    if one.ndim != 1 or one.shape != two.shape or one.size == 0:
        raise ValueError(
            f"x and y must be labels of equal number, got shapes {one.shape} and {two.shape}"
        )
    kinds_x, i = np.unique(one, return_inverse=True)
    kinds_y, j = np.unique(two, return_inverse=True)
    counts = np.zeros((len(kinds_x), len(kinds_y)))
    np.add.at(counts, (i, j), 1.0)
    value = mutual_information(counts / counts.sum(), rho)
    bias = (len(kinds_x) - 1) * (len(kinds_y) - 1) / (2.0 * len(one)) if rho == 1.0 else 0.0
    return max(0.0, value - bias)


def _divergence(p: Array, log_q: Array, rho: float) -> float:
    """Return D_rho of p from q, given by its logarithms, which may be below those of all floats.

    With x = log(p / q) and t = rho - 1, D_rho = log(mean of exp(t x)) / t, the mean under p. Near
    t = 0 exp(t x) - 1 is summed instead, so that no digits are lost.
    """
    rho = check_real("rho", rho, "(0, inf]", 0.0, math.inf, "(]")
    here = p > 0.0
    p, x = p[here] / p.sum(), np.log(p[here]) - log_q[here]
    lost = x == math.inf
    if lost.all() or (rho >= 1.0 and lost.any()):
        return math.inf
    if rho == math.inf:
        return max(0.0, float(x.max()))
    t, missing, p, x = rho - 1.0, float(p[lost].sum()), p[~lost], x[~lost]
    if t == 0.0:
        return max(0.0, float((p * x).sum()))
    if float(np.abs(t * x).max()) < 1.0:
        return max(0.0, math.log1p(float((p * np.expm1(t * x)).sum()) - missing) / t)
    exponents = np.log(p) + t * x
    top = float(exponents.max())
    return max(0.0, (top + math.log(float(np.exp(exponents - top).sum()))) / t)


def _log(p: Array) -> Array:
    """Return the logarithms of probabilities, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p), dtype=np.float64)


def _law(name: str, values: ArrayLike) -> Array:
    law = np.asarray(values, dtype=np.float64)
    if law.size == 0 or not (law >= 0.0).all() or not math.isclose(law.sum(), 1.0, rel_tol=1e-9):
        raise ValueError(
            f"{name} must be non-negative and sum to 1, got {law.size} entries of sum "
            f"{law.sum():.6g}"
        )
    return law
