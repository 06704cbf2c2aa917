"""Many visits to Z, counted: do lengths and signs of phases follow their laws?

Orbits go from one visit to the next, since the steps between only count down; they are the orbits
of the engines, which a comparison step by step shows first. What is counted: how many phases have
n steps or more, how often lengths follow each other, how signs go with lengths and with the sign
before. Standard errors of pairs come from groups of orbits, because successive phases of the map
are not independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product as all_pairs
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from mpgd import ChaoticNoise, ThalerMap
from mpgd.noise.counter_hash import MULTIPLIER, STRIDE
from mpgd.noise.engines import fused
from mpgd.noise.engines.threads import in_parts
from mpgd.noise.word import FAR, FRACTION, FRACTION_BITS, LONG, MAGNITUDE, NEGATIVE

Array = NDArray[np.float64]

_SHORT_BOUNDS: Final = (1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
_LONG_BOUNDS: Final = (4096, 10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 10**7, 10**8)
BOUNDS: Final = np.array(_SHORT_BOUNDS + _LONG_BOUNDS)
SHORT: Final = 5  # lengths from here on are one class in the table of pairs
SIDE_BY_SIDE: Final = 64  # orbits that hide each other's waiting for memory
FIRST: Final = 16  # visits of each orbit that do not count
RIGHT: Final = (FRACTION + 1, 0)  # no fraction is taken for another

_u = np.uint64
_MULTIPLIER, _STRIDE, _HALF = _u(MULTIPLIER), _u(STRIDE), _u(32)
_MAGNITUDE, _NEGATIVE, _FRACTION, _LONG = _u(MAGNITUDE), _u(NEGATIVE), _u(FRACTION), _u(LONG)
_FRACTION_BITS, _PHASE = _u(FRACTION_BITS), _u(LONG - FAR)


@numba.njit(nogil=True)
def follow(
    words: Any,
    clock: Any,
    visits: int,
    offset: int,
    key: Any,
    constants: Any,
    mistake: Any,
    bounds: Any,
    lengths: Any,
    pairs: Any,
    signs: Any,
) -> None:
    """Take orbits in Z through ``visits`` visits and count what follows each.

    ``lengths`` is (class of bounds, sign), ``pairs`` (length, next length), ``signs`` (sign, next
    sign). A ``mistake`` takes one fraction for another, so that the counts can be seen to fail.
    """
    table, rule = constants[0], (constants[1], constants[2], constants[3])
    before = np.full(len(words), -1)
    for visit in range(visits + FIRST):
        for i in range(len(words)):
            word = words[i]
            if (word & _FRACTION) == mistake[0]:
                word = (word & _NEGATIVE) | mistake[1]
            h = key + _u(clock[i]) * _STRIDE
            h = (h ^ (h >> _HALF)) * _MULTIPLIER
            h = (h ^ (h >> _HALF)) * _MULTIPLIER
            h = h ^ (h >> _HALF)
            new = fused.visited(word, _u(offset + i), h, table, rule)
            q = new & _MAGNITUDE
            n = np.int64(q - _PHASE) if q >= _LONG else np.int64(q >> _FRACTION_BITS)
            f = _u(0) if q >= _LONG else q & _FRACTION
            old_sign, sign = np.int64(words[i] >> _u(31)), np.int64(new >> _u(31))
            words[i] = f | (new & _NEGATIVE)
            clock[i] += n + 1
            if visit >= FIRST:
                place = 0
                while place < len(bounds) and n >= bounds[place]:
                    place += 1
                lengths[place, sign] += 1
                pairs[before[i], min(n, SHORT)] += 1
                signs[old_sign, sign] += 1
            before[i] = min(n, SHORT)


@dataclass(frozen=True)
class Counts:
    """What was counted, by group of orbits."""

    lengths: NDArray[np.int64]  # (group, class, sign)
    pairs: NDArray[np.int64]  # (group, length, next length)
    signs: NDArray[np.int64]  # (group, sign, next sign)

    @property
    def visits(self) -> int:
        """How many visits were counted."""
        return int(self.signs.sum())

    @property
    def tails(self) -> NDArray[np.int64]:
        """How many phases had at least as many steps as each bound."""
        by_class = self.lengths.sum(axis=(0, 2))
        return np.asarray(by_class[::-1].cumsum()[::-1][1:])


def count(
    gamma: float,
    beta: float,
    visits: int,
    groups: int = 100,
    per_orbit: int = 1000,
    mistake: tuple[int, int] = RIGHT,
    seed: int = 3,
) -> Counts:
    """Count ``visits`` visits at ``gamma``, spread over orbits with ``per_orbit`` each."""
    noise = ChaoticNoise(gamma, beta)
    orbits = -(-visits // (per_orbit * groups))  # in a group
    state = noise.init(orbits * groups, seed=seed)
    key, constants = _u(int(state.key) % 2**64), fused.arguments(noise.driver)[:4]
    words, clock = at_first_visit(fused.flat(state.word))
    found = Counts(
        np.zeros((groups, len(BOUNDS) + 1, 2), np.int64),
        np.zeros((groups, SHORT + 1, SHORT + 1), np.int64),
        np.zeros((groups, 2, 2), np.int64),
    )
    wrong = (_u(mistake[0]), _u(mistake[1]))

    def run(first: int, last: int) -> None:
        for group in range(first, last):
            for start in range(group * orbits, (group + 1) * orbits, SIDE_BY_SIDE):
                part = slice(start, min(start + SIDE_BY_SIDE, (group + 1) * orbits))
                counts = (found.lengths[group], found.pairs[group], found.signs[group])
                follow(
                    words[part],
                    clock[part],
                    per_orbit,
                    start,
                    key,
                    constants,
                    wrong,
                    BOUNDS,
                    *counts,
                )

    in_parts(groups, run, smallest=max(1, groups // 2))
    return found


def at_first_visit(words: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the words when they are in Z for the first time, and the steps until then."""
    q, negative = words & MAGNITUDE, words & np.uint32(NEGATIVE)
    steps = np.where(q >= LONG, q - LONG + FAR, q >> FRACTION_BITS).astype(np.int64)
    fraction = np.where(q >= LONG, 0, q & FRACTION)
    return (fraction | negative).astype(np.uint64), steps


@lru_cache(maxsize=8)
def exact_tails(gamma: float) -> Array:
    """Return P(phase >= n | visit) = (H(Y(n)) - H(Y(n + 1))) / P(Z) at the bounds."""
    T = ThalerMap(gamma)
    mass = [T.cdf(T.abel_inverse(BOUNDS + k)) for k in (0.0, 1.0)]
    return np.asarray((mass[0] - mass[1]) / T.burst_probability)


@lru_cache(maxsize=8)
def exact_pairs(gamma: float) -> Array:
    """Return the law of two successive lengths, SHORT and more as one class.

    An itinerary, such as Z, a laminar steps, Z, is an interval; its ends are pulled back through
    the inverse branches G(left) = y^e, G(right) = (1 + y)^e.
    """
    T = ThalerMap(gamma)

    def mass(word: list[int]) -> float:
        ends = np.array([1e-300, T.y_star] if word[-1] == 0 else [T.y_star, 1.0])
        for letter in reversed(word[:-1]):
            ends = T.quantile(((ends + letter) / 2) ** T.e)
        return float(T.cdf(ends[1]) - T.cdf(ends[0])) / T.burst_probability

    def phase(n: int) -> list[int]:
        return [0] * n + [1] if n < SHORT else [0] * SHORT

    law = np.zeros((SHORT + 1, SHORT + 1))
    for a, b in all_pairs(range(SHORT), range(SHORT + 1)):
        law[a, b] = mass([1, *phase(a), *phase(b)])
    # After a long first phase the second has what the law of one phase leaves.
    single = np.array([mass([1, *phase(b)]) for b in range(SHORT + 1)])
    law[SHORT] = single - law[:SHORT].sum(axis=0)
    return law


def tail_errors(found: Counts, gamma: float) -> Array:
    """Return the errors of all tails in binomial standard errors."""
    p, total = exact_tails(gamma), found.visits
    return np.asarray((found.tails - total * p) / np.sqrt(total * p * (1 - p)))


def pair_errors(found: Counts, gamma: float) -> Array:
    """Return the errors of all pairs of lengths in standard errors between groups."""
    return _errors(found.pairs.reshape(len(found.pairs), -1), exact_pairs(gamma).reshape(-1))


def sign_errors(found: Counts, beta: float) -> Array:
    """Return the errors of pairs of signs, and of signs with lengths, in standard errors."""
    p = np.array([(1 + beta) / 2, (1 - beta) / 2])
    pairs = _errors(found.signs.reshape(len(found.signs), -1), np.outer(p, p).reshape(-1))
    classes = found.lengths.sum(axis=0)
    total = classes.sum(axis=1)
    seen = total >= 20
    spread = np.sqrt(np.maximum(total * p[0] * p[1], 1e-9))
    return np.concatenate([pairs, ((classes[:, 0] - total * p[0]) / spread)[seen]])


def _errors(counts: NDArray[np.int64], law: Array) -> Array:
    excess = counts - counts.sum(axis=1, keepdims=True) * law
    return np.asarray(excess.mean(axis=0) / (excess.std(axis=0) / np.sqrt(len(counts))))


def same_orbits(gamma: float, steps: int = 3000) -> bool:
    """Return whether going from visit to visit gives the words of the public ``step``."""
    noise = ChaoticNoise(gamma, 0.5)
    state = noise.init(200, seed=2)
    words, clock = at_first_visit(fused.flat(state.word))
    nothing = np.zeros((len(BOUNDS) + 1, 2), int), np.zeros((6, 6), int), np.zeros((2, 2), int)
    key, constants = _u(int(state.key) % 2**64), fused.arguments(noise.driver)[:4]
    follow(words, clock, 0, 0, key, constants, (_u(RIGHT[0]), _u(0)), BOUNDS, *nothing)
    reached = dict(zip(range(200), clock, strict=True))
    for k in range(steps):
        for i in [i for i, when in reached.items() if when == k]:
            if int(state.word[i]) % 2**32 != int(words[i]):
                return False
            del reached[i]
        _, state = noise.step(state)
    return len(reached) < 100
