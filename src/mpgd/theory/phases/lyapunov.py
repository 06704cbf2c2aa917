"""The largest Lyapunov exponent of a map: how fast neighbouring starts part.

With x_(k+1) = f(x_k) and its derivative Df, a tangent vector follows w_(k+1) = Df(x_k) w_k, and

    lambda = lim 1/n log |w_n| / |w_0|

for almost every w_0. Positive: neighbouring starts part exponentially, which is chaos where the
orbit stays bounded. Descent, f(x) = x - eta grad L(x), has Df = 1 - eta Hess, so that lambda is
negative or 0 where it converges.

The paper suggests in Section 5 that descent with large steps may be chaotic by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mpgd.parameters import check_integer

TINIEST = 1e-300  # a tangent vector that vanishes has this length


def lyapunov_exponent(
    step: Callable[[Tensor], Tensor],
    start: Tensor,
    steps: int,
    *,
    skip: int = 0,
    seed: int = 0,
    tangents: Tensor | None = None,
) -> Tensor:
    """Return the largest Lyapunov exponent per step, for every row of ``start``.

    Args:
        step: the map of (row, coordinate), each row by itself, which torch can differentiate: of
            descent, with ``create_graph=True`` in its gradient.
        start: where the orbits begin, (row, coordinate).
        steps: over how many steps the growth of a tangent vector is averaged.
        skip: steps before, in which the vector turns to the direction that grows fastest.
        seed: of the first tangent vectors; they are drawn for all rows at once.
        tangents: the first tangent vectors, (row, coordinate), instead of drawn ones.

    Returns:
        (row,); NaN where the orbit left the finite numbers.

    Examples:
        >>> x = torch.tensor([[0.3]], dtype=torch.float64)
        >>> logistic = lambda x: 4.0 * x * (1.0 - x)
        >>> round(float(lyapunov_exponent(logistic, x, 20_000)), 2)  # log 2
        0.69
    """
    steps, skip = check_integer("steps", steps, 1), check_integer("skip", skip, 0)
    if start.dim() != 2:
        raise ValueError(f"start must be (row, coordinate), got shape {tuple(start.shape)}")
    if tangents is not None and tangents.shape != start.shape:
        raise ValueError(
            f"tangents must have the shape {tuple(start.shape)}, got {tuple(tangents.shape)}"
        )
    generator = torch.Generator().manual_seed(check_integer("seed", seed, 0))
    drawn = torch.randn(start.shape, generator=generator, dtype=torch.float64)
    x, w = start, (drawn if tangents is None else tangents).to(start)
    w = w / w.norm(dim=1, keepdim=True)
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for k in range(skip + steps):
        x, w = _advance(step, x, w)
        grown = w.norm(dim=1, keepdim=True).clamp_min(TINIEST)
        w = w / grown
        if k >= skip:
            total += grown[:, 0].double().log()
    finite = x.isfinite().all(dim=1) & total.isfinite()
    return torch.where(finite, total / steps, torch.nan)


def _advance(step: Callable[[Tensor], Tensor], x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return f(x) and Df(x) w, by differentiating u -> Df(x)^T u, which is linear in u."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        y = step(leaf)
        u = torch.zeros_like(y).requires_grad_()
        (pulled,) = torch.autograd.grad(y, leaf, u, create_graph=True)
        (pushed,) = torch.autograd.grad(pulled, u, w)
    return y.detach(), pushed
