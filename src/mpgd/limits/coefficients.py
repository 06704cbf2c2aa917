"""Coefficients that depend on m, and how far two coefficients are apart.

Theorem 4.1 lets drift and couplings change with m, as long as they converge: a_m -> a in C^gamma_1
and b_m -> b in C^gamma_2 with gamma_1 > 1 and gamma_2 > alpha. An example is m = n, the number of
training points: the empirical risk of n points tends to the population risk. The norm is

    |f| = max over derivatives up to order [gamma] of sup |D f|
          + max over those of order [gamma] of sup |D f(x) - D f(y)| / |x - y|^(gamma - [gamma])

Reference: Lim, Wan & Simsekli (2022), Appendix C, Assumption 1.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits.couplings import Field, VectorField
from mpgd.parameters import check_integer, check_positive

Coefficient = Callable[[Tensor], Tensor] | Callable[[Tensor, float], Tensor]

LADDER: Final = (1e6, 1e8, 1e10, 1e12)  # the m at which a limit is looked for
SETTLED: Final = 1e-3  # relative change from one rung to the next that still counts as converged
POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class ChangingField:
    """A coupling b(x, m) that changes with m.

    Examples:
        >>> b = ChangingField(lambda x, m: x + 1.0 / m)
        >>> b.at(2.0).function(torch.ones(1, 1)).item()
        1.5
    """

    function: Callable[[Tensor, float], Tensor]

    def at(self, m: float) -> Field:
        """Return the coupling at one m."""
        return Field(lambda x: self.function(x, m))


def takes_m(function: object) -> bool:
    """Return whether a coefficient is called with x and m: two arguments without a default.

    Examples:
        >>> takes_m(lambda x, m: x / m), takes_m(lambda x: x), takes_m(torch.sin), takes_m(0.5)
        (True, False, False, False)
    """
    if not callable(function) or not _readable(function):
        return False
    parameters = inspect.signature(function).parameters.values()
    needed = [q for q in parameters if q.kind in POSITIONAL and q.default is q.empty]
    return len(needed) == 2


def settle(name: str, function: Callable[[Tensor, float], Tensor], at: Tensor) -> tuple[float, str]:
    """Return an m at which a coefficient has settled on the points ``at``, and a note of it.

    Raises:
        ValueError: the coefficient still changes; the text has by how much and between which m.
    """
    values = [function(at, m) for m in LADDER]
    sizes = [max(float(value.abs().max()), 1e-300) for value in values]
    changes = [
        float((b - a).abs().max()) / size
        for a, b, size in zip(values[:-1], values[1:], sizes[1:], strict=True)
    ]
    m = LADDER[-1]
    if not changes[-1] <= SETTLED:  # written so that NaN fails too
        raise ValueError(
            f"{name} must converge as m grows, but changes by {changes[-1]:.3g} of its size from "
            f"m = {LADDER[-2]:g} to {m:g}; give its limit to limit()"
        )
    return m, f"{name} taken at m = {m:g}, changed by {changes[-1]:.0e} from m = {LADDER[-2]:g}"


def holder_distance(
    f: VectorField,
    g: VectorField,
    low: ArrayLike,
    high: ArrayLike,
    gamma: float,
    points: int = 1000,
    seed: int = 0,
) -> float:
    """Return the C^gamma distance of two coefficients on a box, as far as random points see it.

    Derivatives are exact, by automatic differentiation. Suprema are over ``points`` pairs of
    points, drawn uniformly and at all distances down to 1e-6 of the box, so the result is a lower
    bound of the distance that grows with ``points``.

    Args:
        f: a function of x (path, coordinate) that torch can differentiate; any result shape.
        g: the other one.
        low: the corner of the box with the least coordinates, (d,) or a number.
        high: the opposite one.
        gamma: the order, positive.
        points: pairs.
        seed: of the points.

    Examples:
        >>> near = holder_distance(torch.sin, lambda x: 1.01 * torch.sin(x), -1.0, 1.0, 1.5)
        >>> 0.012 < near < 0.02  # 0.01 for the function or its slope, the rest for its bend
        True
    """
    gamma, points = check_positive("gamma", gamma), check_integer("points", points, 1)
    x, y = _pairs(low, high, points, seed)
    order = math.floor(gamma)
    at_x, at_y = (_derivatives(f, g, z, order) for z in (x, y))
    size = max(float(value.abs().max()) for value in (*at_x, *at_y))
    apart = (x - y).norm(dim=1)
    changed = (at_x[-1] - at_y[-1]).reshape(points, -1).abs().amax(dim=1)
    return size + float((changed / apart ** (gamma - order)).max())


def _pairs(low: ArrayLike, high: ArrayLike, points: int, seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    a, b = (np.atleast_1d(np.asarray(end, dtype=np.float64)) for end in (low, high))
    if a.ndim != 1 or a.shape != b.shape or not (a < b).all() or not np.isfinite(b - a).all():
        raise ValueError(f"low must be a finite corner below high, got {low!r} and {high!r}")
    x = a + (b - a) * rng.random((points, len(a)))
    step = (rng.random((points, len(a))) - 0.5) * 10.0 ** rng.uniform(-6.0, 0.0, (points, 1))
    y = np.clip(x + (b - a) * step, a, b)
    return torch.as_tensor(x), torch.as_tensor(np.where(y == x, 0.5 * (a + b) + 0.25 * (b - x), y))


def _derivatives(f: VectorField, g: VectorField, x: Tensor, order: int) -> list[Tensor]:
    """Return f - g and its derivatives up to ``order``, (point, component, axis, ...) each."""
    x = x.clone().requires_grad_()
    value = (f(x) - g(x)).reshape(len(x), -1)
    derivatives: list[Tensor] = [value]
    for _ in range(order):
        columns = [_slope(column, x) for column in derivatives[-1].reshape(len(x), -1).unbind(1)]
        derivatives.append(torch.stack(columns, dim=1))
    return [one.detach() for one in derivatives]


def _slope(column: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of every point's entry; points do not see each other."""
    if not column.requires_grad:
        return torch.zeros_like(x)
    (slope,) = torch.autograd.grad(column.sum(), x, create_graph=True, allow_unused=True)
    return torch.zeros_like(x) if slope is None else slope


def _readable(function: Callable[..., Any]) -> bool:
    """Return whether Python knows the arguments; it does not for torch's own functions."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True
