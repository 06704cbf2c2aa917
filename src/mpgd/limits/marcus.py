"""Marcus equations driven by stable Levy processes: the limit of MPGD.

    dX = a(X) dt + sum_i b_i(X) <> dL_i

An increment dL_i moves the state along the flow of b_i (see `limits.couplings`). A step of size h
is Strang's: half a step of the drift, the flows of b_1, b_2, ... in the order of the couplings,
half a step of the drift. Drift steps are Heun's; two neighbouring halves are taken as one step.

Strong order: the error at a fixed time, on shared noise, falls like h where the flows of all
drivers commute (one coupling that is a number, diagonal or linear), and like h^min(1, 1/alpha), up
to logarithms, where those of two drivers do not, such as additive and multiplicative noise: the
order of the jumps inside a step is lost. Its mean may be infinite; this is about its median over
paths.

The limit theorem has 1 < alpha < 2. The equation makes sense for every semimartingale, so alpha may
be any index of `StableNoise`: at 2 L is Brownian and the integral Stratonovich's; above 1 the jumps
are compensated, L has mean 0; below 1 they are summable, and L is their plain sum. In between, at
alpha = 1, S1 makes L a Levy process too: with scale c and skewness beta, L_h has the scale c h and,
from the standard law, the shift (2/pi) beta c h log(c h).

References: Lim, Wan & Simsekli (2022), Theorem 4.1 and Appendix B.2; Marcus (1981); Kurtz, Pardoux
& Protter (1995).
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits.couplings import Coupling, CouplingLike, as_coupling
from mpgd.limits.noise_blocks import by_step
from mpgd.limits.solution import Recorder, Solution, check_drift, initial_states, refuse_non_finite
from mpgd.noise import StableNoise
from mpgd.parameters import check_choice, check_integer, check_positive
from mpgd.stable import StableLaw
from mpgd.stable.sampling import SMALLEST_ALPHA

Drift = Callable[[Tensor], Tensor]
INTEGRALS = ("marcus", "ito")
SMALLEST: Final = sys.float_info.min  # a step's size; below it numbers lose digits, then vanish


@dataclass(frozen=True, eq=False)
class MarcusSDE:
    """A stochastic differential equation driven by independent stable processes.

    Args:
        drift: a, a function of x (path, coordinate) with a result of the same shape.
        couplings: pairs (b, law). b as in `FastSlow`; the driver has the law ``law`` at time 1. Its
            alpha lies in [0.25, 2], where `StableNoise` has a table, its location in S1 is 0.
        note: where the coefficients come from, if `FastSlow.limit` had to look for them.

    Examples:
        >>> from mpgd.limits import Diagonal
        >>> sde = MarcusSDE(lambda x: -x, [(0.5, StableLaw(1.5)), (Diagonal(0.1), StableLaw(1.8))])
        >>> sde.solve(x0=1.0, t1=1.0, steps=100, paths=4).final.shape
        torch.Size([4, 1])
    """

    drift: Drift
    couplings: Sequence[tuple[CouplingLike, StableLaw]]
    note: str = ""

    def __post_init__(self) -> None:
        pairs = tuple((as_coupling(b), law) for b, law in checked_pairs(self.couplings, "law"))
        for i, (_, law) in enumerate(pairs):
            if not isinstance(law, StableLaw):
                raise TypeError(f"couplings[{i}] needs a StableLaw, got {law!r}")
            _check_driving(law, i)
        object.__setattr__(self, "couplings", pairs)

    @torch.no_grad()
    def solve(
        self,
        x0: ArrayLike | Tensor,
        t1: float = 1.0,
        steps: int = 1000,
        paths: int = 1,
        seed: int = 0,
        times: ArrayLike | Tensor | None = None,
        increments: Tensor | Sequence[Tensor] | None = None,
        integral: str = "marcus",
    ) -> Solution:
        """Return paths of the equation at the times asked for.

        Args:
            x0: the start: a number (d = 1), (d,), or (paths, d).
            t1: the end.
            steps: of size t1 / steps.
            paths: how many independent paths.
            seed: path p of coupling i depends on (seed, i, p) alone.
            times: in [0, t1], by default 0 and t1; between two steps the earlier state holds.
            increments: of the drivers, one tensor (steps, paths, r) per coupling, instead of new
                ones; see `increments` and `coarsen`.
            integral: ``"marcus"``, or ``"ito"``, which adds b(x) dL.

        Raises:
            ValueError: t1, steps or a shape that does not fit.
            FloatingPointError: a state that is not finite; the text names the time and the path.
            RuntimeError: a flow that takes too long; the text names the time and the path.

        Examples:
            >>> from mpgd.limits import Linear
            >>> rotation = Linear([[0.0, -1.0], [1.0, 0.0]])
            >>> sde = MarcusSDE(torch.zeros_like, [(rotation, StableLaw(1.5))])
            >>> jump = torch.full((1, 1, 1), torch.pi / 2, dtype=torch.float64)
            >>> sde.solve([1.0, 0.0], steps=1, increments=jump).final.round(decimals=9)
            tensor([[0., 1.]], dtype=torch.float64)
            >>> sde.solve([1.0, 0.0], steps=1, increments=jump, integral="ito").final[0, 0]
            tensor(1., dtype=torch.float64)
        """
        check_choice("integral", integral, INTEGRALS)
        x, h = initial_states(x0, paths), step_size(t1, steps)
        check_drift(self.drift(x), x)
        recorder = Recorder(times, t1, steps / t1, x)
        move = self._along_flows if integral == "marcus" else self._forward
        drawn = self._draw(x, h, steps, seed)
        if increments is not None:
            drawn = self._given(increments, x, steps)
        x = self._heun(x, h / 2)
        for k, dL in enumerate(drawn, 1):
            refuse_non_finite(x, (k - 0.5) * h)
            x = move(x, dL, k * h)
            refuse_non_finite(x, k * h)
            if recorder.wants(k):
                recorder.keep(k, self._heun(x, h / 2))
            x = self._heun(x, h)
        return recorder.solution()

    @torch.no_grad()
    def increments(
        self,
        x0: ArrayLike | Tensor,
        t1: float = 1.0,
        steps: int = 1000,
        paths: int = 1,
        seed: int = 0,
    ) -> list[Tensor]:
        """Return the increments that `solve` draws for these arguments, (steps, paths, r) each.

        Examples:
            >>> sde = MarcusSDE(lambda x: -x, [(1.0, StableLaw(1.5))])
            >>> fine = sde.increments(0.0, steps=8, paths=2)
            >>> direct = sde.solve(0.0, steps=8, paths=2).final
            >>> torch.equal(sde.solve(0.0, steps=8, paths=2, increments=fine).final, direct)
            True
        """
        x, h = initial_states(x0, paths), step_size(t1, steps)
        drawn = [[dL.clone() for dL in row] for row in self._draw(x, h, steps, seed)]
        return [torch.stack(column) for column in zip(*drawn, strict=True)]

    def _heun(self, x: Tensor, h: float) -> Tensor:
        slope = self.drift(x)
        guess = torch.add(x, slope, alpha=h)
        return torch.add(x, slope + self.drift(guess), alpha=0.5 * h)

    def _along_flows(self, x: Tensor, dL: list[Tensor], time: float) -> Tensor:
        try:
            for b, increment in zip(self._b, dL, strict=True):
                x = b.flow(x, increment)
        except RuntimeError as problem:
            raise RuntimeError(f"at time {time:.6g}: {problem}") from problem
        return x

    def _forward(self, x: Tensor, dL: list[Tensor], time: float) -> Tensor:
        new = x.clone()
        for b, increment in zip(self._b, dL, strict=True):
            b.add(new, x, increment)
        return new

    @property
    def _b(self) -> list[Coupling]:
        return [as_coupling(b) for b, _ in self.couplings]

    def _draw(self, x: Tensor, h: float, steps: int, seed: int) -> Iterator[list[Tensor]]:
        """Yield stable increments of scale c h^(1/alpha), step by step."""
        laws = [law for _, law in self.couplings]
        noises = [StableNoise(law.alpha, law.beta) for law in laws]
        scales = [law.scale * h ** (1.0 / law.alpha) for law in laws]
        shifts = [
            2.0 / math.pi * law.beta * c * math.log(c) if law.alpha == 1.0 else 0.0
            for law, c in zip(laws, scales, strict=True)
        ]
        drawn = by_step(noises, widths(self._b, x), scales, len(x), steps, seed)
        if not any(shifts):
            return drawn
        return ([dL + s for dL, s in zip(row, shifts, strict=True)] for row in drawn)

    def _given(
        self, increments: Tensor | Sequence[Tensor], x: Tensor, steps: int
    ) -> Iterator[list[Tensor]]:
        given = [increments] if isinstance(increments, Tensor) else list(increments)
        if len(given) != len(self.couplings):
            raise ValueError(
                f"increments must hold one tensor for each of {len(self.couplings)} couplings, "
                f"got {len(given)}"
            )
        given = [torch.as_tensor(dL, dtype=torch.float64) for dL in given]
        for i, (dL, r) in enumerate(zip(given, widths(self._b, x), strict=True)):
            if dL.shape != (steps, len(x), r):
                raise ValueError(
                    f"increments[{i}] must have shape (steps, paths, r) = {(steps, len(x), r)}, "
                    f"got {tuple(dL.shape)}"
                )
        return ([dL[k] for dL in given] for k in range(steps))


def coarsen(increments: Sequence[Tensor], factor: int) -> list[Tensor]:
    """Return increments over steps ``factor`` times as long: sums of neighbours.

    Examples:
        >>> coarsen([torch.arange(4.0).reshape(4, 1, 1)], 2)[0].flatten()
        tensor([1., 5.])
    """
    factor = check_integer("factor", factor, 1)
    for dL in increments:
        if len(dL) % factor:
            raise ValueError(f"factor must divide the number of steps {len(dL)}, got {factor}")
    return [dL.reshape(-1, factor, *dL.shape[1:]).sum(dim=1) for dL in increments]


def step_size(t1: float, steps: int) -> float:
    """Return t1 / steps, which must not underflow.

    Examples:
        >>> step_size(1.0, 4)
        0.25
    """
    h = check_positive("t1", t1) / check_integer("steps", steps, 1)
    if h < SMALLEST:
        raise ValueError(f"t1 must be at least {SMALLEST * steps:.3g} for {steps} steps, got {t1}")
    return h


def checked_pairs(couplings: Any, second: str) -> list[tuple[Any, Any]]:
    """Return the couplings; raise if they are not a list of pairs, as a single pair is not."""
    given: list[Any] = list(couplings) if isinstance(couplings, Iterable) else [None]
    for pair in given:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TypeError(f"couplings must be a list of pairs (b, {second}), got {couplings!r}")
    return [(b, driver) for b, driver in given]


def widths(couplings: Sequence[Coupling], x: Tensor) -> list[int]:
    """Return the number of drivers of each coupling; the error names the one that does not fit."""
    results = []
    for i, b in enumerate(couplings):
        try:
            results.append(b.width(x))
        except ValueError as problem:
            raise ValueError(f"couplings[{i}]: {problem}") from None
    return results


def _check_driving(law: StableLaw, i: int) -> None:
    """Raise if a law has no table, or a drift of its own."""
    if np.ndim(law.alpha) or not law.alpha >= SMALLEST_ALPHA:
        raise ValueError(
            f"couplings[{i}] needs one law with alpha in [{SMALLEST_ALPHA}, 2], the range of "
            f"StableNoise, got alpha={law.alpha!r}"
        )
    if law.s1_location() != 0.0:
        raise ValueError(
            f"couplings[{i}] needs a law of location 0 in S1, which is mean 0 above alpha = 1 (put "
            f"the location into the drift), got {law!r}"
        )
