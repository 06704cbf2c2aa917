"""Theorem 4.3: what small perturbations add to the loss on average, and the term the paper drops.

With mu = mu0 eps and sigma = sigma0 eps, eps small, m fixed, a = mu0 m^(-gamma1) and
b = sigma0 m^(-gamma2), the recursion x' = x - grad(x)/m + eps g(x), g(x) = -a v1 x + b v2, expands
as x_k = xbar_k + eps phi_k + eps^2 psi_k + ... into

    xbar' = xbar - grad(xbar)/m                                      J = I - Hess(xbar)/m
    phi'  = J phi + g(xbar)                                          C = E[phi phi^T]
    psi'  = J psi - (1/2m) D^3R(xbar)[phi, phi] - a v1 phi

where D^3R[phi, phi] has the entries phi^T Hess(d_j R) phi. Since E v1 = E v2 = 0, E phi = 0 and

    E R(x_k) = R(xbar_k) + eps^2 (phi^T Hess phi / 2 + grad^T psi, averaged) + O(eps^3)
             = R(xbar_k) + eps^2 (trace + third + cross) + O(eps^3)

    trace = tr(C_k Hess(xbar_k)) / 2
    third = -grad(xbar_k)^T lambda_k / 2,   lambda' = J lambda + D^3R(xbar)[C] / m
    cross =  grad(xbar_k)^T c_k,            c' = J c - a E[v1 phi]

The paper's proof sets E[v1 phi] to zero because E v1 = 0. But phi_i = -a sum_(j<i) P_ij v1_j xbar_j
+ ..., P_ij = J_(i-1) ... J_(j+1), holds earlier values of the same driver, and with R(n) its
autocovariance -a E[v1_i phi_i] = a^2 sum_(j<i) R(i - j) P_ij xbar_j for a shared scalar driver;
with one driver per coordinate only the diagonal of P_ij enters. Nothing here is small in 1/m.

In the symmetric variant every value is the difference of two independent ones: its mean is 0 for
every sign rule, and its covariance twice that of one. Drivers whose mean is not 0, such as product
signs with beta other than 0 and 1, break the hypothesis: E phi is not 0, and E R has the term
eps grad^T E phi as well. With R(i, j) their covariance, E phi adds to each part what a driver with
the values E v would give: (E phi)^T Hess E phi / 2 to trace, and so on. ``with_mean=True`` does it.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.3; the derivation is in docs/implicit.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad

from mpgd.noise import ChaoticNoise
from mpgd.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_nonnegative,
    check_positive,
    check_seed,
)
from mpgd.theory.implicit.drive import Drive, covariance, mean_values
from mpgd.theory.implicit.exact import exact_parts, mean_parts
from mpgd.theory.implicit.pathwise import pathwise_parts

Loss = Callable[[Tensor], Tensor]
Noises = ChaoticNoise | tuple[ChaoticNoise, ChaoticNoise]

METHODS = ("exact", "pathwise")
EXACT_LIMIT = 200  # parameters; a step costs steps * d^3 operations and d passes for a Hessian


@dataclass(frozen=True)
class ImplicitRegularizer:
    """The coefficient of eps^2 in E R(x_k) and its summands.

    Attributes:
        coefficient: trace + third + cross, or trace + third if it was asked for as printed.
        trace: tr(C_k Hess) / 2.
        third: -grad^T lambda_k / 2, from the third derivatives.
        cross: the term the paper drops; always given.
        stderr: the standard error of the coefficient, 0 where nothing was drawn.
        first: grad^T E phi_k, the coefficient of eps; 0 under the theorem's hypothesis.

    Examples:
        >>> ImplicitRegularizer(0.75, trace=0.5, third=0.0, cross=0.25, stderr=0.0).cross
        0.25
    """

    coefficient: float
    trace: float
    third: float
    cross: float
    stderr: float
    first: float = 0.0


def implicit_regularizer(
    loss: Loss,
    x0: Tensor,
    *,
    m: float,
    steps: int,
    mu0: float,
    sigma0: float,
    noise: Noises,
    shared: bool = True,
    complete: bool = True,
    symmetric: bool = False,
    with_mean: bool = False,
    method: str = "exact",
    paths: int = 64,
    seed: int = 0,
) -> ImplicitRegularizer:
    """Return Theorem 4.3's coefficient of eps^2 for ``steps`` steps of size 1/m from ``x0``.

    Args:
        loss: From a flat float64 vector of parameters to a scalar tensor.
        x0: Where descent starts, shape (d,).
        m: One over the step size.
        steps: k, the number of steps.
        mu0: Size of the multiplicative perturbation over eps.
        sigma0: Size of the additive perturbation over eps, one driver per coordinate.
        noise: The law of both drivers, or a pair: multiplicative, additive.
        shared: Whether one scalar multiplicative driver serves all coordinates, as in Theorem 4.3,
            or each coordinate has its own.
        complete: With the cross term; False for the coefficient as printed.
        symmetric: Replace each value by the difference of two independent ones, equation (11).
        with_mean: Accept drivers whose mean is not 0; ``first`` is then not 0 either. "exact" only.
        method: ``"exact"``: Hessians, third derivatives and the drivers' autocovariances, up to
            200 parameters. ``"pathwise"``: the recursions of phi and psi along paths of the drivers
            by Hessian-vector products, for networks.
        paths: How many paths of each driver "pathwise" draws. A shared driver is not drawn but
            summed exactly if ``steps <= paths``.
        seed: Of those paths.

    Examples:
        >>> R = lambda x: (x**4).sum() / 4
        >>> result = implicit_regularizer(
        ...     R, torch.ones(2), m=10, steps=5, mu0=1.0, sigma0=0.0, noise=ChaoticNoise(0.6)
        ... )
        >>> result.cross > 0 and result.coefficient == result.trace + result.third + result.cross
        True
    """
    check_choice("method", method, METHODS)
    m, steps = check_positive("m", m), check_integer("steps", steps, 1)
    mu0, sigma0 = check_nonnegative("mu0", mu0), check_nonnegative("sigma0", sigma0)
    check_flag("symmetric", symmetric)
    check_flag("with_mean", with_mean)
    v1, v2 = _noises(noise, symmetric or with_mean)
    xbar = _unperturbed(loss, _start(x0), m, steps)
    a, b = mu0 * m**-v1.gamma, sigma0 * m**-v2.gamma
    R1, R2 = (covariance(v, steps, symmetric) for v in (v1, v2))
    drives = [Drive(v1, -a, True, shared, R1, symmetric)] if a else []
    drives += [Drive(v2, b, False, False, R2, symmetric)] if b else []
    stderr = first = 0.0
    if method == "exact":
        if xbar.shape[1] > EXACT_LIMIT:
            raise ValueError(
                f"method='exact' takes at most {EXACT_LIMIT} parameters, got {xbar.shape[1]}: use "
                "method='pathwise'"
            )
        trace, third, cross = exact_parts(loss, xbar, m, drives)
        if with_mean and not symmetric:
            means = [mean_values(drive.noise, steps) for drive in drives]
            first, added = mean_parts(loss, xbar, m, drives, means)
            trace, third, cross = (
                old + new for old, new in zip((trace, third, cross), added, strict=True)
            )
    elif with_mean:
        raise ValueError("with_mean=True needs method='exact', got method='pathwise'")
    else:
        paths = check_integer("paths", paths, 2)
        (trace, third, cross), stderr = pathwise_parts(
            loss, xbar, m, drives, paths, check_seed(seed), complete
        )
    total = trace + third + cross if complete else trace + third
    return ImplicitRegularizer(total, trace, third, cross, stderr, first)


def _noises(noise: object, any_mean: bool) -> tuple[ChaoticNoise, ChaoticNoise]:
    pair = noise if isinstance(noise, tuple) else (noise, noise)
    if len(pair) != 2 or not all(isinstance(v, ChaoticNoise) for v in pair):
        raise TypeError(f"noise must be a ChaoticNoise or a pair of them, got {noise!r}")
    for v in () if any_mean else pair:
        _check_mean(v)
    return pair


def _check_mean(v: ChaoticNoise) -> None:
    """Refuse values whose mean is not zero at every step."""
    drawn = v.first_sign == "drawn" and (v.signs == "fresh" or v.beta == 0.0)
    if drawn or v.beta == 1.0:  # at beta = 1 all signs are +1, whatever the rule
        return
    raise ValueError(
        f"the hypothesis E v = 0 fails for signs={v.signs!r}, first_sign={v.first_sign!r}, "
        f"beta={v.beta!r}: use signs='fresh' and first_sign='drawn', or with_mean=True"
    )


def _start(x0: Tensor) -> Tensor:
    if not isinstance(x0, Tensor) or x0.ndim != 1 or x0.numel() == 0:
        got = tuple(x0.shape) if isinstance(x0, Tensor) else type(x0).__name__
        raise ValueError(f"x0 must be a tensor of shape (d,), d >= 1, got {got}")
    return x0.detach().to(torch.float64)


def _unperturbed(loss: Loss, x: Tensor, m: float, steps: int) -> Tensor:
    """Return xbar_0 ... xbar_steps, (time, coordinate), after a look at the loss."""
    _check_loss(loss, x)
    path = [x]
    for k in range(steps):
        path.append(path[-1] - grad(loss)(path[-1]) / m)
        if not torch.isfinite(path[-1]).all():
            raise ValueError(
                f"the unperturbed path must stay finite, but step {k + 1} is not: raise m, "
                f"got {m!r}"
            )
    if not torch.isfinite(loss(path[-1])):
        raise ValueError(f"the loss must be finite, but after {steps} steps it is not: raise m")
    return torch.stack(path)


def _check_loss(loss: Loss, x: Tensor) -> None:
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf)
    if not isinstance(value, Tensor) or value.ndim != 0:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"loss must return a scalar tensor, got {got}: take the mean")
    if not value.requires_grad or torch.autograd.grad(value, leaf, allow_unused=True)[0] is None:
        raise ValueError(
            "loss must have a graph back to x, got one without: is something detached or under "
            "no_grad?"
        )
    if not torch.isfinite(value):
        raise ValueError(f"the loss must be finite, but at x0 it is {value.item()!r}")
