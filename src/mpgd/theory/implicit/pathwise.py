"""Theorem 4.3 along paths of the drivers, by Hessian-vector products; no Hessian is formed.

With the adjoint w_k = grad(xbar_k), w_i = J_i w_(i+1), the second-order recursion is solved once
for all paths, since grad(xbar_k)^T psi_k is the sum over steps i of

    w_(i+1)^T (-(1/2m) D^3R(xbar_i)[phi_i, phi_i] - a v1_i phi_i)

and only phi is carried along each path. D^3R[w, phi, phi] = phi^T D(Hess w)[phi] is a backward
pass through the graph of one product Hess w, which all paths share, as they share that of grad.

Multiplicative and additive driver run apart: the coefficient is quadratic in the values and the
drivers are independent with mean zero, so products of the two average to nothing but noise. (That
is the antithetic pair v2, -v2.) Two things are not left to chance:

    a shared driver holds only ``steps`` random numbers: if these are no more than the paths,
    the columns of L, R1 = L L^T, in place of paths give its average exactly;
    a few directions q, the outliers of Hess(xbar_k), hold most of the variance of the trace, and
    the mean of (q^T phi)^2 is known from the adjoint of q and the autocovariance: a control
    variate, unbiased however roughly q is an eigenvector.
"""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt

import torch
from torch import Tensor
from torch.func import grad, vjp, vmap

from mpgd.theory.implicit.drive import Drive
from mpgd.theory.implicit.exact import Parts

Loss = Callable[[Tensor], Tensor]

OUTLIERS, ROUNDS = 32, 4  # directions of the control variate, and power iterations to find them


def pathwise_parts(
    loss: Loss,
    xbar: Tensor,
    m: float,
    drives: Sequence[Drive],
    paths: int,
    seed: int,
    complete: bool,
) -> tuple[Parts, float]:
    """Return trace, third and cross of Theorem 4.3, and the standard error of their sum.

    ``xbar`` is the unperturbed path (time, coordinate), ``paths`` the number drawn of each driver;
    the standard error counts cross if ``complete``.
    """
    steps, d = len(xbar) - 1, xbar.shape[1]
    w = _adjoint(loss, xbar, m, grad(loss)(xbar[-1])[None])[:, 0]
    drawn = [drive for drive in drives if not (drive.shared and steps <= paths)]
    q, values = _outliers(loss, xbar[-1], seed)
    adjoint = _adjoint(loss, xbar, m, q) if drawn else q
    total, variance = xbar.new_zeros(3), 0.0
    for drive in drives:
        if drive not in drawn:
            total += _along(loss, xbar, w, m, drive, drive.columns())[0].sum(dim=1)
            continue
        parts, phi = _along(loss, xbar, w, m, drive, drive.values(paths, d, seed))
        parts[0] += (_second_moments(drive, xbar, adjoint) - (phi @ q.T) ** 2) @ values / 2
        total += parts.mean(dim=1)
        counted = parts if complete else parts[:2]
        variance += float(counted.sum(dim=0).var()) / paths
    trace, third, cross = total.tolist()
    return (trace, third, cross), sqrt(variance)


def _adjoint(loss: Loss, xbar: Tensor, m: float, last: Tensor) -> Tensor:
    """Return J_i ... J_(k-1) applied to the rows of ``last``, (time i, row, coordinate)."""
    w = [last]
    for x in reversed(xbar[:-1]):
        w.append(w[-1] - _products(loss, x, w[-1]) / m)
    return torch.stack(w[::-1])


def _along(
    loss: Loss, xbar: Tensor, w: Tensor, m: float, drive: Drive, values: Iterable[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return trace, third and cross for every path of one driver, (part, path), and its phi."""
    phi = third = cross = xbar.new_zeros(())
    for i, v in enumerate(values):
        x, v = xbar[i], v.to(xbar)
        if i:  # phi_0 = 0
            third = third - _third(loss, x, w[i + 1], phi) / (2 * m)
            if drive.multiply:
                cross = cross + drive.forcing(v, phi) @ w[i + 1]
            phi = phi - _products(loss, x, phi) / m
        phi = phi + drive.forcing(v, x)
    trace = (phi * _products(loss, xbar[-1], phi)).sum(dim=1) / 2
    return torch.stack([trace, third.expand_as(trace), cross.expand_as(trace)]), phi


def _second_moments(drive: Drive, xbar: Tensor, adjoint: Tensor) -> Tensor:
    """Return E (q^T phi_k)^2 for every q, where q^T phi_k = sum_i adjoint_(i+1)^T B(xbar_i) v_i."""
    pairs = zip(adjoint[1:], xbar[:-1], strict=True)
    b = torch.stack([drive.forcing(later, x) for later, x in pairs])
    b = b.sum(dim=2, keepdim=True) if drive.shared else b
    return torch.einsum("iqr,ij,jqr->q", b, drive.R.to(b), b)


def _outliers(loss: Loss, x: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return a few orthonormal rows q near the top eigenvectors of Hess, and all q^T Hess q."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(len(x), min(OUTLIERS, len(x)), generator=generator, dtype=torch.float64)
    q = torch.linalg.qr(start.to(x))[0].T
    for _ in range(ROUNDS):
        q = torch.linalg.qr(_products(loss, x, q).T)[0].T
    inside = q @ _products(loss, x, q).T
    values, vectors = torch.linalg.eigh((inside + inside.T) / 2)
    return vectors.T @ q, values


def _products(loss: Loss, x: Tensor, phi: Tensor) -> Tensor:
    """Return Hess(x) phi for every row of phi; Hess is symmetric, so reverse mode will do."""
    back = vjp(grad(loss), x)[1]
    products: Tensor = vmap(lambda row: back(row)[0])(phi)
    return products


def _third(loss: Loss, x: Tensor, w: Tensor, phi: Tensor) -> Tensor:
    """Return D^3R(x)[w, phi, phi] for every row of phi."""

    def product(x: Tensor) -> Tensor:
        Hw: Tensor = vjp(grad(loss), x)[1](w)[0]
        return Hw

    back = vjp(product, x)[1]
    derivatives: Tensor = vmap(lambda row: back(row)[0])(phi)
    return (derivatives * phi).sum(dim=1)
