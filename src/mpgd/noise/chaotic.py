"""Chaotic noise: the signed values of Thaler orbits, whose sums tend to a stable law.

    k^(-gamma) (v_0 + ... + v_(k-1))  ->  X(1/gamma, beta),     v_k = chi_k v(y_k)

v is c0 left of y* and c1 on Z = (y*, 1]; chi keeps its value through a laminar phase and is
drawn anew after each visit to Z, +1 with probability (1 + beta)/2. Phases may have a longest one
(`mpgd.noise.capped`); then sums tend to a normal law. The orbit is kept in the
Abel coordinate (`mpgd.maps.abel`), where a laminar step is a subtraction, in 32 bits with its sign
(`mpgd.noise.word`).

Reference: Lim, Wan & Simsekli (2022), Section 3; Gottwald & Melbourne (2021).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
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
from mpgd.noise.covariance import autocovariance
from mpgd.noise.driver import Driver, make_driver
from mpgd.noise.engines import (
    check_dtype,
    check_engine,
    check_integers,
    cpu,
    kernel_for,
    tensor,
    use_cpu_kernels,
)
from mpgd.noise.state import NoiseState, new_state
from mpgd.parameters import (
    FIRST_SIGNS,
    SIGN_RULES,
    check_beta,
    check_choice,
    check_flag,
    check_gamma,
    check_integer,
    check_longest,
    check_seed,
    check_shape,
    check_stream,
)

_PLACE, _SIGN = 0, 1  # what a start needs bits for


@dataclass(frozen=True)
class ChaoticNoise:
    """Intermittent noise of a Thaler map, tail index 1/gamma and skewness beta in the limit.

    Args:
        gamma: the intermittency exponent, in (0.5, 0.99].
        beta: the skewness of the limit, in [-1, 1].
        signs: ``"fresh"``: a new independent sign after each visit to Z. ``"product"``: the old
            sign times such a draw, as the paper prints it; for |beta| < 1 its limit is symmetric.
        first_sign: ``"drawn"`` like all others, or ``"positive"`` as the paper prints it.
        longest: no laminar phase has more steps than this; None, the default, sets no bound. c1,
            the variance and the start are those of such orbits, so the mean is zero; c0 stays.
            Sums then have no heavy tail and tend to a normal law.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.
        engine: ``"torch"``, ``"cpu"`` (compiled kernels) or ``"triton"``; by default the kernels of
            the device, where they are installed.

    Examples:
        >>> noise = ChaoticNoise(gamma=0.6, beta=0.5)
        >>> state = noise.init((3,), seed=0)
        >>> v, state = noise.step(state)
        >>> v.shape, int(state.step)
        (torch.Size([3]), 1)
        >>> noise.birkhoff(steps=1000, count=5).shape
        torch.Size([5])
        >>> short = ChaoticNoise(gamma=0.6, beta=0.5, longest=10)
        >>> round(noise.burst_value, 4), round(short.burst_value, 4)
        (-1.8186, -1.2697)

    Reference: Lim, Wan & Simsekli (2022), Section 3.
    """

    gamma: float
    beta: float = 0.0
    _: KW_ONLY
    signs: str = "fresh"
    first_sign: str = "drawn"
    longest: int | None = None
    shared: bool = False
    engine: str | None = field(default=None, repr=False)  # the bits do not depend on it

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_gamma(self.gamma))
        object.__setattr__(self, "beta", check_beta(self.beta))
        check_choice("signs", self.signs, SIGN_RULES)
        check_choice("first_sign", self.first_sign, FIRST_SIGNS)
        object.__setattr__(self, "engine", check_engine(self.engine))
        object.__setattr__(self, "longest", check_longest(self.longest))
        check_flag("shared", self.shared)

    @property
    def alpha(self) -> float:
        """The tail index 1/gamma of the limit law."""
        return 1.0 / self.gamma

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent; here gamma."""
        return self.gamma

    @property
    def has_orbit(self) -> bool:
        """A chaotic value depends on where the orbit is."""
        return True

    def spread(self, twins: bool = False) -> float:
        """Return the root mean square of a value, or of the difference of two."""
        return sqrt(self.variance * (2.0 if twins else 1.0))

    @cached_property
    def driver(self) -> Driver:
        """The constants all engines read."""
        return make_driver(self.gamma, self.beta, self.signs, self.longest)

    @property
    def laminar_value(self) -> float:
        """c0, the value in a laminar phase."""
        return self.driver.laminar_value

    @property
    def burst_value(self) -> float:
        """c1, the value on Z; the mean over the invariant law is zero."""
        return self.driver.burst_value

    @property
    def variance(self) -> float:
        """E v^2 under the invariant law; the values have mean zero."""
        p = self.driver.burst_probability
        return (1 - p) * self.laminar_value**2 + p * self.burst_value**2

    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n, stationary.

        Fresh signs at beta = 0 have a closed form, used at any lag; otherwise the transfer
        operator is applied numerically and lags up to a few thousand are practical. With a
        longest phase only the closed form is known. See `mpgd.noise.covariance`.
        """
        return autocovariance(self.gamma, self.beta, self.signs, lags, self.longest)

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
        sign_key = derived_key(key, _SIGN) if self.first_sign == "drawn" else None
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
        """Return ``count`` independent samples of steps^(-gamma) (v_0 + ... + v_(steps-1))."""
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
        scale: float = float(steps) ** -self.gamma
        return sums * scale

    def _is_launched(self, device: torch.device) -> bool:
        is_gpu = kernel_for(self.engine, device) == "triton"
        return is_gpu and not torch.compiler.is_compiling()

    def _launch(self, words: Tensor, following: Tensor, value: Tensor, key: Tensor) -> None:
        """Write the values and the next words on a GPU; ``following`` may be ``words`` itself."""
        from mpgd.noise.engines.gpu import launch_words

        launch_words(self.driver, words, following, value, key)
