"""The fast-slow recursion, of which MPGD is a case.

    x' = x + a(x) / m + sum_i m^(-1/alpha_i) b_i(x) v_i

Each v_i is the value of a driver that advances one step; all terms use the old x. After [m t] steps
the state converges in law, as m grows, to the Marcus equation of `MarcusSDE` at time t. The
coefficients may depend on m too, if they converge; see `mpgd.limits.coefficients`.

Reference: Lim, Wan & Simsekli (2022), equation (7), Theorem 4.1 and Assumption 1.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits.coefficients import ChangingField, Coefficient, settle, takes_m
from mpgd.limits.couplings import Along, Coupling, CouplingLike, Diagonal, as_coupling
from mpgd.limits.drivers import DrivingNoise, limit_law
from mpgd.limits.marcus import MarcusSDE, checked_pairs, widths
from mpgd.limits.noise_blocks import by_step
from mpgd.limits.solution import (
    Recorder,
    Solution,
    check_drift,
    initial_states,
    refuse_non_finite,
    steps_until,
)
from mpgd.noise import ChaoticNoise
from mpgd.parameters import check_nonnegative, check_positive

Drift = Callable[[Tensor], Tensor]
Pair = float | tuple[float, float]


@dataclass(frozen=True, eq=False)
class FastSlow:
    """A fast-slow system: a drift, and couplings to independent drivers.

    Args:
        drift: a, a function of x (path, coordinate), or of x and m, with a result of x's shape.
        couplings: pairs (b, noise). b is a number (times the identity), (d,) a constant diagonal,
            (d, r) a constant matrix, `Diagonal`, `Linear`, or a function of x, or of x and m, that
            returns (path, d), a diagonal, or (path, d, r). Every path and component has its own
            driver.

    Examples:
        >>> noise = ChaoticNoise(gamma=0.6, beta=0.5)
        >>> system = FastSlow(lambda x: -x, [(0.5, noise)])
        >>> solution = system.simulate(x0=1.0, m=100, t1=1.0, paths=3, times=[0.5, 1.0])
        >>> solution.x.shape
        torch.Size([2, 3, 1])
        >>> system.limit().couplings[0][1]
        StableLaw(alpha=1.6666666666666667, beta=0.5, loc=0.0, scale=1.0, parametrization='S1')
    """

    drift: Coefficient
    couplings: Sequence[tuple[CouplingLike | ChangingField, DrivingNoise]]

    def __post_init__(self) -> None:
        pairs = tuple((_coupling(b), noise) for b, noise in checked_pairs(self.couplings, "noise"))
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
            ChaoticNoise(g, b, signs=signs, first_sign=first_sign)
            for g, b in zip(_pair("gamma", gamma), _pair("beta", beta), strict=True)
        )
        couplings: list[tuple[CouplingLike | ChangingField, DrivingNoise]] = []
        for sign in (1.0, -1.0) if symmetric else (1.0,):
            couplings += [(Diagonal(-sign * mu), one)] if mu else []
            couplings += [(sign * sigma, two)] if sigma else []
        return cls(lambda x: -gradient(x), couplings)

    def limit(
        self,
        drift: Drift | None = None,
        couplings: Sequence[CouplingLike] | None = None,
        *,
        at: ArrayLike | Tensor | None = None,
    ) -> MarcusSDE:
        """Return the equation this system tends to as m grows (Theorem 4.1).

        Coefficients that depend on m need their limits. Those not given are looked for at very
        large m on the points ``at``; the ``note`` of the result says what was taken.

        Args:
            drift: the limit a, if the drift depends on m.
            couplings: the limits b_i of all couplings, if one of them depends on m.
            at: points (n, d) or (d,) on which coefficients without a given limit must settle.

        Raises:
            ValueError: a coefficient that depends on m, and neither its limit nor points are
                given, or it does not settle.

        Examples:
            >>> system = FastSlow(lambda x, m: -x * (1 + 1 / m), [(0.5, ChaoticNoise(0.6))])
            >>> system.limit(drift=lambda x: -x).note
            ''
            >>> system.limit(at=[1.0]).note
            'drift taken at m = 1e+12, changed by 1e-10 from m = 1e+10'
        """
        points = None if at is None else torch.as_tensor(at, dtype=torch.float64)
        points = points[None] if points is not None and points.dim() == 1 else points
        notes: list[str] = []
        a = self._settled("drift", self.drift, drift, points, notes)
        if couplings is not None and len(couplings) != len(self.couplings):
            raise ValueError(
                f"couplings must hold {len(self.couplings)} limits, got {len(couplings)}"
            )
        given = [None] * len(self.couplings) if couplings is None else couplings
        pairs = [
            (
                _reduced(self._settled(f"couplings[{i}]", b, limit, points, notes), noise),
                limit_law(noise),
            )
            for i, ((b, noise), limit) in enumerate(zip(self.couplings, given, strict=True))
        ]
        return MarcusSDE(a, pairs, "; ".join(notes))

    def _settled(
        self, name: str, own: Any, given: Any, points: Tensor | None, notes: list[str]
    ) -> Any:
        """Return a coefficient without m: the given one, its own, or that of a very large m."""
        if given is not None:
            return given
        function = own.function if isinstance(own, ChangingField) else own
        if not isinstance(own, ChangingField) and not takes_m(own):
            return own
        if points is None:
            raise ValueError(f"{name} depends on m: give its limit, or points at= to look for it")
        m, note = settle(name, function, points)
        notes.append(note)
        return own.at(m) if isinstance(own, ChangingField) else partial(_fixed, function, m)

    @torch.no_grad()
    def simulate(
        self,
        x0: ArrayLike | Tensor,
        m: float,
        t1: float = 1.0,
        paths: int = 1,
        seed: int = 0,
        times: ArrayLike | Tensor | None = None,
    ) -> Solution:
        """Return paths of the recursion at the times asked for.

        Args:
            x0: the start: a number (d = 1), (d,), or (paths, d).
            m: steps per unit of time, the reciprocal of the step size.
            t1: the end; [m t1] steps are taken.
            paths: how many independent paths.
            seed: path p of coupling i depends on (seed, i, p) alone.
            times: in [0, t1], by default 0 and t1. The state at time t is x after [mt] steps.

        Raises:
            ValueError: m, t1 or a shape that does not fit.
            FloatingPointError: a state that is not finite; the text names the time and the path.

        Examples:
            >>> system = FastSlow.mpgd(lambda x: x, sigma=0.1)
            >>> system.simulate([1.0, 2.0], m=50, paths=4).final.shape
            torch.Size([4, 2])
        """
        m, t1, x = check_positive("m", m), check_positive("t1", t1), initial_states(x0, paths)
        a, couplings = self.drift_at(m), self.couplings_at(m)
        check_drift(a(x), x)
        recorder = Recorder(times, t1, m, x)
        steps = steps_until(t1, m)
        for k, values in enumerate(self.values(couplings, x, m, steps, seed), 1):
            new = torch.add(x, a(x), alpha=1.0 / m)
            for b, v in zip(couplings, values, strict=True):
                b.add(new, x, v)
            x = new
            refuse_non_finite(x, k / m)
            recorder.keep(k, x)
        return recorder.solution()

    def drift_at(self, m: float) -> Drift:
        """Return the drift at one m."""
        return partial(_fixed, self.drift, m) if takes_m(self.drift) else cast(Drift, self.drift)

    def couplings_at(self, m: float) -> list[Coupling]:
        """Return the couplings at one m."""
        return [
            b.at(m) if isinstance(b, ChangingField) else as_coupling(b) for b, _ in self.couplings
        ]

    def values(
        self, couplings: Sequence[Coupling], x: Tensor, m: float, steps: int, seed: int
    ) -> Iterator[list[Tensor]]:
        """Yield m^(-1/alpha_i) v_i of every coupling, step by step."""
        noises = [noise for _, noise in self.couplings]
        scales = [m**-noise.exponent for noise in noises]
        return by_step(noises, widths(couplings, x), scales, len(x), steps, seed)


def _coupling(b: CouplingLike | ChangingField) -> Coupling | ChangingField:
    if isinstance(b, ChangingField):
        return b
    return ChangingField(b) if takes_m(b) else as_coupling(b)  # type: ignore[arg-type]


def _reduced(b: CouplingLike, noise: DrivingNoise) -> CouplingLike:
    """Return b, or b times v(0) where the components of a driver share one orbit."""
    direction = getattr(noise, "direction", None)
    return b if direction is None else Along(as_coupling(b), direction)


def _fixed(function: Any, m: float, x: Tensor) -> Tensor:
    """Return a coefficient at one m; a function of the module, so that it can be copied."""
    return cast(Tensor, function(x, m))


def _pair(name: str, value: Pair) -> tuple[float, float]:
    if not isinstance(value, tuple | list):
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name} must be a number or a pair, got {value!r}")
    return value[0], value[1]
