"""Any map with a neutral fixed point at 0 and any observable, as a driver of a recursion.

    v_k = v(T^k(y_0)),   y_0 stationary,   int v d nu = 0

The sums of v are made by long phases near 0, during which v is v(0). If a phase over n steps begins
with probability kappa n^(-alpha) per step, then k^(-gamma) (v_0 + ... + v_(k-1)) tends to a stable
law of skewness sign(v(0)) and scale

    |v(0)| (kappa / C_alpha)^gamma,    C_alpha = (1-alpha) / (Gamma(2-alpha) cos(pi alpha/2)) .

Only v(0) enters. An observable with values in R^r gives r components of one orbit; they jump
together, and their limit is v(0) times one process. For gamma <= 1/2 the sums grow like k^(1/2) and
tend to a normal law, whose variance (Green and Kubo's) has no closed form: give it as ``law``.

This is the appendix's general T and v, iterated in double precision. MPGD's own driver, with its
signs, is `ChaoticNoise`, which is exact and a hundred times as fast.

Reference: Lim, Wan & Simsekli (2022), Section 2 and Theorem C.1; Gouezel (2004).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise import counter_hash as counter
from mpgd.noise.noise_state import new_state
from mpgd.parameters import check_shape
from mpgd.stable import StableLaw

Array = NDArray[np.float64]

_START: Final = 0x0B17
NEAR_ZERO: Final = 1e-300
POINTS: Final = 200_000  # stationary points on which the mean is taken
VANISHES: Final = 1e-6  # of the largest value: v(0) below this counts as 0
TOLERANCE: Final = 1e-3  # of the largest value: the mean may be off by this


class NeutralMap(Protocol):
    """What a map must give; `ThalerMap` does."""

    @property
    def gamma(self) -> float:
        """Near 0 the map moves y by a multiple of y^(1 + gamma)."""

    @property
    def phase_constant(self) -> float:
        """kappa: a phase over n steps begins with probability kappa n^(-1/gamma) per step."""

    def __call__(self, y: ArrayLike) -> Array:
        """Return the next points."""

    def quantile(self, u: ArrayLike) -> Array:
        """Return the points at which the invariant distribution function is ``u``."""


@dataclass(frozen=True)
class OrbitNoise:
    """An observable along the orbits of a map.

    Args:
        map: such as `ThalerMap`.
        observable: v, which takes points (n,) and returns values (n,) or (n, r).
        law: the limit of the sums, if gamma <= 1/2 or v(0) = 0.

    Raises:
        ValueError: the mean of v is not 0, or v(0) is 0 and no law is given.

    Examples:
        >>> from mpgd import ThalerMap
        >>> T = ThalerMap(0.6)
        >>> noise = OrbitNoise(T, lambda y: 0.5 - T.cdf(y))  # H(y) is uniform: mean 0, v(0) = 1/2
        >>> noise.exponent, noise.limit_law.beta
        (0.6, 1.0)
        >>> noise.step(noise.init((3,)))[0].shape
        torch.Size([3])
    """

    map: NeutralMap
    observable: Callable[[Array], Array]
    law: StableLaw | None = None

    def __post_init__(self) -> None:
        y = self.map.quantile((np.arange(POINTS) + 0.5) / POINTS)
        v = np.asarray(self.observable(y), dtype=np.float64)
        if v.ndim not in (1, 2) or len(v) != POINTS or not np.isfinite(v).all():
            raise ValueError(
                f"observable must return finite values (n,) or (n, r), got shape {v.shape} for n = "
                f"{POINTS}"
            )
        mean, size = np.abs(v.mean(axis=0)).max(), np.abs(v).max()
        if mean > TOLERANCE * size:
            raise ValueError(f"observable must have mean 0 under the map's law, got {mean:.6g}")
        vanishes = np.abs(self.at_zero).max() <= VANISHES * size
        if self.map.gamma > 0.5 and self.law is None and vanishes:
            raise ValueError("observable must not be 0 at 0, where phases are spent: give law=")

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent."""
        return max(self.map.gamma, 0.5)

    @cached_property
    def at_zero(self) -> Array:
        """v(0), (1,) or (r,)."""
        return np.asarray(self.observable(np.array([NEAR_ZERO])), dtype=np.float64).reshape(-1)

    @cached_property
    def components(self) -> int | None:
        """The number r of components, or None if the observable has no axis for them."""
        v = np.asarray(self.observable(np.array([NEAR_ZERO, 1.0])))
        return v.shape[1] if v.ndim == 2 else None

    @property
    def direction(self) -> Array | None:
        """v(0) of an observable with components: all of them follow one process times this."""
        return None if self.components is None else self.at_zero

    @property
    def limit_law(self) -> StableLaw | None:
        """The law of the sums' limit; of the one process behind it, if there are components."""
        if self.law is not None or self.map.gamma <= 0.5:
            return self.law
        alpha = 1.0 / self.map.gamma
        C = (1.0 - alpha) / (math.gamma(2.0 - alpha) * math.cos(0.5 * math.pi * alpha))
        scale = (self.map.phase_constant / C) ** self.map.gamma
        if self.components is not None:
            return StableLaw(alpha, 1.0, scale=scale)
        v = float(self.at_zero[0])
        return StableLaw(alpha, math.copysign(1.0, v), scale=abs(v) * scale)

    def init(
        self,
        shape: int | tuple[int, ...],
        seed: int = 0,
        device: torch.device | str | None = None,
        *,
        driver_id: int = 0,
    ) -> NoiseState:
        """Return stationary orbits on the CPU; element i depends on (seed, driver, i) alone."""
        place = torch.device("cpu" if device is None else device)
        if place.type != "cpu":
            raise ValueError(f"device must be the CPU for orbits of numpy, got {str(place)!r}")
        shape = check_shape(shape)
        empty = new_state(shape, seed, place, 0, driver_id)
        key = counter.make_key(int(empty.key), _START)
        u = counter.uniform(counter.hash_elements(counter.flat_index(shape, place), key))
        return replace(empty, word=torch.as_tensor(self.map.quantile(u.numpy())))

    def step(self, state: NoiseState) -> tuple[Tensor, NoiseState]:
        """Return the values at this time and the state at the next."""
        y = state.word.numpy()
        v = np.asarray(self.observable(y.reshape(-1)), dtype=np.float64)
        following = torch.as_tensor(self.map(y))
        return torch.as_tensor(v.reshape(*y.shape, *v.shape[1:])), replace(
            state, word=following, step=state.step + 1
        )
