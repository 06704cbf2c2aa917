"""The gap after descent with heavy-tailed noise, without an information term.

For k = 0, 1, ..., K - 1, a risk F of the data S, and xi_k with E exp(i <u, xi>) = exp(-|u|^alpha):

    W_(k+1) = W_k - eta (grad F(W_k) + decay W_k) + sigma eta^(1/alpha) xi_k

Dupuis & Simsekli (2024) bound the gap of the limit eta -> 0, an equation with heavy-tailed noise,
by a PAC-Bayes argument: the law of W is compared with that of the same equation without data. We
could read their released script, not their theorem: `heavy_tailed_estimate` is what the script
plots. `heavy_tailed_bound` follows the same idea for the steps themselves, with this proof.

Assumptions. |grad F(w)| <= L for all w and S; W_0 does not depend on S; 0 <= eta decay < 1; the
noise is isotropic, drawn anew at each step. The n examples are independent, of one law. The loss
whose gap is bounded lies in [0, B]; it need not be the one in F.

1. xi = sqrt(2 a) g, with g standard normal and a > 0 of E exp(-u a) = exp(-u^(alpha/2)); and
   E 1/a = Gamma(1 + 2/alpha), by integrating over u. Fix all a_k. The noise of step k is then
   normal, of variance v_k = 2 sigma^2 eta^(2/alpha) a_k in each direction.
2. Let r = 1 - eta decay, and let Y have the same start and noise, no data, and pushes c_k that
   depend on the past only: Y_(k+1) = r Y_k + c_k + noise. Without pushes its law is Q. By the
   chain rule, KL(law of Y_K, Q) <= sum_k E|c_k|^2 / (2 v_k). If Y_K = W_K, this bounds
   KL(law of W_K, Q).
3. Pushes c_k = -eta grad F(W_k) give Y = W at all times. By step 1 the cost is at most
   C K, with C = L^2 eta^(2 - 2/alpha) Gamma(1 + 2/alpha) / (4 sigma^2).
4. Only W_K has to be met. In units of the end, f_k = -r^(K-1-k) eta grad F(W_k), and
   u_k = r^(2(K-1-k)) v_k. Take r^(K-1-k) c_k = u_k sum_(j<=k) f_j / U_j with U_j = u_j + ... +
   u_(K-1). By induction what is left of W - Y before step k is U_k sum_(j<k) f_j / U_j, so nothing
   is left at the end, and the cost is sum_(i,j) <f_i, f_j> / (2 U_min(i,j)). By stability U_(K-m)
   is 2 sigma^2 eta^(2/alpha) q_m^(2/alpha) a in law, q_m = sum_(l<m) r^(alpha l). So the mean cost
   is at most C sum_m p_m q_m^(-2/alpha), with p_m = r^(m-1) (r^(m-1) + 2 sum_(l<m-1) r^l).
5. kappa is the smaller of the two costs. Q does not depend on S. With Hoeffding's lemma and
   Donsker and Varadhan's formula, and lambda chosen before the data are seen,
   |E(R - Rhat)| <= B sqrt((kappa + log(2/delta)) / (2n)) with probability 1 - delta over S, the
   mean being over the noise; and in the mean over S too, B sqrt(kappa / (2n)).

At alpha = 2 and decay 0 kappa is L^2 T / (4 sigma^2), with T = eta K, and equality holds where the
gradient is constant. For alpha > 1 kappa has a limit as eta -> 0 at fixed T: for decay 0 it is
L^2 T^(2 - 2/alpha) Gamma(1 + 2/alpha) alpha / (4 sigma^2 (alpha - 1)), for alpha < 2. With decay
it stays finite as T grows. No dimension enters, but L may grow with it.

Reference: Dupuis & Simsekli (2024); its script is benjiDupuis/heavy_tails_generalization on GitHub.
"""

from collections.abc import Callable
from math import exp, gamma, inf, isfinite, lgamma, log, sqrt
from typing import Final

import numpy as np

from mpgd.parameters import check_integer, check_nonnegative, check_positive, check_real

MOST: Final = 10**7  # steps: some hundred megabytes


def heavy_tailed_information(
    alpha: float, *, steps: int, lr: float, sigma: float, lipschitz: float, decay: float = 0.0
) -> float:
    """Return kappa: a bound on the divergence of the law of W_K from one that saw no data.

    Args:
        alpha: tail index of the noise, in (0, 2].
        steps: K, the number of steps.
        lr: eta, the step size.
        sigma: size of the noise, positive.
        lipschitz: L, the largest norm of the gradient of the trained risk.
        decay: strength of the quadratic regularisation; lr * decay below 1.

    Examples:
        >>> brownian = {"steps": 100, "lr": 0.01, "sigma": 0.5, "lipschitz": 2.0}
        >>> round(heavy_tailed_information(2.0, **brownian), 9)  # L^2 T / (4 sigma^2)
        4.0
        >>> long = heavy_tailed_information(1.5, **{**brownian, "steps": 10**5}, decay=1.0)
        >>> longer = heavy_tailed_information(1.5, **{**brownian, "steps": 10**6}, decay=1.0)
        >>> abs(longer - long) < 1e-9  # forgets its past
        True
    """
    alpha = check_real("alpha", alpha, "(0, 2]", 0.0, 2.0, "(]")
    K = check_integer("steps", steps, 1, MOST)
    eta, sigma = check_positive("lr", lr), check_positive("sigma", sigma)
    L = check_nonnegative("lipschitz", lipschitz)
    shrink = check_real("lr * decay", eta * check_nonnegative("decay", decay), "[0, 1)", 0, 1, "[)")
    if L == 0.0:
        return 0.0
    r = (1.0 - shrink) ** np.arange(K)
    p = r * (2.0 * np.cumsum(r) - r)  # r^(m-1) (r^(m-1) + 2 (sum of r^l below m - 1))
    q = np.cumsum(r**alpha)
    log_C = 2.0 * log(L / (2.0 * sigma)) if L / (2.0 * sigma) > 0.0 else -inf
    log_C += (2.0 - 2.0 / alpha) * log(eta) + lgamma(1.0 + 2.0 / alpha)
    return _finite(lambda: exp(log_C) * min(K, float((p * q ** (-2.0 / alpha)).sum())))


def heavy_tailed_bound(
    alpha: float,
    n: int,
    *,
    bound: float,
    lipschitz: float,
    steps: int,
    lr: float,
    sigma: float,
    decay: float = 0.0,
    delta: float | None = None,
) -> float:
    """Bound the gap after K steps of descent with isotropic stable noise, in the mean over noise.

    With probability 1 - delta over the data, or in the mean over them if delta is None. In the
    manner of Dupuis & Simsekli (2024); constants and proof are ours, in the
    source of this function's module. MPGD's own noise is
    not of this kind: a step of it is bounded, and steps depend on each other.

    Args:
        alpha: tail index of the noise, in (0, 2].
        n: number of training examples.
        bound: B; the loss whose gap is bounded lies in [0, B].
        lipschitz: L, the largest norm of the gradient of the trained risk.
        steps: K, the number of steps.
        lr: eta, the step size.
        sigma: size of the noise, positive.
        decay: strength of the quadratic regularisation; lr * decay below 1.
        delta: chance that the bound fails, in (0, 1); None for the bound on the mean.

    Examples:
        >>> training = {"bound": 1.0, "lipschitz": 1.0, "steps": 1000, "lr": 0.01, "sigma": 1.0}
        >>> round(heavy_tailed_bound(2.0, 500, **training), 12)  # sqrt(T / 4 / 1000)
        0.05
        >>> heavy_tailed_bound(1.5, 500, **training, decay=0.1) < 0.08
        True
    """
    n, B = check_integer("n", n, 1), check_positive("bound", bound)
    kappa = heavy_tailed_information(
        alpha, steps=steps, lr=lr, sigma=sigma, lipschitz=lipschitz, decay=decay
    )
    chance = 0.0
    if delta is not None:
        chance = log(2.0 / check_real("delta", delta, "(0, 1)", 0.0, 1.0, "()"))
    return B * sqrt((kappa + chance) / (2.0 * n))


def heavy_tailed_estimate(
    alpha: float,
    n: int,
    *,
    dimension: int,
    sigma: float,
    time: float,
    gradient: float,
    radius: float = 1.0,
) -> float:
    """Return what Dupuis & Simsekli's (2024) script plots as the estimate of their bound.

        sqrt( K_(alpha,d) T G / (2 n R^(2 - alpha) sigma^alpha) )
        K_(alpha,d) = (2 - alpha) Gamma(1 - alpha/2) d^(1 - alpha/2) / (alpha 2^(alpha/2))

    An estimate and no bound: the term in log(1/delta) is left out, and K is its form for large d.
    R is a constant of theirs, of which the script says that it was estimated, to about 7, in their
    example. What must hold for R we could not read.

    Args:
        alpha: tail index of the noise, in (0, 2].
        n: number of training examples; the loss lies in [0, 1].
        dimension: d, the number of parameters.
        sigma: size of the noise.
        time: T = lr times the number of steps.
        gradient: G, the mean of |grad F|^2 along the trajectory.
        radius: R.

    Examples:
        >>> known = {"dimension": 10**4, "sigma": 0.1, "time": 1.0, "gradient": 0.01}
        >>> round(heavy_tailed_estimate(2.0, 1000, **known), 12)  # sqrt(T G / (4 n sigma^2))
        0.015811388301
    """
    alpha = check_real("alpha", alpha, "(0, 2]", 0.0, 2.0, "(]")
    n, d = check_integer("n", n, 1), check_integer("dimension", dimension, 1)
    T, G = check_nonnegative("time", time), check_nonnegative("gradient", gradient)
    sigma, R = check_positive("sigma", sigma), check_positive("radius", radius)
    # (2 - alpha) Gamma(1 - alpha/2) = 2 Gamma(2 - alpha/2), which is 2 at alpha = 2
    factor = 2.0 * gamma(2.0 - alpha / 2.0) / (alpha * 2.0 ** (alpha / 2.0))
    return _finite(
        lambda: sqrt(
            factor
            * d ** (1.0 - alpha / 2.0)
            * T
            * G
            / (2.0 * n * R ** (2.0 - alpha) * sigma**alpha)
        )
    )


def _finite(value: Callable[[], float]) -> float:
    """Return a value, or say that floats cannot hold it or a part of it."""
    try:
        result = value()
    except (OverflowError, ZeroDivisionError):
        result = inf
    if not isfinite(result):
        raise ValueError("the arguments must give a finite bound, got one beyond the largest float")
    return result
