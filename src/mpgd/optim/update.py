"""The update of multiscale perturbed gradient descent: its signs and scalings stand here.

    x' = x - eta g - mu eta^gamma1 v1 x + sigma eta^gamma2 v2                (coordinatewise)

An optimizer takes it in two parts, because the gradient g lies in ``p.grad`` before the step:

    x <- (x - m x) + n          m = mu eta^gamma1 v1,   n = sigma eta^gamma2 v2
    x <- x - eta g              the inner optimizer's own step

Reference: Lim, Wan & Simsekli (2022), equation (8).
"""

from __future__ import annotations

import torch
from torch import Tensor

Scalar = float | Tensor


def strengths(
    eta: Scalar, mu: float, sigma: float, exponents: tuple[float, float]
) -> tuple[Scalar, Scalar]:
    """Return mu eta^gamma1 and sigma eta^gamma2.

    Examples:
        >>> strengths(0.25, mu=2.0, sigma=3.0, exponents=(0.5, 0.5))
        (1.0, 1.5)
    """
    if isinstance(eta, Tensor):
        eta = eta.to(torch.float64)
    return mu * eta ** exponents[0], sigma * eta ** exponents[1]


def term(strength: Scalar, v: Tensor, twin: Tensor | None, precision: torch.dtype) -> Tensor:
    """Return strength times v, or times v - twin, rounded to ``precision``."""
    scaled = v * strength
    if twin is not None:
        scaled = scaled - twin * strength
    return scaled.to(precision)


def displaced(x: Tensor, m: Tensor | None, n: Tensor | None) -> Tensor:
    """Return (x - m x) + n, in this order of operations, which all engines follow.

    Examples:
        >>> displaced(torch.tensor([2.0]), m=torch.tensor([0.25]), n=torch.tensor([1.0]))
        tensor([2.5000])
    """
    if m is not None:
        x = x - m * x
    return x if n is None else x + n


def descended(x: Tensor, g: Tensor, eta: Scalar, m: Tensor | None, n: Tensor | None) -> Tensor:
    """Return x' in one expression, as the laboratory's batched nets take it.

    Examples:
        >>> x, g = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])
        >>> descended(x, g, 0.5, m=torch.tensor([0.25, 0.25]), n=torch.tensor([0.0, 1.0]))
        tensor([0.2500, 2.0000])
    """
    new = x - g * eta
    if m is not None:
        new = new - m * x
    if n is not None:
        new = new + n
    return new


def precision_of(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which a parameter of ``dtype`` is displaced."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
