"""Solutions of equations driven by one given path: forward (Ito) and Marcus.

For a step path W with increments dW_k and a coupling b,

    forward   X_k = X_(k-1) + b(X_(k-1)) dW_k
    Marcus    X_k = where the flow of b over dW_k takes X_(k-1)

A recursion is a forward equation: with W^(m) the scaled sums of the driver and V^(m)(t) = [mt]/m,
the fast-slow system is dX = a(X) dV + b(X) dW. If W has small jumps only, the two are close: their
difference in p-variation is at most K |b|_Lip |b|_oo sum |dW|^2. So forward solutions along W^(m),
whose jumps vanish, tend to the Marcus solution along a W that jumps.

Reference: Lim, Wan & Simsekli (2022), Definitions B.8 and B.10, Remark B.2, Lemma C.2.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits.couplings import Coupling, CouplingLike, as_coupling
from mpgd.limits.paths.checks import Array, checked_path
from mpgd.limits.solution import initial_states


def forward_path(b: CouplingLike, W: ArrayLike, x0: ArrayLike | Tensor) -> Array:
    """Return the solution of dX = b(X) dW with b taken before each jump, as Ito does.

    Args:
        b: the coupling, as in `MarcusSDE`.
        W: values of the driver, (time,) or (time, r).
        x0: the start, a number or (d,).

    Returns:
        The values of X at the same times, (time, d).

    Raises:
        ValueError: a driver or a start that does not fit the coupling.

    Examples:
        >>> from mpgd.limits import Linear
        >>> rotation = Linear([[0.0, -1.0], [1.0, 0.0]])
        >>> forward_path(rotation, [0.0, 2.5], [1.0, 0.0])[-1].tolist()
        [1.0, 2.5]
    """
    coupling = as_coupling(b)

    def step(x: Tensor, dW: Tensor) -> Tensor:
        new = x.clone()
        coupling.add(new, x, dW)
        return new

    return _driven_path(coupling, step, W, x0)


def marcus_path(b: CouplingLike, W: ArrayLike, x0: ArrayLike | Tensor) -> Array:
    """Return the solution of dX = b(X) <> dW, which follows the flow of b in each jump.

    Args:
        b: the coupling, as in `MarcusSDE`.
        W: values of the driver, (time,) or (time, r).
        x0: the start, a number or (d,).

    Returns:
        The values of X at the same times, (time, d).

    Raises:
        ValueError: a driver or a start that does not fit the coupling.

    Examples:
        >>> from mpgd.limits import Linear
        >>> rotation = Linear([[0.0, -1.0], [1.0, 0.0]])
        >>> marcus_path(rotation, [0.0, np.pi], [1.0, 0.0])[-1].round(9).tolist()
        [-1.0, 0.0]
    """
    coupling = as_coupling(b)
    return _driven_path(coupling, coupling.flow, W, x0)


def _driven_path(
    coupling: Coupling,
    step: Callable[[Tensor, Tensor], Tensor],
    W: ArrayLike,
    x0: ArrayLike | Tensor,
) -> Array:
    """Return the states (time, d) after every increment of the driver."""
    driver, x = checked_path(W, "W"), initial_states(x0, 1)
    r = coupling.width(x)
    if driver.shape[1] != r:
        raise ValueError(f"W must have {r} coordinates for this coupling, got {driver.shape[1]}")
    path = [x]
    for dW in torch.as_tensor(np.diff(driver, axis=0))[:, None]:
        path.append(step(path[-1], dW))
    return np.asarray(torch.cat(path).numpy())
