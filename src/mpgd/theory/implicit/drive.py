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
from mpgd.noise.covariance import twisted_mean


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
    R: Tensor  # covariance of v_i and v_j, (time, time)
    twins: bool = False  # whether each value is the difference of two independent drivers'

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
        first = 0 if self.multiply else 1
        states = [
            self.noise.init(shape, seed, driver_id=first + 2 * k) for k in range(1 + self.twins)
        ]
        for _ in range(len(self.R)):
            drawn = [self.noise.step(state) for state in states]
            states = [state for _, state in drawn]
            yield drawn[0][0] - drawn[1][0] if self.twins else drawn[0][0]

    def columns(self) -> Tensor:
        """Return paths v with sum v_i v_j = R_ij, (time, path, 1); R may be singular."""
        values, vectors = torch.linalg.eigh(self.R)
        root: Tensor = vectors * values.clamp_min(0.0).sqrt()
        return root[..., None]


def covariance(noise: ChaoticNoise, steps: int, twins: bool = False) -> Tensor:
    """Return the covariance of v_i and v_j for i, j < steps, of a driver or of a difference.

    Examples:
        >>> R = covariance(ChaoticNoise(0.6), 3)
        >>> bool(R[0, 2] == R[2, 0]), bool(R[0, 1] == R[1, 2])
        (True, True)
    """
    time = torch.arange(steps)
    lags = (time[:, None] - time[None, :]).abs()
    R: Tensor = noise.autocovariance(time)[lags]
    mean = mean_values(noise, steps)
    R = R - mean[:, None] * mean[None, :]
    return 2.0 * R if twins else R


def mean_values(noise: ChaoticNoise, steps: int) -> Tensor:
    """Return E v_k for k < steps: 0 for fresh signs whose first is drawn, and for beta = 1.

    A sign begins with mean s, which is beta if it is drawn and else 1. Product signs keep it, times
    beta for every visit to Z; fresh ones have mean beta after the first visit. With
    M_t(k) = E[t^N v(y_k)], N the visits before step k,

        product:  s M_beta(k)           fresh:  (s - beta) M_0(k)

    Examples:
        >>> mean_values(ChaoticNoise(0.6, 0.5), 3).tolist()
        [0.0, 0.0, 0.0]
        >>> printed = ChaoticNoise(0.6, 0.0, signs="product", first_sign="positive")
        >>> round(float(mean_values(printed, 2)[1]), 3)
        0.078
    """
    first = noise.beta if noise.first_sign == "drawn" else 1.0
    size, t = (first, noise.beta) if noise.signs == "product" else (first - noise.beta, 0.0)
    if size == 0.0 or t == 1.0:  # at t = 1 this is E v(y_k), which is 0
        return torch.zeros(steps, dtype=torch.float64)
    if noise.longest is not None:
        raise ValueError(
            "the mean of noise with a longest phase is known where it is 0 only: use "
            f"signs='fresh' and first_sign='drawn', got longest={noise.longest}"
        )
    return torch.from_numpy(size * twisted_mean(noise.gamma, t, steps))[:steps]
