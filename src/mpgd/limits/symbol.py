"""The symbol of the limit equation, and the index that Theorem 4.2 takes from it.

A solution of dX = a(X) dt + sum_i b_i(X) <> dL_i with independent stable drivers has a generator
G u = -q(x, D) u. Frozen at x, the symbol is

    q(x, xi) = -i a(x) . xi + sum over all drivers j of  Psi_j((b(x)^T xi)_j) ,

that of the Ito equation. It is the Marcus equation's own where b is constant. Elsewhere a jump z
moves by the flow, b z + O(z^2), instead of b z. The phases differ by O(xi z^2), and jumps larger
than |xi|^(-1/2) come O(|xi|^(alpha/2)) times in a unit of time. So the two symbols differ by
O(|xi|^(alpha/2)), which is of lower order than either and leaves the index

    inf { lambda : q(x, xi) / |xi|^lambda -> 0 }

as it is. Since all alpha exceed 1, the drift does not matter, and the index in a direction is the
largest alpha of the drivers that b(x)^T xi reaches. The appendix writes |xi^T b|^alpha for the
symbol of b dL, which is that of a rotationally symmetric L; MPGD's drivers are independent, one for
each coordinate, and give sum_j |(b^T xi)_j|^alpha. Both have the index alpha.

Reference: Lim, Wan & Simsekli (2022), Appendix D, Assumption 3.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mpgd.limits.couplings import Coupling, as_coupling
from mpgd.limits.levy import Complex, levy_exponent
from mpgd.limits.marcus import MarcusSDE, widths
from mpgd.limits.solution import check_drift

Array = NDArray[np.float64]


def symbol(sde: MarcusSDE, x: ArrayLike | Tensor, xi: ArrayLike | Tensor) -> Complex:
    """Return q(x, xi) with the coefficients frozen at ``x``.

    Args:
        sde: the equation.
        x: a state, (d,), or a number if d = 1.
        xi: frequencies, (d,) or (n, d).

    Returns:
        A complex number, or an array (n,).

    Raises:
        ValueError: shapes that do not fit, or an x or xi that is not finite.

    Examples:
        >>> from mpgd import StableLaw
        >>> sde = MarcusSDE(lambda x: -x, [(0.5, StableLaw(1.5))])
        >>> symbol(sde, [1.0], [[4.0], [0.0]]).round(9).tolist()
        [(2.828427125+4j), 0j]
    """
    state = _state(x)
    directions, shape = _directions(xi, state.shape[1])
    a = sde.drift(state)
    check_drift(a, state)
    q = -1j * (directions @ a[0].double().numpy())
    for (_, law), b in zip(sde.couplings, coupling_matrices(sde, state), strict=True):
        q = q + levy_exponent(directions @ b, law).sum(axis=-1)
    return np.asarray(q.reshape(shape))[()]


def symbol_index(sde: MarcusSDE, x: ArrayLike | Tensor, xi: ArrayLike | Tensor) -> float:
    """Return the power of |xi| at which the symbol grows along the direction ``xi``.

    This is the alpha of Theorem 4.2; it is 1, the drift's, or 0 where no driver acts.

    Examples:
        >>> from mpgd import StableLaw
        >>> from mpgd.limits import Diagonal
        >>> pair = [(0.1, StableLaw(1.4)), (Diagonal(-1.0), StableLaw(1.8))]
        >>> sde = MarcusSDE(lambda x: -x, pair)
        >>> symbol_index(sde, [1.0, 0.0], [1.0, 1.0]), symbol_index(sde, [1.0, 0.0], [0.0, 1.0])
        (1.8, 1.4)
    """
    state = _state(x)
    direction = _directions(xi, state.shape[1])[0]
    if len(direction) != 1 or not direction.any():
        raise ValueError(f"xi must be one direction that is not 0, got {xi!r}")
    pairs = zip(sde.couplings, coupling_matrices(sde, state), strict=True)
    indices = [law.alpha for (_, law), b in pairs if (direction @ b).any()]
    if not indices and sde.drift(state)[0].double().numpy() @ direction[0]:
        indices = [1.0]
    return max(indices, default=0.0)


def coupling_matrices(sde: MarcusSDE, x: Tensor) -> list[Array]:
    """Return b_i(x), (d, r), of every coupling at a state ``x`` (1, d).

    Examples:
        >>> from mpgd import StableLaw
        >>> sde = MarcusSDE(torch.zeros_like, [(0.5, StableLaw(1.5))])
        >>> coupling_matrices(sde, torch.zeros(1, 2, dtype=torch.float64))[0].tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    couplings = [as_coupling(b) for b, _ in sde.couplings]
    return [_matrix(b, x, r) for b, r in zip(couplings, widths(couplings, x), strict=True)]


def _matrix(b: Coupling, x: Tensor, r: int) -> Array:
    """Ask the coupling for its columns, one unit vector each."""
    columns = torch.zeros(r, x.shape[1], dtype=torch.float64)
    b.add(columns, x.expand(r, -1), torch.eye(r, dtype=torch.float64))
    return np.asarray(columns.T.numpy())


def _state(x: ArrayLike | Tensor) -> Tensor:
    state = torch.as_tensor(x, dtype=torch.float64).reshape(-1)
    if state.numel() == 0 or not torch.isfinite(state).all():
        raise ValueError(f"x must be a finite state (d,), got {x!r}")
    return state[None]


def _directions(xi: ArrayLike | Tensor, d: int) -> tuple[Array, tuple[int, ...]]:
    given = np.asarray(xi, dtype=np.float64)
    if given.ndim == 0 and d == 1:
        given = given[None]
    if given.ndim not in (1, 2) or given.shape[-1] != d:
        raise ValueError(f"xi must have shape ({d},) or (n, {d}), got {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError(f"xi must be finite, got {xi!r}")
    return given.reshape(-1, d), given.shape[:-1]
