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
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd import ChaoticNoise, ThalerMap
from mpgd.noise.driver import Driver
from mpgd.noise.engines import cpu
from mpgd.noise.word import FAR, FRACTION, FRACTION_BITS, LONG, MAGNITUDE, NEGATIVE

Array = NDArray[np.float64]
Words, Clock = NDArray[np.uint32], NDArray[np.int64]

_SHORT_BOUNDS: Final = (1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
_LONG_BOUNDS: Final = (4096, 10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 10**7, 10**8)
BOUNDS: Final = np.array(_SHORT_BOUNDS + _LONG_BOUNDS)
SHORT: Final = 5  # lengths from here on are one class in the table of pairs
FIRST: Final = 16  # visits of each orbit that do not count
RIGHT: Final = (FRACTION + 1, 0)  # no fraction is taken for another
CLASSES: Final = np.union1d(BOUNDS, np.arange(1, SHORT + 1))  # lengths at which a new class begins
SMALL: Final = np.searchsorted(CLASSES, np.arange(FAR), side="right")  # the class of each length
LENGTHS: Final = np.minimum(np.append(0, CLASSES), SHORT)  # of each class, SHORT and more as one


@dataclass(frozen=True)
class Counts:
    """What was counted, by group of orbits."""

    lengths: NDArray[np.int64]  # (group, class, sign)
    pairs: NDArray[np.int64]  # (group, length, next length)
    signs: NDArray[np.int64]  # (group, sign, next sign)

    @classmethod
    def of(cls, seen: NDArray[np.int64]) -> Counts:
        """Return the counts of (group, class, sign, length before, sign before)."""
        kept = np.isin(CLASSES, BOUNDS)  # the others are parts of the class below
        classes = np.append(0, np.cumsum(kept))
        lengths = np.zeros((len(seen), len(BOUNDS) + 1, 2), np.int64)
        np.add.at(lengths, (slice(None), classes), seen.sum(axis=(3, 4)))
        pairs = np.zeros((len(seen), SHORT + 1, SHORT + 1), np.int64)
        by_class = seen.sum(axis=(2, 4)).swapaxes(1, 2)  # (group, length before, class)
        np.add.at(pairs, (slice(None), slice(None), LENGTHS), by_class)
        return cls(lengths, pairs, seen.sum(axis=(1, 3)).swapaxes(1, 2))

    @property
    def visits(self) -> int:
        """How many visits were counted."""
        return int(self.signs.sum())

    @property
    def tails(self) -> NDArray[np.int64]:
        """How many phases had at least as many steps as each bound."""
        by_class = self.lengths.sum(axis=(0, 2))
        return np.asarray(by_class[::-1].cumsum()[::-1][1:])


def follow(
    driver: Driver,
    words: Words,
    clock: Clock,
    visits: int,
    key: int,
    mistake: tuple[int, int] = RIGHT,
    groups: int = 1,
) -> Counts:
    """Take orbits in Z through ``visits`` visits and count what follows each.

    A ``mistake`` takes one fraction for another, so that the counts can be seen to fail.
    """
    shape = (groups, len(CLASSES) + 1, 2, SHORT + 1, 2)  # group; class, sign now; length, sign then
    seen = np.zeros(shape, np.int64)
    group = np.arange(len(words)) // max(1, len(words) // groups) * seen[0].size
    before = np.zeros(len(words), np.int64)
    taken, steps = torch.from_numpy(words.view(np.int32)), torch.from_numpy(clock)
    for visit in range(visits + FIRST):
        if mistake != RIGHT:
            is_wrong = (words & FRACTION) == mistake[0]
            words[is_wrong] = (words[is_wrong] & NEGATIVE) | mistake[1]
        cpu.visit(driver, taken, steps, key)
        n = steps_of(words)
        clock += n + 1
        now = class_of(n) * 2 + (words >> 31)
        if visit >= FIRST:
            place = now * (2 * (SHORT + 1)) + before + group
            seen += np.bincount(place, minlength=seen.size).reshape(shape)
        before = LENGTHS[now >> 1] * 2 + (now & 1)
        leave(words)
    return Counts.of(seen)


def steps_of(words: Words) -> Clock:
    """Return the steps to go; long phases are rare."""
    q = words & MAGNITUDE
    n = (q >> FRACTION_BITS).astype(np.int64)
    long = np.flatnonzero(q >= LONG)
    n[long] = q[long].astype(np.int64) - (LONG - FAR)
    return n


def leave(words: Words) -> None:
    """Put orbits into Z, where their phases end; after a long one the fraction is not known."""
    long = np.flatnonzero((words & MAGNITUDE) >= LONG)
    words &= np.uint32(NEGATIVE | FRACTION)
    words[long] &= np.uint32(NEGATIVE)


def class_of(n: Clock) -> Clock:
    """Return the class of every length: how many of `CLASSES` it reaches."""
    found = SMALL[np.minimum(n, len(SMALL) - 1)]
    large = np.flatnonzero(n >= len(SMALL))
    found[large] = np.searchsorted(CLASSES, n[large], side="right")
    return found


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
    words, clock = at_first_visit(state.word.numpy().view(np.uint32))
    return follow(noise.driver, words, clock, per_orbit, int(state.key), mistake, groups)


def at_first_visit(words: Words) -> tuple[Words, Clock]:
    """Return the words when they are in Z for the first time, and the steps until then."""
    words, steps = words.copy(), steps_of(words)
    leave(words)
    return words, steps


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
    words, clock = at_first_visit(state.word.numpy().view(np.uint32))
    follow(noise.driver, words, clock, 0, int(state.key))
    reached = dict(zip(range(200), clock, strict=True))
    for k in range(steps):
        for i in [i for i, when in reached.items() if when == k]:
            if int(state.word[i]) % 2**32 != int(words[i]):
                return False
            del reached[i]
        _, state = noise.step(state)
    return len(reached) < 100
