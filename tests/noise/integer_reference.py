"""The 32-bit driver in numpy, written for clarity: every engine must give these words.

Words are uint32 arrays; everything else is uint64 and wraps around. The format is the one of
`mpgd.noise.word`, with its numbers written out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpgd.maps.tables import thaler_tables
from mpgd.noise.capped import capped_law
from mpgd.noise.counter_hash import make_key, step_key
from mpgd.noise.driver import Driver

Words = NDArray[np.uint32]
Wide = NDArray[np.uint64]

u64 = np.uint64
MULTIPLIER = u64(0xD6E8FEB86659FD93)
LOW_HALF = u64(2**32 - 1)


def key_of(key: int) -> np.uint64:
    """Return the bits of a signed or unsigned 64-bit key."""
    return u64(key % 2**64)


def hash_elements(index: Wide, key: np.uint64, salt: Wide | np.uint64) -> Wide:
    """Return 64 hash bits per element, made by three multiplications."""
    h = ((index ^ key) * MULTIPLIER) ^ salt
    for _ in range(2):
        h = (h ^ (h >> u64(32))) * MULTIPLIER
    return h


def evaluate(rows: Wide, row_bits: int, U: Wide) -> Wide:
    """Return a table of `mpgd.maps.rows` at every U in [1, 2^50), with 32 bits behind the point."""
    leading = np.frexp(U.astype(np.float64))[1].astype(np.uint64) - u64(1)  # 50 bits: exact
    octave = u64(49) - leading
    below = (U << (octave + u64(1))) & u64(2**50 - 1)  # the bits below the leading one
    row = (octave << u64(row_bits)) + (below >> u64(50 - row_bits))
    X = (below >> u64(50 - row_bits - 32)) & LOW_HALF
    c0, shape = rows[row, 0], rows[row, 1]
    t1, t2, sh = shape & LOW_HALF, (shape >> u64(32)) & u64(2**26 - 1), shape >> u64(58)
    return c0 - ((X * (t1 - ((X * t2) >> u64(32)))) >> sh)


def encode(b: Wide, longest: int | None) -> Wide:
    """Return the magnitude of the word at position ``b``, 32 bits behind the point.

    A phase that is cut becomes the longest one, with a fraction that is not known.
    """
    n = b >> u64(32)
    short = b >> u64(14)
    unknown = (short & u64(2**18 - 1)) == 0  # taken already: it would mean "not known"
    long = u64(2**30) + np.minimum(n, u64(2**30 + 2**12 - 1)) - u64(2**12)
    q = np.where(n < u64(2**12), short + unknown.astype(np.uint64), long)
    if longest is None:
        return q
    cut = longest << 18 if longest < 2**12 else 2**30 + longest - 2**12
    return np.where(n >= u64(longest), u64(cut), q)


def part(U: Wide, width: Any) -> Wide:
    """Return U width / 2^50, rounded down, by Python's own integers."""
    product = U.astype(object) * np.asarray(width).astype(object)
    return (product // 2**50).astype(np.uint64)


@dataclass(frozen=True)
class Reference:
    """The driver at one gamma, beta and sign rule."""

    gamma: float
    beta: float = 0.0
    signs: str = "fresh"
    longest: int | None = None

    def negative(self, h: Wide) -> Wide:
        """Return the sign bit that the hash draws."""
        threshold = u64(round((1 + self.beta) / 2 * 2**31))
        return np.where(h >> u64(33) >= threshold, u64(2**31), u64(0))

    def start(self, index: Any, place_key: int, sign_key: int | None) -> Words:
        """Return the stationary words of the elements ``index``; no ``sign_key``: all positive."""
        tables = thaler_tables(self.gamma)
        rows, row_bits, index = tables.starts, tables.start_row_bits, np.asarray(index, np.uint64)
        octaves = len(rows) >> row_bits
        h = hash_elements(index, key_of(place_key), u64(0))
        U = (h >> u64(14)) | u64(1)
        if self.longest is not None and self.longest < 2**12:
            word = self.start_in_cut_phase(U, index, make_key(place_key, 2))
        else:
            if self.longest is not None:
                least = capped_law(self.gamma, self.longest).least
                U = (u64(least) + part(U, 2**50 - least)) | u64(1)
            U = np.maximum(U, u64(2 ** (50 - octaves)))
            word = encode(evaluate(rows, row_bits, U), self.longest)
        if sign_key is not None:
            word |= self.negative(hash_elements(index, key_of(sign_key), u64(0)))
        return word.astype(np.uint32)

    def start_in_cut_phase(self, U: Wide, index: Wide, key: int) -> Wide:
        """Return stationary magnitudes: n steps to go, and where the last visit led to."""
        law = capped_law(self.gamma, self.longest or 0)
        assert law.landings is not None
        n = np.array([(law.ends <= x).sum() for x in U >> u64(18)], np.uint64)
        V = hash_elements(index, key_of(key), u64(0)) >> u64(14)
        b = evaluate(law.landings, 7, part(V, law.widths[n]) | u64(1))
        f = np.maximum((b >> u64(14)) & u64(2**18 - 1), u64(1))
        return (n << u64(18)) + np.where(b >> u64(32) >= u64(law.longest), u64(0), f)

    def step(self, words: Words, index: Any, key: int) -> tuple[NDArray[np.int64], Words]:
        """Return the values in units (1 laminar, 2 in Z) with their signs, and the next words."""
        w, index = words.astype(np.uint64), np.asarray(index, np.uint64)
        sign, q = w & u64(2**31), w & u64(2**31 - 1)
        in_Z = q < u64(2**18)
        value = np.where(in_Z, 2, 1) * np.where(sign > 0, -1, 1)
        following = w - np.where(q > u64(2**30), u64(1), u64(2**18))
        following[in_Z] = self.visit(w[in_Z], index[in_Z], key)
        return value, following.astype(np.uint32)

    def visit(self, w: Wide, index: Wide, key: int) -> Wide:
        """Return the words after a visit to Z."""
        f, old = w & u64(2**18 - 1), w & u64(2**31)
        h = hash_elements(index, key_of(key), f << u64(46))
        upper = np.where(f == 0, (h >> u64(12)) & u64(2**18 - 1), u64(2**18 - 1) - f)
        U = (upper << u64(32)) | ((h ^ (h >> u64(32))) & LOW_HALF) | u64(1)
        b = evaluate(thaler_tables(self.gamma).returns, 7, U)
        following = encode(b, self.longest) | self.negative(h)
        return following ^ old if self.signs == "product" else following


@dataclass(frozen=True)
class TableReference:
    """A driver of phases without a sign rule of its own, from its two tables."""

    driver: Driver

    def first(self, count: int, key: int) -> Words:
        """Return the stationary words of elements 0, 1, ...; both tables have 50 octaves."""
        index = np.arange(count, dtype=np.uint64)
        U = (hash_elements(index, key_of(make_key(key, 0)), u64(0)) >> u64(14)) | u64(1)
        sign = hash_elements(index, key_of(make_key(key, 1)), u64(0)) >> u64(63)
        magnitude = self.magnitude(evaluate(self.driver.starts.rows, 7, U))
        return (magnitude | (sign << u64(31))).astype(np.uint32)

    def magnitude(self, b: Wide) -> Wide:
        """Return the magnitude at position ``b``, at most the driver's largest."""
        return np.minimum(encode(b, None), u64(self.driver.largest))

    def next(self, words: Words, key: int, step: int) -> tuple[NDArray[np.int64], Words]:
        """Return the signs now, and the words after this step."""
        w, index = words.astype(np.uint64), np.arange(len(words), dtype=np.uint64)
        q = w & u64(2**31 - 1)
        f = q & u64(2**18 - 1)
        h = hash_elements(index, key_of(step_key(key, step)), f << u64(46))
        upper = np.where(f == 0, (h >> u64(12)) & u64(2**18 - 1), u64(2**18 - 1) - f)
        U = (upper << u64(32)) | ((h ^ (h >> u64(32))) & LOW_HALF) | u64(1)
        visited = self.magnitude(evaluate(self.driver.returns.rows, 7, U)) | (
            (h >> u64(63)) << u64(31)
        )
        counted = w - np.where(q > u64(2**30), u64(1), u64(2**18))
        following = np.where(q < u64(2**18), visited, counted)
        return np.where(w >> u64(31), -1, 1), following.astype(np.uint32)
