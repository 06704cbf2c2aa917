"""One of the two drivers of Theorem 4.3, as a part of g(x) = -a v1 x + b v2.

    multiplicative:  strength -a, values v1, coupling -a x (shared) or -a diag(x)
    additive:        strength  b, values v2, coupling b I

so that a driver's part of g is its coupling, (coordinate, value), times its values.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise


@dataclass(frozen=True)
class Drive:
    """A driver with its strength and its covariance.

    Examples:
        >>> drive = Drive(ChaoticNoise(0.6), -2.0, multiply=True, shared=False, R=torch.eye(5))
        >>> drive.coupling(torch.tensor([1.0, 3.0])).tolist()
        [[-2.0, 0.0], [0.0, -6.0]]
    """

    noise: ChaoticNoise  # the law of its values
    strength: float  # -mu0 m^(-gamma1) or sigma0 m^(-gamma2)
    multiply: bool  # whether the values multiply x
    shared: bool  # whether one value serves all coordinates
    R: Tensor  # E[v_i v_j], (time, time)

    def forcing(self, v: Tensor, x: Tensor) -> Tensor:
        """Return this driver's part of g at x for every row of ``v``."""
        return self.strength * v * x if self.multiply else self.strength * v

    def coupling(self, x: Tensor) -> Tensor:
        """Return the matrix that takes the values to this driver's part of g."""
        column = self.strength * (x if self.multiply else torch.ones_like(x))
        return column[:, None] if self.shared else torch.diag(column)

    def values(self, paths: int, d: int, seed: int) -> Iterator[Tensor]:
        """Yield at every step the values of independent paths, (path, coordinate)."""
        shape = (paths, 1 if self.shared else d)
        state = self.noise.init(shape, seed, driver_id=0 if self.multiply else 1)
        for _ in range(len(self.R)):
            v, state = self.noise.step(state)
            yield v

    def columns(self) -> Tensor:
        """Return paths v with sum v_i v_j = R_ij, (time, path, 1); R may be singular."""
        values, vectors = torch.linalg.eigh(self.R)
        root: Tensor = vectors * values.clamp_min(0.0).sqrt()
        return root[..., None]


def covariance(noise: ChaoticNoise, steps: int) -> Tensor:
    """Return E[v_i v_j] for i, j < steps.

    Examples:
        >>> R = covariance(ChaoticNoise(0.6), 3)
        >>> bool(R[0, 2] == R[2, 0]), bool(R[0, 1] == R[1, 2])
        (True, True)
    """
    time = torch.arange(steps)
    lags = (time[:, None] - time[None, :]).abs()
    R: Tensor = noise.autocovariance(time)[lags]
    return R
