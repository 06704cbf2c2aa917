"""The fast-slow recursion, of which MPGD is a case.

    x' = x + a(x) / m + sum_i m^(-1/alpha_i) b_i(x) v_i

Each v_i is the value of a driver that advances one step; all terms use the old x. After [m t] steps
the state converges in law, as m grows, to the Marcus equation of `MarcusSDE` at time t.

Reference: Lim, Wan & Simsekli (2022), equation (7) and Theorem 4.1.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits import _solution
from mpgd.limits.drivers import DrivingNoise, limit_law
from mpgd.limits.flows import Coupling, CouplingLike, Diagonal, as_coupling
from mpgd.limits.marcus import MarcusSDE, widths
from mpgd.limits.streams import by_step
from mpgd.noise import ChaoticNoise
from mpgd.parameters import check_nonnegative, check_positive

Drift = Callable[[Tensor], Tensor]
Pair = float | tuple[float, float]


@dataclass(frozen=True, eq=False)
class FastSlow:
    """A fast-slow system: a drift, and couplings to independent drivers.

    Args:
        drift: a, a function of x (path, coordinate) with a result of the same shape.
        couplings: pairs (b, noise). b is a number (times the identity), (d,) a constant diagonal,
            (d, r) a constant matrix, `Diagonal`, `Linear`, or a function of x that returns
            (path, d), a diagonal, or (path, d, r). Every path and component has its own driver.

    Examples:
        >>> noise = ChaoticNoise(gamma=0.6, beta=0.5)
        >>> system = FastSlow(lambda x: -x, [(0.5, noise)])
        >>> solution = system.simulate(x0=1.0, m=100, t1=1.0, paths=3, times=[0.5, 1.0])
        >>> solution.x.shape
        torch.Size([2, 3, 1])
        >>> system.limit().couplings[0][1]
        StableLaw(alpha=1.6666666666666667, beta=0.5, scale=1.0)
    """

    drift: Drift
    couplings: Sequence[tuple[CouplingLike, DrivingNoise]]

    def __post_init__(self) -> None:
        pairs = tuple((as_coupling(b), noise) for b, noise in self.couplings)
        for i, (_, noise) in enumerate(pairs):
            if not all(hasattr(noise, name) for name in ("exponent", "init", "step")):
                raise TypeError(
                    f"couplings[{i}] needs a noise with exponent, init and step, got {noise!r}"
                )
        object.__setattr__(self, "couplings", pairs)

    @classmethod
    def mpgd(
        cls,
        gradient: Drift,
        mu: float = 0.0,
        sigma: float = 0.0,
        gamma: Pair = 0.6,
        beta: Pair = 0.0,
        *,
        signs: str = "fresh",
        first_sign: str = "drawn",
        symmetric: bool = False,
    ) -> Self:
        """Return MPGD with step size 1/m: a = -gradient, b_1 = -mu diag(x), b_2 = sigma I.

        Args:
            gradient: of the loss, for x (path, coordinate).
            mu: size of the multiplicative perturbation; 0 leaves it out.
            sigma: size of the additive perturbation; 0 leaves it out.
            gamma: a number, or a pair (multiplicative, additive).
            beta: the same.
            signs: the sign rule of `ChaoticNoise`.
            first_sign: the same for the first one.
            symmetric: replace each v by the difference of two independent ones.

        Examples:
            >>> quadratic = FastSlow.mpgd(lambda x: x, mu=0.1, sigma=0.2, beta=(0.0, 0.5))
            >>> [noise.beta for _, noise in quadratic.couplings]
            [0.0, 0.5]
        """
        mu, sigma = check_nonnegative("mu", mu), check_nonnegative("sigma", sigma)
        one, two = (
            ChaoticNoise(g, b, signs, first_sign=first_sign)
            for g, b in zip(_pair("gamma", gamma), _pair("beta", beta), strict=True)
        )
        couplings: list[tuple[CouplingLike, DrivingNoise]] = []
        for sign in (1.0, -1.0) if symmetric else (1.0,):
            couplings += [(Diagonal(-sign * mu), one)] if mu else []
            couplings += [(sign * sigma, two)] if sigma else []
        return cls(lambda x: -gradient(x), couplings)

    def limit(self) -> MarcusSDE:
        """Return the equation this system tends to as m grows (Theorem 4.1)."""
        return MarcusSDE(self.drift, [(b, limit_law(noise)) for b, noise in self.couplings])

    @torch.no_grad()
    def simulate(
        self,
        x0: ArrayLike | Tensor,
        m: float,
        t1: float = 1.0,
        paths: int = 1,
        seed: int = 0,
        times: ArrayLike | Tensor | None = None,
    ) -> _solution.Solution:
        """Return paths of the recursion at the times asked for.

        Args:
            x0: the start: a number (d = 1), (d,), or (paths, d).
            m: steps per unit of time, the reciprocal of the step size.
            t1: the end; [m t1] steps are taken.
            paths: how many independent paths.
            seed: path p of coupling i depends on (seed, i, p) alone.
            times: in [0, t1], by default 0 and t1. The state at time t is x_[mt].

        Raises:
            ValueError: m, t1 or a shape that does not fit.
            FloatingPointError: a state that is not finite; the text names the time and the path.

        Examples:
            >>> system = FastSlow.mpgd(lambda x: x, sigma=0.1)
            >>> system.simulate([1.0, 2.0], m=50, paths=4).final.shape
            torch.Size([4, 2])
        """
        m, t1, x = check_positive("m", m), check_positive("t1", t1), _solution.start(x0, paths)
        _solution.check_drift(self.drift(x), x)
        recorder = _solution.Recorder(times, t1, m, x)
        for k, values in enumerate(self._values(x, m, _solution.steps_until(t1, m), seed), 1):
            new = torch.add(x, self.drift(x), alpha=1.0 / m)
            for b, v in zip(self._b, values, strict=True):
                b.add(new, x, v)
            x = new
            _solution.refuse_non_finite(x, k / m)
            recorder.keep(k, x)
        return recorder.solution()

    @property
    def _b(self) -> list[Coupling]:
        return [as_coupling(b) for b, _ in self.couplings]

    def _values(self, x: Tensor, m: float, steps: int, seed: int) -> Iterator[list[Tensor]]:
        """Yield m^(-1/alpha_i) v_i of every coupling, step by step."""
        noises = [noise for _, noise in self.couplings]
        scales = [m**-noise.exponent for noise in noises]
        return by_step(noises, widths(self._b, x), scales, len(x), steps, seed)


def _pair(name: str, value: Pair) -> tuple[float, float]:
    if not isinstance(value, tuple | list):
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name} must be a number or a pair, got {value!r}")
    return value[0], value[1]
