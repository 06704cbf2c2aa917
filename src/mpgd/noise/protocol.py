"""What a noise must give to drive an optimizer or a fast-slow system.

`ChaoticNoise`, `GaussianNoise` and `StableNoise` give it, `mpgd.limits.ExpandingNoise` is a small
example of another map, and a class of your own that gives it trains too. A noise is a frozen value:
its ``repr`` says all of it, and a checkpoint holds that text to refuse another noise.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mpgd.noise.noise_state import NoiseState


@runtime_checkable
class Noise(Protocol):
    """A stationary sequence of values with mean 0; every element of a state has its own.

    Examples:
        >>> from mpgd import GaussianNoise
        >>> isinstance(GaussianNoise(), Noise)
        True
    """

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent: gamma, or 1/alpha. It is eta's power too."""

    @property
    def has_orbit(self) -> bool:
        """Whether the next value depends on ``state.word``, so that a checkpoint must hold it."""

    def spread(self, twins: bool = False) -> float:
        """Return the size of a value, or of the difference of two independent ones.

        That is the root mean square, or the scale where there is none.
        """

    def init(
        self,
        shape: tuple[int, ...],
        seed: int,
        device: torch.device | str | None,
        *,
        tensor_id: int = 0,
        driver_id: int = 0,
        index: Tensor | None = None,
    ) -> NoiseState:
        """Return a stationary state.

        Element i is a function of (seed, tensor, driver, i) alone, where i is ``index`` if that is
        given, so that a part of a tensor starts as the whole would.
        """

    def step(self, state: NoiseState, *, index: Tensor | None = None) -> tuple[Tensor, NoiseState]:
        """Return the values at this time, float64, and the state at the next."""
