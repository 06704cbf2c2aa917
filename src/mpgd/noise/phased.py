"""What noises with phases share: a driver of words, advanced by the engines.

A subclass says which driver (`mpgd.noise.driver`) and how its values are correlated. Its words, its
start and its steps are then those of every engine, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from mpgd.noise.counter_hash import (
    derived_key,
    flat_index,
    make_key,
    seed_of,
    step_key_tensor,
)
from mpgd.noise.covariance import root_mean_square_sum
from mpgd.noise.driver import Driver
from mpgd.noise.engines import (
    check_dtype,
    check_integers,
    cpu,
    kernel_for,
    tensor,
    use_cpu_kernels,
)
from mpgd.noise.noise_state import NoiseState, new_state
from mpgd.parameters import check_integer, check_seed, check_shape, check_stream
from mpgd.stable import StableLaw

_PLACE, _SIGN = 0, 1  # what a start needs bits for


class PhasedNoise(ABC):
    """A noise that keeps a value chi c0 for a phase; then comes a visit, and a new sign chi."""

    engine: str | None
    longest: int | None
    shared: bool

    @property
    @abstractmethod
    def driver(self) -> Driver:
        """The constants all engines read."""

    @property
    @abstractmethod
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent."""

    @abstractmethod
    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n, stationary."""

    @property
    @abstractmethod
    def limit_law(self) -> StableLaw:
        """The law of k^(-exponent) times sums of k values, as k grows."""

    @property
    def has_orbit(self) -> bool:
        """A value depends on where in its phase the noise is."""
        return True

    @property
    def draws_first_sign(self) -> bool:
        """Whether the first sign is drawn like all others."""
        return True

    @property
    def laminar_value(self) -> float:
        """c0, the value in a phase."""
        return self.driver.laminar_value

    @property
    def burst_value(self) -> float:
        """c1, the value at a visit."""
        return self.driver.burst_value

    @property
    def variance(self) -> float:
        """E v^2 in the stationary noise; the values have mean zero."""
        p = self.driver.burst_probability
        return (1 - p) * self.laminar_value**2 + p * self.burst_value**2

    def spread(self, twins: bool = False) -> float:
        """Return the root mean square of a value, or of the difference of two."""
        return sqrt(self.variance * (2.0 if twins else 1.0))

    def displacement(self, steps: int) -> float:
        """Return the root mean square of the sum of ``steps`` values, from the autocovariance.

        Examples:
            >>> from mpgd import ChaoticNoise, GaussianNoise
            >>> chaos = ChaoticNoise(0.6)
            >>> round(chaos.displacement(500) / GaussianNoise.matched(chaos).displacement(500), 2)
            3.11
        """
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
        stream: int | str | None = None,
    ) -> NoiseState:
        """Return a stationary state; element i depends on (seed, tensor, driver, i) alone.

        Args:
            shape: the state's shape.
            seed: a non-negative integer.
            device: where the state lives.
            tensor_id: which tensor of a model this is; different ones are independent.
            driver_id: which driver of the tensor this is.
            index: the flat index of each element in a larger tensor, if this is a part of one.
            stream: a name or number; states with other streams of one seed are independent.
        """
        seed = seed_of(check_seed(seed), check_stream(stream))
        shape = check_shape(shape)
        device = torch.device(device) if device is not None else torch.get_default_device()
        check_integers(device)
        index = flat_index(shape, device) if index is None else index.reshape(shape)
        empty = new_state(shape, seed, device, tensor_id, driver_id)
        return replace(empty, word=self.start(index, make_key(seed, tensor_id, driver_id)))

    def start(self, index: Tensor, key: int | Tensor) -> Tensor:
        """Return the stationary words of the elements ``index`` in the stream of ``key``.

        A tensor of keys has one for each element.
        """
        sign_key = derived_key(key, _SIGN) if self.draws_first_sign else None
        return tensor.start(self.driver, index, derived_key(key, _PLACE), sign_key)

    def step(
        self,
        state: NoiseState,
        *,
        index: Tensor | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> tuple[Tensor, NoiseState]:
        """Return the values at this time and the state at the next; ``state`` stays as it is.

        Args:
            state: the state now.
            index: as in `init`.
            dtype: of the values, float64 or float32.
        """
        word = state.word
        check_dtype(dtype, word.device)
        if index is None and use_cpu_kernels(self.engine, word.device):
            word = word.contiguous()
            value, following = torch.empty_like(word, dtype=dtype), torch.empty_like(word)
            place = int(state.key), int(state.step)
            cpu.advance(self.driver, word, value, *place, following=following)
            return value, NoiseState(following, state.step + 1, state.key)
        key_tensor = step_key_tensor(state.key, state.step)
        if index is None and self._is_launched(word.device):
            word = word.contiguous()
            value, following = torch.empty_like(word, dtype=dtype), torch.empty_like(word)
            self._launch(word, following, value, key_tensor)
        else:
            value, following = tensor.advance(self.driver, word, key_tensor, index, dtype=dtype)
        return value, NoiseState(following, state.step + 1, state.key)

    def path(
        self,
        steps: int,
        shape: int | tuple[int, ...] = (),
        seed: int = 0,
        device: torch.device | str | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Return the values at times 0 ... steps - 1, a tensor (time, *shape)."""
        steps = check_integer("steps", steps, 0)
        state = self.init(shape, seed, device)
        word = state.word
        check_dtype(dtype, word.device)
        out = torch.empty((steps, *word.shape), dtype=dtype, device=word.device)
        if use_cpu_kernels(self.engine, word.device):
            cpu.advance(self.driver, word, out, int(state.key), steps=steps)
            return out
        for k in range(steps):
            key = step_key_tensor(state.key, state.step + k)
            if self._is_launched(word.device):
                self._launch(word, word, out[k], key)
            else:
                tensor.advance_into(self.driver, word, out[k], key)
        return out

    def birkhoff(
        self,
        steps: int,
        count: int,
        seed: int = 0,
        device: torch.device | str | None = None,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """Return ``count`` independent samples of steps^(-exponent) (v_0 + ... + v_(steps-1))."""
        steps, count = check_integer("steps", steps, 1), check_integer("count", count, 0)
        state = self.init(count, seed, device)
        check_dtype(dtype, state.word.device)
        sums = torch.zeros(count, dtype=dtype, device=state.word.device)
        if use_cpu_kernels(self.engine, state.word.device):
            cpu.advance(self.driver, state.word, sums, int(state.key), steps=steps, adds=True)
        else:
            for _ in range(steps):
                value, state = self.step(state, dtype=dtype)
                sums += value
        scale: float = float(steps) ** -self.exponent
        return sums * scale

    def _is_launched(self, device: torch.device) -> bool:
        is_gpu = kernel_for(self.engine, device) == "triton"
        return is_gpu and not torch.compiler.is_compiling()

    def _launch(self, words: Tensor, following: Tensor, value: Tensor, key: Tensor) -> None:
        """Write the values and the next words on a GPU; ``following`` may be ``words`` itself."""
        from mpgd.noise.engines.gpu import launch_words

        launch_words(self.driver, words, following, value, key)
