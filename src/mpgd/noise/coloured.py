"""Coloured Gaussian noise: an Ornstein-Uhlenbeck process, seen at whole steps.

    v_(k+1) = a v_k + sqrt(1 - a^2) xi_k,    a = exp(-1/time),    E[v_k v_(k+n)] = variance a^n

xi_k are the normal numbers of `mpgd.noise.memoryless`, functions of (seed, tensor, driver, element,
step), and the first v is normal too, so the noise is stationary from its start on. Each operation
is one of float64 and rounds by itself: eager torch gives the same bits on every CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from mpgd.noise.counter_hash import derived_key, flat_index, step_key_tensor
from mpgd.noise.covariance import check_lags, root_mean_square_sum
from mpgd.noise.memoryless import UNIT, integers
from mpgd.noise.noise_state import NoiseState, new_state
from mpgd.parameters import check_flag, check_integer, check_positive, check_shape
from mpgd.stable import StableLaw

_START: Final = 0x0C01


@dataclass(frozen=True)
class ColouredNoise:
    """Normal values with mean 0 that forget each other exponentially.

    Args:
        time: the steps after which the correlation has fallen to 1/e, above 0.
        variance: of a value, above 0.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.

    Examples:
        >>> noise = ColouredNoise(time=20)
        >>> v, state = noise.step(noise.init((2, 3), seed=1))
        >>> v.shape, round(float(noise.autocovariance(20)), 4)
        (torch.Size([2, 3]), 0.3679)
        >>> round(noise.displacement(1000), 1)
        198.0
    """

    time: float
    variance: float = 1.0
    shared: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", check_positive("time", self.time))
        object.__setattr__(self, "variance", check_positive("variance", self.variance))
        check_flag("shared", self.shared)

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^(1/2)."""
        return 0.5

    @property
    def has_orbit(self) -> bool:
        """The next value depends on this one."""
        return True

    @cached_property
    def _factors(self) -> tuple[float, float]:
        """A and sqrt(variance (1 - a^2)), rounded once."""
        import mpmath as mp

        with mp.workdps(30):
            a = mp.exp(-1 / mp.mpf(self.time))
            return float(a), float(mp.sqrt(mp.mpf(self.variance) * (1 - a * a)))

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-1/2) times sums of k values: normal, of variance (1 + a) / (1 - a)."""
        a = self._factors[0]
        return StableLaw(2.0, scale=math.sqrt(self.variance * (1.0 + a) / (1.0 - a) / 2.0))

    def spread(self, twins: bool = False) -> float:
        """Return the standard deviation of a value, or of the difference of two."""
        return math.sqrt(self.variance * (2.0 if twins else 1.0))

    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n."""
        n = check_lags(lags).astype(np.float64)
        return torch.from_numpy(np.asarray(self.variance * np.exp(-n / self.time)))

    def displacement(self, steps: int) -> float:
        """Return the root mean square of the sum of ``steps`` values."""
        steps = check_integer("steps", steps, 0)
        return root_mean_square_sum(self.autocovariance(np.arange(max(steps, 1))), steps)

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
        """Return a stationary state; element i depends on (seed, tensor, driver, i) alone."""
        shape = check_shape(shape)
        place = torch.device(device) if device is not None else torch.get_default_device()
        empty = new_state(shape, seed, place, tensor_id, driver_id)
        index = flat_index(shape, place) if index is None else index.reshape(shape)
        return replace(empty, word=self.start(index, int(empty.key)))

    def start(self, index: Tensor, key: int | Tensor) -> Tensor:
        """Return the first values of the elements ``index`` in the stream of ``key``."""
        normal = integers(index, derived_key(key, _START)).to(torch.float64)
        return normal * (UNIT * math.sqrt(self.variance))

    def step(self, state: NoiseState, *, index: Tensor | None = None) -> tuple[Tensor, NoiseState]:
        """Return the values at this time (float64) and the state at the next."""
        v, (a, b) = state.word, self._factors
        index = flat_index(tuple(v.shape), v.device) if index is None else index.reshape(v.shape)
        xi = integers(index, step_key_tensor(state.key, state.step)).to(torch.float64)
        return v, NoiseState(v * a + xi * (UNIT * b), state.step + 1, state.key)

    def path(
        self,
        steps: int,
        shape: int | tuple[int, ...] = (),
        seed: int = 0,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Return the values at times 0 ... steps - 1, a float64 tensor (time, *shape)."""
        steps, state, (a, b) = (
            check_integer("steps", steps, 0),
            self.init(shape, seed, device),
            self._factors,
        )
        values = state.word.new_empty((steps + 1, *state.word.shape))
        values[0] = state.word
        keys = step_key_tensor(state.key, torch.arange(steps, device=values.device))
        index = flat_index(tuple(state.word.shape), values.device)
        xi = integers(index, keys.view(-1, *[1] * index.ndim)).to(torch.float64)  # as in `step`
        for k in range(steps):
            values[k + 1] = values[k] * a + xi[k] * (UNIT * b)
        return values[:-1]
