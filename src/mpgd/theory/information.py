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
        >>> renyi_divergence([0.5, 0.5], [0.9, 0.1], rho=math.inf) == math.log(5.0)
        True
    """
    one, two = _law("p", p), _law("q", q)
    if one.shape != two.shape:
        raise ValueError(f"p and q must have the same shape, got {one.shape} and {two.shape}")
    rho = check_real("rho", rho, "(0, inf]", 0.0, math.inf, "(]")
    here = one > 0.0
    a, b = one[here], two[here]
    if rho >= 1.0 and (b == 0.0).any():
        return math.inf
    if rho == 1.0:
        return max(0.0, float((a * np.log(a / b)).sum()))
    if rho == math.inf:
        return max(0.0, float(np.log((a / b).max())))
    both = b > 0.0
    if not both.any():
        return math.inf
    exponents = rho * np.log(a[both]) + (1.0 - rho) * np.log(b[both])
    top = float(exponents.max())
    return max(0.0, (top + math.log(float(np.exp(exponents - top).sum()))) / (rho - 1.0))


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
    product = law.sum(axis=1, keepdims=True) * law.sum(axis=0, keepdims=True)
    return renyi_divergence(law, product / product.sum(), rho)


def gaussian_information(r: float, rho: float = 1.0) -> float:
    """Return I_rho of two normal variables of correlation ``r``.

    With the quadratic forms A of the joint law and the identity of the product, the integral of
    p^rho q^(1-rho) is det(A)^(rho/2) / det(rho A + (1 - rho) I)^(1/2), where A has the eigenvalues
    1/(1+r) and 1/(1-r). It is finite while rho A + (1 - rho) I is positive: rho < 1 + 1/|r|.

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
    forms = [rho / (1.0 + s * r) + 1.0 - rho for s in (1.0, -1.0)]
    log_A = -math.log((1.0 - r) * (1.0 + r))
    return (0.5 * rho * log_A - 0.5 * math.log(forms[0] * forms[1])) / (rho - 1.0)


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


def _law(name: str, values: ArrayLike) -> Array:
    law = np.asarray(values, dtype=np.float64)
    if law.size == 0 or not (law >= 0.0).all() or not math.isclose(law.sum(), 1.0, rel_tol=1e-9):
        raise ValueError(
            f"{name} must be non-negative and sum to 1, got {law.size} entries of sum "
            f"{law.sum():.6g}"
        )
    return law
