"""Many small ordinary differential equations at once, each with its own step.

dz/dr = f(z) from r = 0 to 1, one row of z per equation. Dormand and Prince's pair of orders 5 and 4
takes a step for every unfinished row; a row whose error estimate is too large repeats it with a
smaller one. After `ROUNDS` rounds the rows left (the flow over a huge jump is long, or stiff where
it ends in a sink) go one by one to scipy's LSODA, which turns implicit where that is cheaper, up
to `EVALUATIONS` calls of f each.

Reference: Dormand & Prince (1980); Hairer, Norsett & Wanner (1993), Section II.4.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

RightHandSide = Callable[[Tensor, Tensor], Tensor]  # of the unfinished rows of z and their indices

RTOL: Final = 1e-9
ATOL: Final = 1e-11
ROUNDS: Final = 200
EVALUATIONS: Final = 20_000

STAGES: Final = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),  # this one is the result
)
ERROR: Final = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def integrate(f: RightHandSide, z: Tensor) -> Tensor:
    """Return z at r = 1.

    Args:
        f: called with any subset of the rows of z and their indices.
        z: the rows at r = 0, float64.

    Raises:
        RuntimeError: a row takes too many evaluations; the text names it.

    Examples:
        >>> z = torch.ones(2, 1, dtype=torch.float64)
        >>> rate = torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
        >>> [round(x, 6) for x in integrate(lambda z, rows: rate[rows] * z, z).flatten().tolist()]
        [2.718282, 0.135335]
    """
    z, rows = z.clone(), torch.arange(len(z))
    left, h = torch.ones(len(z), dtype=z.dtype), torch.ones(len(z), dtype=z.dtype)
    for _ in range(ROUNDS):
        step = torch.minimum(h[rows], left[rows])
        new, ratio = _attempt(f, z[rows], rows, step)
        good = ratio <= 1.0
        z[rows[good]] = new[good]
        left[rows[good]] -= step[good]
        h[rows] = step * (0.9 * ratio.clamp(min=1e-10) ** -0.2).clamp(0.2, 5.0)
        rows = rows[left[rows] > 0.0]
        if not len(rows):
            return z
    for row in rows.tolist():
        z[row] = _stiff(f, z[row], row, float(left[row]))
    return z


def _attempt(f: RightHandSide, z: Tensor, rows: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states after one step and the error estimates in units of the tolerance."""
    h = step[:, None]
    slopes, new = [f(z, rows)], z
    for weights in STAGES:
        new = z + h * _combine(weights, slopes)
        slopes.append(f(new, rows))
    error = h * _combine(ERROR, slopes)
    allowed = ATOL + RTOL * torch.maximum(z.abs(), new.abs())
    ratio = (error.abs() / allowed).amax(dim=1)
    usable = torch.isfinite(new).all(dim=1) & torch.isfinite(ratio)
    return new, torch.where(usable, ratio, torch.inf)


def _combine(weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    total = slopes[0] * weights[0]
    for weight, slope in zip(weights[1:], slopes[1:], strict=True):
        if weight:
            total = total.add_(slope, alpha=weight)
    return total


def _stiff(f: RightHandSide, z: Tensor, row: int, left: float) -> Tensor:
    """Return one row at the end, by scipy's LSODA."""
    try:
        from scipy.integrate import solve_ivp
    except ImportError:
        raise ImportError('flows over huge jumps need scipy: pip install "mpgd[lab]"') from None
    index, calls = torch.tensor([row]), 0

    def slope(_: float, y: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > EVALUATIONS:
            raise RuntimeError(_too_long(row, left))
        return f(torch.from_numpy(y)[None], index)[0].numpy()

    solution = solve_ivp(slope, (0.0, left), z.numpy(), method="LSODA", rtol=RTOL, atol=ATOL)
    if not solution.success:
        raise RuntimeError(f"{_too_long(row, left)}; LSODA says: {solution.message}")
    return torch.from_numpy(solution.y[:, -1])


def _too_long(row: int, left: float) -> str:
    return (
        f"the flow of path {row} is not finished after {ROUNDS} steps and {EVALUATIONS} "
        f"evaluations of b, {left:.3g} of it are left; give b as Diagonal or Linear if it is one"
    )
