"""What may drive a fast-slow system, and the law that its sums tend to.

A driver is a map with an observable. `FastSlow` asks three things of it: the growth of its sums,

    k^(-exponent) (v_0 + ... + v_(k-1))  ->  a stable law of index 1 / exponent,

a stationary state, and one step. `ChaoticNoise`, `GaussianNoise` and `StableNoise` give them, and
so does `ExpandingNoise`, the example of another map: x -> 2x mod 1 expands uniformly, correlations
die exponentially, and the limit is Gaussian. For v = c (x - 1/2), E[v_0 v_n] = c^2 2^(-n) / 12, so
by the Green-Kubo formula the sums have variance

    c^2/12 (1 + 2 sum_(n>=1) 2^(-n)) = c^2 / 4       per step; c = sqrt(8) makes it 2,

the variance of ``StableLaw(2.0)``, whose characteristic function is exp(-t^2).

Reference: Lim, Wan & Simsekli (2022), Theorem 4.1 and Appendix C; Gottwald & Melbourne (2021).
"""

import math
from dataclasses import dataclass, replace
from typing import Final, Protocol

import torch
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise import counter_hash as counter
from mpgd.noise.noise_state import new_state
from mpgd.parameters import check_shape
from mpgd.stable import StableLaw

_START: Final = 0x5EED
_AMPLITUDE: Final = math.sqrt(8.0)


class DrivingNoise(Protocol):
    """What `FastSlow` asks of a driver, a part of what an optimizer asks (`mpgd.noise.Noise`).

    Every element of its state is an independent orbit. A driver may also have an attribute
    ``limit_law``, a `StableLaw`; see `limit_law`.
    """

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent: gamma, or 1/alpha."""

    def init(self, shape: tuple[int, ...], seed: int, device: str, *, driver_id: int) -> NoiseState:
        """Return a stationary state; different ``driver_id`` are independent."""

    def step(self, state: NoiseState) -> tuple[Tensor, NoiseState]:
        """Return the values at this time, float64, and the state at the next."""


@dataclass(frozen=True)
class ExpandingNoise:
    """The doubling map x -> 2x mod 1 with v = sqrt(8) (x - 1/2); its sums tend to N(0, 2).

    In floating point the doubling map runs out of digits after 52 steps. Here each step brings in
    one more binary digit of the start, made by the counter hash, so the orbit is, to 52 digits,
    that of a real number drawn uniformly from (0, 1).

    Examples:
        >>> noise = ExpandingNoise()
        >>> v, state = noise.step(noise.init((3,), seed=0))
        >>> v.shape, int(state.step), noise.limit_law.alpha
        (torch.Size([3]), 1, 2.0)
    """

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^(1/2)."""
        return 0.5

    @property
    def has_orbit(self) -> bool:
        """The next value depends on x."""
        return True

    def spread(self, twins: bool = False) -> float:
        """Return the standard deviation of a value, or of the difference of two."""
        return math.sqrt((2.0 if twins else 1.0) * _AMPLITUDE**2 / 12.0)

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-1/2) times sums of k values, as k grows: N(0, 2)."""
        return StableLaw(2.0)

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
        """Return a stationary state: x uniform, element i from (seed, tensor, driver, i)."""
        shape = check_shape(shape)
        place = torch.device(device) if device is not None else torch.get_default_device()
        empty = new_state(shape, seed, place, tensor_id, driver_id)
        key = counter.make_key(int(empty.key), _START)
        index = counter.flat_index(shape, place) if index is None else index
        return replace(empty, word=counter.uniform(counter.hash_elements(index, key)))

    def step(self, state: NoiseState, *, index: Tensor | None = None) -> tuple[Tensor, NoiseState]:
        """Return the values at this time and the state at the next."""
        x = state.word
        index = counter.flat_index(tuple(x.shape), x.device) if index is None else index
        h = counter.hash_elements(index, counter.step_key_tensor(state.key, state.step))
        # x is (k + 1/2) 2^-52; the digit takes the place of the 1/2, exactly.
        digit = counter.upper_bits(h, 1).to(torch.float64)
        following = (2.0 * x) % 1.0 + (digit - 0.5) * 2.0**-52
        return _AMPLITUDE * (x - 0.5), NoiseState(following, state.step + 1, state.key)


def limit_law(noise: DrivingNoise) -> StableLaw:
    """Return the law that k^(-exponent) times a sum of k values of ``noise`` tends to.

    A driver says its law in an attribute ``limit_law``.

    Raises:
        TypeError: a driver without ``limit_law``.
        ValueError: chaotic noise with a longest phase, whose sums grow like k^(1/2) and are normal.

    Examples:
        >>> from mpgd import ChaoticNoise, GaussianNoise
        >>> limit_law(ChaoticNoise(0.625, beta=0.5))
        StableLaw(alpha=1.6, beta=0.5, loc=0.0, scale=1.0, parametrization='S1')
        >>> limit_law(GaussianNoise(variance=8.0))  # alpha = 2 has variance 2 scale^2
        StableLaw(alpha=2.0, beta=0.0, loc=0.0, scale=2.0, parametrization='S1')
    """
    law = getattr(noise, "limit_law", None)
    if not isinstance(law, StableLaw):
        raise TypeError(f"the limit of {noise!r} is not known: give it an attribute limit_law")
    return law
