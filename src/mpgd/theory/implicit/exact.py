"""Theorem 4.3 by matrices: every average from the drivers' autocovariances, nothing drawn.

phi is linear in all earlier values of each driver, phi_k = sum_j M_j v_j, with

    M' = (J M_0, ..., J M_(k-1), B),   B the coupling: -a xbar (shared), -a diag(xbar), or b I

so C = sum_ij R(i-j) M_i M_j^T, summed over the drivers, and the mean of -a v1_k phi_k is
-a sum_j R1(k-j) M_j, of which one driver per coordinate leaves the diagonal.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.func import grad, jacrev

from mpgd.theory.implicit.drive import Drive

Parts = tuple[float, float, float]


def exact_parts(
    loss: Callable[[Tensor], Tensor], xbar: Tensor, m: float, drives: Sequence[Drive]
) -> Parts:
    """Return trace, third and cross of Theorem 4.3 along the unperturbed path (time, coordinate).

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> drive = Drive(ChaoticNoise(0.6), 3.0, multiply=False, shared=False, R=torch.ones(1, 1))
        >>> exact_parts(lambda x: (x**2).sum(), torch.zeros(2, 1), 2.0, [drive])[0]
        9.0
    """
    d = xbar.shape[1]
    hessian, one = jacrev(grad(loss)), torch.eye(d).to(xbar)
    influences = [drive.coupling(xbar[0])[None][:0] for drive in drives]
    lam, c = xbar.new_zeros(d), xbar.new_zeros(d)
    for k, x in enumerate(xbar[:-1]):
        J = one - hessian(x) / m
        lam = J @ lam + _third(hessian, x, _covariance(drives, influences, d)) / m
        c = J @ c
        for drive, M in zip(drives, influences, strict=True):
            if drive.multiply:
                c = c + drive.strength * _mean_of_product(M, drive.R[k, :k], drive.shared)
        influences = [
            torch.cat([J @ M, drive.coupling(x)[None]])
            for drive, M in zip(drives, influences, strict=True)
        ]
    C, g, H = _covariance(drives, influences, d), grad(loss)(xbar[-1]), hessian(xbar[-1])
    return float((C * H).sum()) / 2, -float(g @ lam) / 2, float(g @ c)


def mean_parts(
    loss: Callable[[Tensor], Tensor],
    xbar: Tensor,
    m: float,
    drives: Sequence[Drive],
    means: Sequence[Tensor],
) -> tuple[float, Parts]:
    """Return grad^T E phi, and what the mean path E phi adds to trace, third and cross.

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> drive = Drive(ChaoticNoise(0.6), 3.0, multiply=False, shared=False, R=torch.ones(1, 1))
        >>> mean_parts(lambda x: (x**2).sum(), torch.ones(2, 1), 2.0, [drive], [torch.ones(1)])
        (6.0, (9.0, -0.0, 0.0))
    """
    d = xbar.shape[1]
    hessian, one = jacrev(grad(loss)), torch.eye(d).to(xbar)
    phi, lam, c = xbar.new_zeros(d), xbar.new_zeros(d), xbar.new_zeros(d)
    for k, x in enumerate(xbar[:-1]):
        J = one - hessian(x) / m
        lam = J @ lam + _third(hessian, x, torch.outer(phi, phi)) / m
        c, old = J @ c, phi
        phi = J @ phi
        for drive, mean in zip(drives, means, strict=True):
            value = float(mean[k])
            if drive.multiply:
                c = c + drive.strength * value * old
            phi = phi + drive.forcing(torch.full_like(x, value), x)
    g, H = grad(loss)(xbar[-1]), hessian(xbar[-1])
    parts = float(phi @ H @ phi) / 2, -float(g @ lam) / 2, float(g @ c)
    return float(g @ phi), parts


def _covariance(drives: Sequence[Drive], influences: Sequence[Tensor], d: int) -> Tensor:
    """Return C, the sum over the drivers of sum_ij R_ij M_i M_j^T."""
    C = torch.zeros(d, d, dtype=torch.float64)
    for drive, M in zip(drives, influences, strict=True):
        weighted = torch.tensordot(drive.R[: len(M), : len(M)].to(M), M, dims=1)
        C = C.to(M) + torch.einsum("ipr,iqr->pq", M, weighted)
    return C


def _mean_of_product(M: Tensor, R: Tensor, shared: bool) -> Tensor:
    """Return sum_j R_j M_j, its diagonal if the drivers of two coordinates are independent."""
    mean = torch.tensordot(R.to(M), M, dims=1)
    return mean[:, 0] if shared else torch.diagonal(mean)


def _third(hessian: Callable[[Tensor], Tensor], x: Tensor, C: Tensor) -> Tensor:
    """Return the vector tr(C Hess(d_j R)), which is the gradient of tr(C Hess R)."""

    def contracted(x: Tensor) -> Tensor:
        return (C * hessian(x)).sum()

    vector: Tensor = grad(contracted)(x)
    return vector
