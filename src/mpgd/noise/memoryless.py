"""Independent noises, Gaussian and stable, from the same counter hash as the chaotic one.

    Gaussian, stable: the inverse of the distribution function, from a table, in integers

Value k of element i is a function of (seed, tensor, driver, i, k), so shards of a tensor see
what the whole tensor would.

Of the 64 bits of a Gaussian's hash the uppermost is the sign, and the 50 below it, with the last
one set, are U. The table of `mpgd.maps.normal` at U is the magnitude. It is rounded to 27 bits
behind the point, so that it fits an int32 with its sign; a float takes that up with one rounding.
Of a stable number's hash the uppermost bit is the side of the median, see `mpgd.stable.sampling`.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import torch
from torch import Tensor

from mpgd.maps.normal import EXCESS, FINGERPRINT, INPUT_SHIFT, NORMAL_BITS, normal_rows
from mpgd.maps.rows import INPUT_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter_hash import flat_index, hash_elements, step_key_tensor
from mpgd.noise.covariance import check_lags
from mpgd.noise.driver import Driver, Table
from mpgd.noise.engines import cpu, use_cpu_kernels
from mpgd.noise.engines.tensor import lookup
from mpgd.noise.noise_state import NoiseState, new_state
from mpgd.noise.protocol import Noise
from mpgd.parameters import (
    check_beta,
    check_flag,
    check_integer,
    check_positive,
    check_real,
    check_shape,
)
from mpgd.stable import StableLaw
from mpgd.stable.sampling import OCTAVES, POSITION_BITS, ROW_BITS, SMALLEST_ALPHA, quantile_rows
from mpgd.stable.standard import BAND, skew_shift

UNIT: Final = 2.0**-NORMAL_BITS  # what the integer 1 stands for


@lru_cache(maxsize=128)
def normal_driver(deviation: float) -> Driver:
    """Return what the kernels know of normal noise; its first value is that of the integer 1."""
    rows = normal_rows()
    table = Table(rows, RETURN_ROW_BITS)
    return Driver(
        laminar_value=deviation * UNIT,
        burst_value=0.0,
        burst_probability=0.0,
        threshold=0,
        product=False,
        returns=table,
        starts=table,
        law=None,
        largest=0,
        fingerprint=int(FINGERPRINT, 16) >> 1,
        is_normal=True,
    )


@lru_cache(maxsize=32)
def stable_driver(alpha: float, beta: float) -> Driver:
    """Return what the kernels know of stable noise, in S1."""
    shift = skew_shift(alpha, beta) if 0.0 < abs(alpha - 1.0) < BAND else 0.0
    rows = quantile_rows(alpha, beta, shift)
    # `Table` reverses the octaves, and with them the sides.
    falling = rows.reshape(2 * OCTAVES, -1, 2)[::-1].reshape(-1, 2).view(np.uint64)
    table = Table(np.ascontiguousarray(falling), ROW_BITS)
    return Driver(
        laminar_value=1.0,
        burst_value=0.0,
        burst_probability=0.0,
        threshold=0,
        product=False,
        returns=table,
        starts=table,
        law=None,
        largest=0,
        fingerprint=int.from_bytes(hashlib.sha256(falling.tobytes()).digest()[:8], "little") >> 1,
        is_stable=True,
    )


def stable_numbers(index: Tensor, key: Tensor | int, driver: Driver) -> Tensor:
    """Return stable numbers (float64) of the elements ``index``: `stable.sampling` in torch."""
    h = hash_elements(index, key)
    U = ((h >> INPUT_SHIFT) & ((1 << INPUT_BITS) - 1)) | 1
    pattern = U.to(torch.float64).view(torch.int64)
    octave = (pattern >> 52) - 1023
    row = (pattern >> (52 - ROW_BITS)) & (2**ROW_BITS - 1)
    X = (pattern >> (52 - ROW_BITS - POSITION_BITS)) & (2**POSITION_BITS - 1)
    lower = (h < 0).to(torch.int64)
    # The table has the lower side first, and each side's octaves from the largest u down.
    place = ((1 - lower) * OCTAVES + OCTAVES - 1 - octave) * 2**ROW_BITS + row
    c0, shape = (column[place] for column in driver.returns.on(index.device))
    slope = (shape & 0xFFFFFFFF) - ((X * (shape >> 38)) >> 32)
    z = (c0 - ((X * slope) >> ((shape >> 32) & 63)) + 2**15) >> 16
    power: Tensor = (((c0 & 255) + 1023 - 30) << 52).view(torch.float64)
    return torch.where(h < 0, -z, z).to(torch.float64) * power


def integers(index: Tensor, key: Tensor | int, driver: Driver | None = None) -> Tensor:
    """Return standard normal numbers times 2^27, int64, of the elements ``index``.

    A compiler cannot see into the cache of drivers, so who has one hands it over.
    """
    h = hash_elements(index, key)
    U = ((h >> INPUT_SHIFT) & ((1 << INPUT_BITS) - 1)) | 1
    table = (normal_driver(1.0) if driver is None else driver).returns
    q = (lookup(table, U) + (1 << (EXCESS - 1))) >> EXCESS
    return torch.where(h < 0, -q, q)


class MemorylessNoise(ABC):
    """What independent noises share; a subclass says how a hash becomes a value."""

    if TYPE_CHECKING:

        @property
        def exponent(self) -> float:
            """Sums of k values grow like k^exponent; it is eta's power too."""

        @property
        def driver(self) -> Driver:
            """The constants that all engines read."""

    @property
    def has_orbit(self) -> bool:
        """A value depends on its element and step alone."""
        return False

    @abstractmethod
    def spread(self, twins: bool = False) -> float:
        """Return the size of a value, or of the difference of two."""

    @abstractmethod
    def draw(self, index: Tensor, key: Tensor | int) -> Tensor:
        """Return the values of the elements ``index`` under the key of one step."""

    def init(
        self,
        shape: int | tuple[int, ...],
        seed: int = 0,
        device: torch.device | str | None = None,
        *,
        tensor_id: int = 0,
        driver_id: int = 0,
        index: Tensor | None = None,
    ) -> NoiseState:
        """Return the state at step 0; it holds a key and a count, no orbit."""
        device = torch.device(device) if device is not None else torch.get_default_device()
        return new_state(check_shape(shape), seed, device, tensor_id, driver_id)

    def step(self, state: NoiseState, *, index: Tensor | None = None) -> tuple[Tensor, NoiseState]:
        """Return the values at this time (float64) and the state at the next."""
        device = state.word.device
        if index is None and use_cpu_kernels(None, device):
            value = torch.empty(state.word.shape, dtype=torch.float64, device=device)
            cpu.advance(self.driver, None, value, int(state.key), int(state.step))
        else:
            index = flat_index(tuple(state.word.shape), device) if index is None else index
            value = self.draw(index, step_key_tensor(state.key, state.step))
        return value, replace(state, step=state.step + 1)

    def path(
        self,
        steps: int,
        shape: int | tuple[int, ...] = (),
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Return the values at times 0 ... steps - 1, a float64 tensor (time, *shape)."""
        state = self.init(shape, seed, device)
        values = [state.word.new_empty((0, *state.word.shape), dtype=torch.float64)]
        for _ in range(check_integer("steps", steps, 0)):
            value, state = self.step(state)
            values.append(value[None])
        return torch.cat(values)

    def birkhoff(
        self, steps: int, count: int, seed: int = 0, device: torch.device | str | None = None
    ) -> Tensor:
        """Return ``count`` independent samples of steps^(-exponent) (v_0 + ... )."""
        steps = check_integer("steps", steps, 1)
        state = self.init(check_integer("count", count, 0), seed, device)
        total = state.word.new_zeros(state.word.shape, dtype=torch.float64)
        for _ in range(steps):
            value, state = self.step(state)
            total = total + value
        scale: float = float(steps) ** -self.exponent
        return total * scale


@dataclass(frozen=True)
class GaussianNoise(MemorylessNoise):
    """Independent normal values with mean 0.

    Args:
        variance: the variance, above 0.
        exponent: the power of the step size in front of the noise. 1/2, the default, is that of
            Langevin dynamics; `matched` takes the other noise's.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.

    Examples:
        >>> noise = GaussianNoise(variance=4.0)
        >>> v, state = noise.step(noise.init((2, 3), seed=1))
        >>> v.shape
        torch.Size([2, 3])
    """

    variance: float = 1.0
    exponent: float = 0.5
    shared: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", check_positive("variance", self.variance))
        object.__setattr__(self, "exponent", check_positive("exponent", self.exponent))
        check_flag("shared", self.shared)

    @classmethod
    def matched(cls, noise: Noise, *, steps: int = 1, symmetric: bool = False) -> Self:
        """Return the Gaussian that moves as far as another noise, with its power of the step size.

        Both have the same root mean square displacement over ``steps`` steps. Over one step that is
        the same variance; over more, a persistent noise of this variance moves farther.

        Args:
            noise: such as ``ChaoticNoise(0.6)``.
            steps: over which they move as far.
            symmetric: of the variance of a difference of two such noises.

        Examples:
            >>> from mpgd import ChaoticNoise
            >>> noise = GaussianNoise.matched(ChaoticNoise(0.6))
            >>> round(noise.variance, 4), noise.exponent
            (1.0567, 0.6)
            >>> round(GaussianNoise.matched(ChaoticNoise(0.6), steps=500).variance, 3)
            10.246
        """
        if check_integer("steps", steps, 1) == 1:
            return cls(noise.spread(symmetric) ** 2, noise.exponent)
        if not hasattr(noise, "displacement"):
            raise TypeError(f"{noise!r} has no root mean square displacement to match")
        square = float(noise.displacement(steps)) ** 2 * (2.0 if symmetric else 1.0)
        return cls(square / steps, noise.exponent)

    def spread(self, twins: bool = False) -> float:
        """Return the standard deviation of a value, or of the difference of two."""
        return math.sqrt(self.variance * (2.0 if twins else 1.0))

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-1/2) times sums of k values; alpha = 2 has variance 2 scale^2."""
        return StableLaw(2.0, scale=math.sqrt(self.variance / 2.0))

    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n: the variance at 0, else 0."""
        return torch.from_numpy(np.where(check_lags(lags) == 0, self.variance, 0.0))

    def displacement(self, steps: int) -> float:
        """Return the root mean square of the sum of ``steps`` values."""
        return math.sqrt(self.variance * check_integer("steps", steps, 0))

    @property
    def driver(self) -> Driver:
        """The constants that all engines read."""
        if "_driver" not in self.__dict__:  # a compiler cannot see into a cache
            object.__setattr__(self, "_driver", normal_driver(math.sqrt(self.variance)))
        found: Driver = self.__dict__["_driver"]
        return found

    def draw(self, index: Tensor, key: Tensor | int) -> Tensor:
        """Return the values of the elements ``index`` under the key of one step."""
        driver = self.driver
        return integers(index, key, driver).to(torch.float64) * driver.laminar_value


@dataclass(frozen=True)
class StableNoise(MemorylessNoise):
    """Independent values of the stable law X(alpha, beta), scale 1 and location 0 in S1.

    A table gives its quantiles to 5e-6 of max(|x|, 0.1) for alpha >= 0.4, and to 5e-5 below; the
    distribution function to 3e-7 and 2e-5. |x| is at most 2^(51/alpha), the quantile of 2^-51. In
    float32 that overflows below alpha = 0.4.

    Args:
        alpha: the tail index, in [0.25, 2]; below, 2^(51/alpha) has no place in the table.
        beta: the skewness, in [-1, 1].

    Examples:
        >>> noise = StableNoise(alpha=1.5, beta=0.5)
        >>> noise.path(steps=4, shape=(2,)).shape
        torch.Size([4, 2])
    """

    alpha: float
    beta: float = 0.0

    def __post_init__(self) -> None:
        rule = f"[{SMALLEST_ALPHA}, 2]"
        alpha = check_real("alpha", self.alpha, rule, SMALLEST_ALPHA, 2.0, "[]")
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", check_beta(self.beta))

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^(1/alpha)."""
        return 1.0 / self.alpha

    def spread(self, twins: bool = False) -> float:
        """Return the scale of a value, or of the difference of two.

        Below alpha = 2 there is no variance.
        """
        return float(2.0 ** (1.0 / self.alpha)) if twins else 1.0

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-1/alpha) times sums of k values, that of one value."""
        return StableLaw(self.alpha, self.beta)

    @property
    def driver(self) -> Driver:
        """The constants that all engines read."""
        if "_driver" not in self.__dict__:  # a compiler cannot see into a cache
            object.__setattr__(self, "_driver", stable_driver(self.alpha, self.beta))
        found: Driver = self.__dict__["_driver"]
        return found

    def draw(self, index: Tensor, key: Tensor | int) -> Tensor:
        """Return the values of the elements ``index`` under the key of one step."""
        return stable_numbers(index, key, self.driver)
