"""Chaotic noise: the signed values of Thaler orbits, whose sums tend to a stable law.

    k^(-gamma) (v_0 + ... + v_(k-1))  ->  X(1/gamma, beta),     v_k = chi_k v(y_k)

v is c0 left of y* and c1 on Z = (y*, 1]; chi keeps its value through a laminar phase and is
drawn anew after each visit to Z, +1 with probability (1 + beta)/2. The phase length may be
capped (`mpgd.noise.capped`); then sums tend to a normal law. The orbit is kept in the
Abel coordinate (`mpgd.maps.abel`), where a laminar step is a subtraction, in 32 bits with its sign
(`mpgd.noise.word`).

Reference: Lim, Wan & Simsekli (2022), Section 3; Gottwald & Melbourne (2021).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np
from torch import Tensor

from mpgd.noise.covariance import autocovariance
from mpgd.noise.driver import Driver, make_driver
from mpgd.noise.engines import check_engine
from mpgd.noise.phased import PhasedNoise
from mpgd.parameters import (
    FIRST_SIGNS,
    SIGN_RULES,
    check_beta,
    check_choice,
    check_flag,
    check_gamma,
    check_longest,
)
from mpgd.stable import StableLaw


@dataclass(frozen=True)
class ChaoticNoise(PhasedNoise):
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
        burst: whether a visit to Z has the value c1, large and of the sign of the phase, which
            makes the mean zero for any beta. Without bursts a visit has the phase's own value, c0;
            words stay what they are.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.
            A parameter that waits, without a gradient say, falls behind the others.
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
    burst: bool = True
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
        check_flag("burst", self.burst)
        if not self.burst and self.beta:
            raise ValueError(
                f"burst=False needs beta = 0: without bursts nothing balances the phases of the "
                f"likelier sign, and the mean would not be zero, got beta={self.beta}"
            )

    @property
    def alpha(self) -> float:
        """The tail index 1/gamma of the limit law."""
        return 1.0 / self.gamma

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent; here gamma."""
        return self.gamma

    @property
    def draws_first_sign(self) -> bool:
        """Whether the first sign is drawn like all others."""
        return self.first_sign == "drawn"

    @cached_property
    def driver(self) -> Driver:
        """The constants all engines read."""
        return make_driver(self.gamma, self.beta, self.signs, self.longest, self.burst)

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-gamma) times sums of k values, as k grows.

        Product signs forget their start, so their limit is symmetric, but for beta = 1: then no
        sign ever changes, and the limit is X(alpha, 1).
        """
        if self.longest is not None:
            raise ValueError(
                f"sums of k values of noise with a longest phase are normal and grow like k^(1/2), "
                f"so k^(-{self.gamma}) times them tends to 0, got longest={self.longest}; leave "
                "longest out for the stable limit"
            )
        forgets = self.signs == "product" and self.beta < 1.0
        return StableLaw(self.alpha, 0.0 if forgets else self.beta)

    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n, stationary.

        Fresh signs at beta = 0 have a closed form, used at any lag; otherwise the transfer
        operator is applied numerically and lags up to a few thousand are practical. With a
        longest phase only the closed form is known. See `mpgd.noise.covariance`.
        """
        return autocovariance(self.gamma, self.beta, self.signs, lags, self.longest, self.burst)
