"""The law of the lengths of phases: P(N >= n), its moments, and the steps still to come.

A phase of N >= 1 steps has one value chi; its last step is the visit, after which chi is drawn
anew. In the word of 32 bits (`mpgd.noise.word`) the n = N - 1 steps before the visit are counted
down. With S_n = P(N > n), a point of the stationary noise has n steps before the next visit with
probability S_n / E[N], and more than that if no sign is drawn in between, so

    E[N] = S_0 + S_1 + ...,        E[v_k v_(k+n)] = c^2 (S_n + S_(n+1) + ...) / E[N]

Lengths beyond 4096 stand in cells that are 1/256 as wide as they are far, or narrower where S
jumps, and S is linear in a cell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps.rows import LARGEST
from mpgd.noise.word import FAR

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Survival = Callable[[Integers], Any] | Sequence[float] | Array

_LEAST: Final = 2.0**-50  # a probability that no table holds
_FINENESS: Final = 256  # a cell is so many times as far as it is wide
_ROUGH: Final = 1e-5  # how far S in the middle of a cell may be from linear, relative to S


@dataclass(frozen=True, eq=False)
class PhaseLaw:
    """The law of lengths, by the cells of n = N - 1.

    Attributes:
        edges: of the cells, from 0 to the largest n plus 1.
        survival: S = P(n steps or more before the visit) at the edges, from 1 to 0.
        is_cut: whether there is a longest phase, given or by the end of an array.
    """

    edges: Integers
    survival: Array
    is_cut: bool

    @property
    def masses(self) -> Array:
        """The probability of each cell."""
        return -np.diff(self.survival)

    @cached_property
    def remaining(self) -> Array:
        """S_n + S_(n+1) + ... at the edges."""
        width = np.diff(self.edges).astype(np.float64)
        sums = width * self.survival[:-1] - (width - 1.0) / 2.0 * self.masses
        return np.append(np.cumsum(sums[::-1])[::-1], 0.0)

    @property
    def mean(self) -> float:
        """E[N], the steps of a phase with its visit."""
        return float(self.remaining[0])

    @property
    def mean_square(self) -> float:
        """E[N^2] = the sum of (2 n + 1) S_n."""
        n, S = self.edges[:-1].astype(np.float64), self.survival
        m = np.diff(self.edges).astype(np.float64)
        # in a cell S_(n+k) = S - k d, k < m
        d = self.masses / m
        ones, twos, threes = m, m * (m - 1) / 2, (m - 1) * m * (2 * m - 1) / 6
        sums = (2 * n + 1) * (S[:-1] * ones - d * twos) + 2 * (S[:-1] * twos - d * threes)
        return float(sums[::-1].sum())

    def tail(self, n: Integers) -> Array:
        """Return P(N > n), linear in a cell."""
        return np.asarray(np.interp(n, self.edges, self.survival, right=0.0))

    def residual_survival(self, n: Integers) -> Array:
        """Return the probability of n steps or more before the visit, in the stationary noise."""
        n = np.minimum(n, self.edges[-1])
        cell = np.clip(np.searchsorted(self.edges, n, side="right") - 1, 0, len(self.edges) - 2)
        after = n - self.edges[cell]  # steps of the cell that are not in the sum
        drop = self.masses[cell] / (self.edges[cell + 1] - self.edges[cell])
        skipped = after * self.survival[cell] - drop * after * (after - 1.0) / 2.0
        return np.asarray((self.remaining[cell] - skipped) / self.mean)

    @property
    def start_masses(self) -> Array:
        """The probability of each cell for the steps before the visit, in the stationary noise."""
        return np.asarray(-np.diff(self.remaining) / self.mean)

    @property
    def tail_index(self) -> float:
        """Alpha, if P(N >= n) falls like n^-alpha with alpha below 2; else 2, as if cut."""
        first, last = np.searchsorted(self.edges, [LARGEST // 1024, LARGEST // 16])
        if self.is_cut or last >= len(self.edges) or self.survival[last] <= 0.0:
            return 2.0
        S, n = self.survival[[first, last]], self.edges[[first, last]]
        return float(min(2.0, -np.log(S[1] / S[0]) / np.log(n[1] / n[0])))

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all numbers here."""
        return hashlib.sha256(self.edges.tobytes() + self.survival.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PhaseLaw) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<mean {self.mean:.6g}, sha256 {self.fingerprint[:16]}>"


def phase_law(survival: Survival, longest: int | None = None) -> PhaseLaw:
    """Return the law of lengths with P(N >= n) = ``survival`` at n, N at most ``longest``.

    Args:
        survival: a function of an array of integers n >= 1; or the numbers for n = 1, 2, ...,
            and 0 after the last.
        longest: cuts longer phases, which then have this length.

    Examples:
        >>> law = phase_law([1.0, 1.0, 0.5])
        >>> law.mean, law.mean_square, law.tail(np.array([0, 1, 2, 3])).tolist()
        (2.5, 6.5, [1.0, 1.0, 0.5, 0.0])
    """
    last = LARGEST if longest is None else longest - 1
    if callable(survival):
        function, is_array = _shifted(survival), False
    else:
        numbers, is_array = _numbers(survival), True
        function, last = numbers.__getitem__, min(last, len(numbers) - 1)
    edges = _edges(function, last)
    S = np.append(function(edges[:-1]), 0.0)
    _check(S)
    kept = max(1, int(np.searchsorted(-S, -_LEAST)))  # S falls: edges where it is above
    kept = min(kept, len(S) - 1)
    is_cut = is_array or longest is not None
    return PhaseLaw(edges[: kept + 1], np.append(S[:kept], 0.0), is_cut)


def _shifted(survival: Callable[[Integers], Any]) -> Callable[[Integers], Array]:
    return lambda n: np.asarray(survival(n + 1), dtype=np.float64)


def _numbers(survival: Sequence[float] | Array) -> Array:
    numbers = np.asarray(survival, dtype=np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(
            f"survival must be a list of P(N >= n), n = 1, 2, ..., got shape {numbers.shape}"
        )
    return numbers


def _check(S: Array) -> None:
    if not np.isfinite(S).all():
        raise ValueError(f"survival must be finite, got {S[~np.isfinite(S)][0]}")
    if S[0] != 1.0:
        raise ValueError(f"survival must start at 1, a phase has a step, got P(N >= 1) = {S[0]}")
    if S.min() < 0.0:
        raise ValueError(f"survival must be at least 0, got {S.min()}")
    rises = np.flatnonzero(np.diff(S) > 0.0)
    if len(rises):
        i = int(rises[0])
        raise ValueError(f"survival must not rise, got {S[i + 1]} after {S[i]}")


def _edges(function: Callable[[Integers], Array], last: int) -> Integers:
    """Return edges of cells from 0 to ``last`` + 1; the last number has a cell of its own."""
    edges = list(range(min(FAR, last) + 1))
    while edges[-1] < last:
        edges.append(min(edges[-1] + edges[-1] // _FINENESS, last))
    fine = np.array(edges)
    while True:
        wide = np.flatnonzero(np.diff(fine) > 1)
        middle = (fine[wide] + fine[wide + 1]) // 2
        S, ends = function(middle), (function(fine[wide]), function(fine[wide + 1]))
        part = (middle - fine[wide]) / np.diff(fine)[wide]
        straight = ends[0] + part * (ends[1] - ends[0])
        rough = (np.abs(S - straight) > _ROUGH * ends[0]) & (ends[0] > _LEAST)
        if not rough.any():
            return np.append(fine, last + 1)
        fine = np.sort(np.append(fine, middle[rough]))
