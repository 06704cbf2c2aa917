"""The autocovariance R(n) = E[v_k v_(k+n)] of chaotic noise.

Two values share their sign up to one factor per visit to Z between them, so with
N = number of visits at times k ... k + n - 1 and R_t(n) = E[t^N v(y_k) v(y_(k+n))],

    fresh signs:    R = (1 - beta^2) R_0 + beta^2 R_1
    product signs:  R = R_beta

R_0 needs an orbit that stays left of y* for n steps, which gives the closed form

    R_0(n) = c0^2 H(x_n) + c0 c1 (H(x_(n-1)) - H(x_n)),     x_n = Y(n + 1),  n >= 1.

For other t, let phi_n be t^N v summed over all pasts, relative to the invariant density (the
transfer operator with a factor t on the right branch). On Z it solves a renewal equation,

    phi_n(y) = c0 W_n(y) + t sum_(k=1..n) W_(k-1)(y) w(x_(k-1)) phi_(n-k)(r(x_(k-1)))

x_k = Y(A(y) + k) the k-th left preimage, W_k(y) = dH(x_k)/dH(y), w(x) = dH(r)/dH(x) the weight
of the right preimage r. phi is smooth, so 24 Gauss nodes on Z are exact to rounding. The sums
over Z give the total mass m_n = m_(n-1) - (1 - t) int_Z phi_(n-1) dH and from it R_t(n).

Where phases have a longest one (`mpgd.noise.capped`), H(x_n) in the closed form is the probability
of more than n steps to go, and other t are not offered.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mpgd.maps import ThalerMap
from mpgd.noise.capped import capped_law
from mpgd.noise.driver import values
from mpgd.parameters import check_integer

Array = NDArray[np.float64]

NODES = 24
LONGEST_LAG = 20_000  # the renewal equation takes a time quadratic in the lag


def autocovariance(
    gamma: float,
    beta: float,
    signs: str,
    lags: ArrayLike | Tensor,
    longest: int | None = None,
    burst: bool = True,
) -> Tensor:
    """Return R at every lag, a float64 tensor of the shape of ``lags``."""
    n = check_lags(lags)
    t, weight = (beta, 1.0) if signs == "product" else (1.0, beta**2)
    result = closed_form(gamma, n, longest, burst)
    if weight and t:
        if longest is not None:
            raise ValueError(
                f"the autocovariance of noise with a longest phase is known for beta = 0 only, got "
                f"beta={beta} and longest={longest}; estimate it from `path`"
            )
        top = check_integer(
            "lags (at most, unless beta = 0)", int(n.max(initial=0)), 0, LONGEST_LAG
        )
        result = (1.0 - weight) * result + weight * twisted(gamma, t, top)[n]
    return torch.from_numpy(np.asarray(result, dtype=np.float64))


def check_lags(lags: ArrayLike | Tensor) -> NDArray[np.int64]:
    """Return lags as an array of integers, none below 0."""
    n = np.asarray(lags)
    if n.dtype.kind not in "iu":
        raise TypeError(f"lags must be integers, got {lags!r}")
    check_integer("lags", int(n.min(initial=0)), 0)
    return n


def root_mean_square_sum(R: Tensor, steps: int) -> float:
    """Return the root of E[(v_0 + ... + v_(N-1))^2] = N R(0) + 2 sum of (N - n) R(n), N steps."""
    weights = 2.0 * torch.arange(steps, 0, -1, dtype=torch.float64)
    return math.sqrt(max(0.0, float((weights * R[:steps]).sum()) - steps * float(R[0])))


def closed_form(
    gamma: float, n: NDArray[np.int64], longest: int | None = None, burst: bool = True
) -> Array:
    """Return R_0(n), the covariance of fresh signs at beta = 0."""
    T, (c0, c1) = ThalerMap(gamma), values(gamma, longest, burst)
    later = np.maximum(n, 1)
    tail = T.cdf(T.abel_inverse(later + 1.0))
    before = T.cdf(T.abel_inverse(later * 1.0))
    p = T.burst_probability
    if longest is not None:
        law = capped_law(gamma, longest)
        tail, before, p = law.tail(later + 1, tail), law.tail(later, before), law.burst_probability
    at_zero = (1 - p) * c0**2 + p * c1**2
    return np.where(n == 0, at_zero, c0**2 * tail + c0 * c1 * (before - tail))


@lru_cache(maxsize=32)
def twisted(gamma: float, t: float, top: int) -> Array:
    """Return R_t(0), ..., R_t(top) from the renewal equation on Z."""
    T, (c0, c1) = ThalerMap(gamma), values(gamma)
    y, weights = _gauss(T)
    unbroken, kernels = _kernels(T, y, top)
    phi = np.empty((top + 1, NODES))
    phi[0] = c1
    for n in range(1, top + 1):
        past = np.einsum("kij,kj->i", kernels[:n], phi[n - 1 :: -1])
        phi[n] = c0 * unbroken[n] + t * past
    in_Z = phi @ weights
    mass = -(1.0 - t) * np.concatenate([[0.0], np.cumsum(in_Z[:-1])])
    return np.asarray(c0 * mass + (c1 - c0) * in_Z)


@lru_cache(maxsize=32)
def twisted_mean(gamma: float, t: float, top: int) -> Array:
    """Return E[t^N v(y_k)] for k = 0, ..., top, N the visits to Z before step k.

    The same renewal equation as in `twisted`, begun with 1 instead of v.
    """
    T, (c0, c1) = ThalerMap(gamma), values(gamma)
    y, weights = _gauss(T)
    unbroken, kernels = _kernels(T, y, top)
    phi = np.ones((top + 1, NODES))
    for n in range(1, top + 1):
        phi[n] = unbroken[n] + t * np.einsum("kij,kj->i", kernels[:n], phi[n - 1 :: -1])
    in_Z = phi @ weights
    mass = 1.0 - (1.0 - t) * np.concatenate([[0.0], np.cumsum(in_Z[:-1])])
    return np.asarray(c0 * mass + (c1 - c0) * in_Z)


def _gauss(T: ThalerMap) -> tuple[Array, Array]:
    """Return Gauss nodes on Z and their weights with respect to H."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    half = (1.0 - T.y_star) / 2
    y = T.y_star + half * (1 + x)
    return y, w * half * T.density(y)


def _kernels(T: ThalerMap, y: Array, top: int) -> tuple[Array, Array]:
    """Return W_k at the nodes, (k, node), and the matrices of the sum, (k, node, node)."""
    x = T.abel_inverse(T.abel(y)[None, :] + np.arange(top + 1)[:, None])
    left, right = x**-T.gamma, (1 + x) ** -T.gamma
    keep = left / (left + right)
    unbroken = np.concatenate([np.ones((1, NODES)), np.cumprod(keep[:-1], axis=0)])
    entry = T.quantile(((1 + x) / 2) ** T.e)
    scale = unbroken * right / (left + right)
    return unbroken, scale[:, :, None] * _interpolation(y, entry)


def _interpolation(nodes: Array, points: Array) -> Array:
    """Return the Lagrange basis of ``nodes`` at ``points``, (*points, node)."""
    scaled = nodes / (nodes[-1] - nodes[0]) * 4  # capacity 1: the products stay near 1
    gaps = scaled[:, None] - scaled[None, :]
    np.fill_diagonal(gaps, 1.0)
    distance = points[..., None] / (nodes[-1] - nodes[0]) * 4 - scaled
    distance = np.where(distance == 0.0, 1e-300, distance)
    terms = 1.0 / (np.prod(gaps, axis=1) * distance)
    return np.asarray(terms / terms.sum(axis=-1, keepdims=True))
