"""The update of multiscale perturbed gradient descent: its signs and scalings stand here.

    x' = x - eta d - mu eta^gamma1 v1 x + sigma eta^gamma2 v2                (coordinatewise)

d is the gradient, or the direction that `torch.optim.SGD` makes of it by weight decay and momentum.
All terms use the old x, and no noise enters the buffer of the momentum. v1 and v2 are the values of
the multiplicative and the additive noise; in the symmetric variant each is the difference of two
independent ones. In code

    m = mu eta^gamma1 v1,    n = sigma eta^gamma2 v2,    x' = ((x - eta d) - m x) + n

A chaotic v takes four values, plus and minus c0 and c1. So the strength times c0 and times c1 are
rounded once to the parameter's precision (float32 for the half types), and all else is done in that
precision, one operation at a time and in this order: nothing needs float64. The values of other
noises are float64, and their m and n are rounded from that.

Reference: Lim, Wan & Simsekli (2022), equation (8); the symmetric variant is equation (11).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Scalar = float | Tensor


class Direction(NamedTuple):
    """How a direction is made of a gradient, as `torch.optim.SGD` does.

    Attributes:
        weight_decay: what x is multiplied by before it is added to the gradient.
        momentum: what the buffer is multiplied by; 0: there is none.
        dampening: 1 less what is added to it.
        nesterov: whether the buffer is looked ahead of.
        maximize: whether the gradient is negated first.

    Examples:
        >>> Direction(weight_decay=0.1).is_gradient, Direction(maximize=True).is_gradient
        (False, True)
    """

    weight_decay: float = 0.0
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    maximize: bool = False

    @property
    def is_gradient(self) -> bool:
        """Whether the direction is the gradient or its negative."""
        return not (self.weight_decay or self.momentum)


def directed(
    x: Tensor, gradient: Tensor, buffer: Tensor | None, is_fresh: bool, how: Direction
) -> Tensor:
    """Return d; a buffer is replaced by the next one, and by d itself where it is fresh.

    A buffer of a half type is rounded to nearest before d is taken from it.

    Examples:
        >>> x, g, b = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([4.0])
        >>> directed(x, g, b, False, Direction(weight_decay=0.5, momentum=0.25)), b
        (tensor([3.5000]), tensor([3.5000]))
    """
    d = -gradient if how.maximize else gradient
    if how.weight_decay:
        d = d + x * how.weight_decay
    if buffer is None:
        return d
    following = d
    if not is_fresh:
        following = buffer.to(d.dtype) * how.momentum + d * (1 - how.dampening)
    torch._foreach_copy_([buffer], [following])  # torch 2.13 compiles copy_ of a scalar to nothing
    kept = buffer.to(d.dtype)
    return d + kept * how.momentum if how.nesterov else kept


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


def descended(
    x: Tensor, direction: Tensor, eta: Scalar, m: Tensor | None, n: Tensor | None
) -> Tensor:
    """Return x'.

    Examples:
        >>> x, g = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])
        >>> descended(x, g, 0.5, m=torch.tensor([0.25, 0.25]), n=torch.tensor([0.0, 1.0]))
        tensor([0.2500, 2.0000])
    """
    new = x - direction * eta
    if m is not None:
        new = new - m * x
    if n is not None:
        new = new + n
    return new


def displacement(x: Tensor, m: Tensor | None, n: Tensor | None) -> Tensor:
    """Return the perturbation alone, n - m x, for another optimizer's step."""
    if m is None:
        return torch.zeros_like(x) if n is None else n
    return -(m * x) if n is None else n - m * x


def precision_of(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which a parameter of ``dtype`` is updated."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
