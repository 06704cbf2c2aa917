"""Noises of phases of any law: a sign that stays for N steps and is then drawn anew.

    v_k = chi,    E[v_k v_(k+n)] = P(the sign of step k is still there n steps later)

The engines are those of chaotic noise: the lengths come from a table in the format of the map's,
and a visit has the value of its phase. `mpgd.noise.phase_law` has the law of the lengths,
`mpgd.maps.blocks` and `mpgd.maps.geometric` have the tables.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import torch
from torch import Tensor

from mpgd.maps.blocks import block_rows
from mpgd.maps.geometric import geometric_rows
from mpgd.maps.rows import Rows
from mpgd.maps.tables import DRIVER_VERSION, RETURN_ROW_BITS
from mpgd.noise.covariance import check_lags
from mpgd.noise.driver import Driver, Table, magnitude
from mpgd.noise.engines import check_engine
from mpgd.noise.phase_law import Integers, PhaseLaw, Survival, phase_law
from mpgd.noise.phased import PhasedNoise
from mpgd.noise.word import SIGN_BITS
from mpgd.parameters import check_flag, check_longest, check_real
from mpgd.stable import StableLaw

MOST: Final = 1e6  # steps of a dwell; words count to 10^9


@dataclass(frozen=True)
class TelegraphNoise(PhasedNoise):
    """A random telegraph: a sign +-1 that is drawn anew at each step with probability 1/dwell.

    Its values have variance 1 and autocovariance (1 - 1/dwell)^n. Sums tend to Brownian motion of
    variance 2 dwell - 1 a step.

    Args:
        dwell: the mean length of a phase in steps, from 1, where signs are independent, to 10^6.
        longest: no phase has more steps than this; None, the default, sets no bound.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.
        engine: as for `ChaoticNoise`.

    Examples:
        >>> noise = TelegraphNoise(dwell=20)
        >>> noise.path(4, (2,), seed=1).tolist()
        [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
        >>> noise.variance, noise.autocovariance([1, 20]).tolist()
        (1.0, [0.95, 0.3584859224085419])
        >>> round(noise.displacement(1000), 3), round(noise.limit_law.scale, 3)
        (195.551, 4.416)
    """

    dwell: float = 20.0
    _: KW_ONLY
    longest: int | None = None
    shared: bool = False
    engine: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        dwell = check_real("dwell", self.dwell, f"[1, {MOST:g}]", 1.0, MOST, "[]")
        object.__setattr__(self, "dwell", dwell)
        object.__setattr__(self, "longest", check_longest(self.longest))
        object.__setattr__(self, "engine", check_engine(self.engine))
        check_flag("shared", self.shared)

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^(1/2)."""
        return 0.5

    @property
    def driver(self) -> Driver:
        """The constants all engines read."""
        return _telegraph_driver(self.dwell, self.longest)

    @property
    def law(self) -> PhaseLaw:
        """The law of the lengths of phases."""
        return _telegraph_law(self.dwell, self.longest)

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-1/2) times sums of k values, as k grows: normal."""
        return _limit_law(self.law)

    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n: (1 - 1/dwell)^n, if there is no longest phase."""
        n = check_lags(lags)
        if self.longest is not None:
            return torch.from_numpy(np.asarray(self.law.residual_survival(n)))
        return torch.from_numpy(np.asarray((1.0 - 1.0 / self.dwell) ** n.astype(np.float64)))


@dataclass(frozen=True)
class PhaseNoise(PhasedNoise):
    """A sign +-1 that stays for phases of any law of lengths N and is then drawn anew.

    Args:
        survival: P(N >= n): the numbers for n = 1, 2, ..., which are 0 after the last one; or a
            function of an array of integers n. It starts at 1 and does not rise. A function that
            falls like n^-alpha, 1 < alpha < 2, gives heavy tails: sums tend to the stable law.
        longest: no phase has more steps than this; None, the default, sets no bound.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.
        engine: as for `ChaoticNoise`.

    Raises:
        ValueError: a survival function that rises, does not start at 1, has an infinite mean, or
            is too rough for a table: more than 128 likely lengths without likely neighbours.

    Examples:
        >>> every_third = PhaseNoise([1.0, 1.0, 1.0])
        >>> every_third.path(7, seed=4).tolist()
        [1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0]
        >>> every_third.autocovariance([0, 1, 2, 3]).tolist()
        [1.0, 0.6666666666666666, 0.3333333333333333, 0.0]
        >>> heavy = PhaseNoise(lambda n: n**-1.5)
        >>> round(heavy.exponent, 4), round(heavy.limit_law.alpha, 4)
        (0.6667, 1.5)
    """

    survival: Survival | PhaseLaw
    _: KW_ONLY
    longest: int | None = None
    shared: bool = False
    engine: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", check_longest(self.longest))
        object.__setattr__(self, "engine", check_engine(self.engine))
        check_flag("shared", self.shared)
        law = self.survival
        if not isinstance(law, PhaseLaw):
            law = phase_law(law, self.longest)
        if law.tail_index <= 1.0:
            raise ValueError(
                f"survival must have a finite mean, got P(N >= n) that falls like "
                f"n^-{law.tail_index:.3g}; set longest"
            )
        object.__setattr__(self, "survival", law)
        _ = self.driver  # refuses a law that no table holds

    @property
    def law(self) -> PhaseLaw:
        """The law of the lengths of phases."""
        assert isinstance(self.survival, PhaseLaw)
        return self.survival

    @property
    def driver(self) -> Driver:
        """The constants all engines read."""
        return _phase_driver(self.law)

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent: 1/alpha, at least 1/2."""
        return 1.0 / self.law.tail_index

    @property
    def limit_law(self) -> StableLaw:
        """The law of k^(-exponent) times sums of k values, as k grows."""
        return _limit_law(self.law)

    def autocovariance(self, lags: int | list[int] | np.ndarray | Tensor) -> Tensor:
        """Return E[v_k v_(k+n)] for every lag n: the probability that no sign is drawn between."""
        return torch.from_numpy(np.asarray(self.law.residual_survival(check_lags(lags))))


def power(q: float, n: Integers) -> np.ndarray:
    """Return q^n by multiplications alone, which every CPU rounds alike.

    Examples:
        >>> power(0.5, np.array([0, 1, 10])).tolist()
        [1.0, 0.5, 0.0009765625]
    """
    result, factor, rest = np.ones(n.shape), np.float64(q), n.copy()
    while rest.any():
        result = np.where(rest & 1, result * factor, result)
        factor, rest = factor * factor, rest >> 1
    return result


@lru_cache(maxsize=64)
def _telegraph_law(dwell: float, longest: int | None) -> PhaseLaw:
    return phase_law(lambda n: power(1.0 - 1.0 / dwell, n - 1), longest)


@lru_cache(maxsize=64)
def _telegraph_driver(dwell: float, longest: int | None) -> Driver:
    if longest is not None or dwell == 1.0:
        return _phase_driver(_telegraph_law(dwell, longest))
    return _driver(*geometric_rows(dwell), 1.0 / dwell, magnitude(None))


@lru_cache(maxsize=64)
def _phase_driver(law: PhaseLaw) -> Driver:
    returns, starts = (block_rows(law.edges, m) for m in (law.masses, law.start_masses))
    largest = magnitude(int(law.edges[-1]) - 1 if law.is_cut else None)
    return _driver(returns, starts, 1.0 / law.mean, largest)


def _driver(returns: Rows, starts: Rows, visits: float, largest: int) -> Driver:
    whole = f"driver {DRIVER_VERSION}".encode() + returns.tobytes() + starts.tobytes()
    return Driver(
        laminar_value=1.0,
        burst_value=1.0,
        burst_probability=visits,
        threshold=1 << (SIGN_BITS - 1),
        product=False,
        returns=Table(returns, RETURN_ROW_BITS),
        starts=Table(starts, RETURN_ROW_BITS),
        law=None,
        largest=largest,
        fingerprint=int.from_bytes(hashlib.sha256(whole).digest()[:8], "little") >> 1,
    )


def _limit_law(law: PhaseLaw) -> StableLaw:
    """Return the limit of sums of t / E[N] independent phases +-N.

    With finite variance it is normal, of variance E[N^2] / E[N] a step. If P(N >= n) ~ C n^-alpha,
    it is stable, of a scale with scale^alpha = C / (E[N] c_alpha), where P(|X| >= x) ~ c_alpha
    x^-alpha of the stable law of scale 1.
    """
    alpha = law.tail_index
    if alpha == 2.0:
        return StableLaw(2.0, scale=math.sqrt(law.mean_square / law.mean / 2.0))
    n = law.edges[np.searchsorted(law.edges, law.edges[-1] // 16)]
    C = float(law.tail(n - 1)) * float(n) ** alpha
    c_alpha = (1.0 - alpha) / (math.gamma(2.0 - alpha) * math.cos(math.pi * alpha / 2.0))
    return StableLaw(alpha, scale=(C / (law.mean * c_alpha)) ** (1.0 / alpha))
