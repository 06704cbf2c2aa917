"""The 32-bit driver in JAX: the starts, the steps and the values of words.

Every function mirrors the one of that name in `mpgd.noise.engines.tensor`, on uint32 and pairs of
it instead of int64. `mpgd.noise.word` says what a word means.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from mpgd.jax.pairs import (
    Pair,
    add,
    hash_elements,
    make_key,
    pair,
    subtract,
    upper_pair,
    upper_product,
)
from mpgd.maps.rows import BEND_BITS, INPUT_BITS, POINT_BITS
from mpgd.noise.capped import CappedLaw
from mpgd.noise.driver import Driver, Table
from mpgd.noise.word import (
    DRAWN_SHIFT,
    FAR,
    FRACTION,
    FRACTION_BITS,
    LONG,
    MAGNITUDE,
    NEGATIVE,
    ONE,
    SALT_SHIFT,
    SIGN_BITS,
)

MOST_STEPS: Final = 2**32 - 1  # what a uint32 counts to

_u = np.uint32
_PLACE, _SIGN, _FRACTION = 0, 1, 2  # what a start needs bits for; the last within the place
_UNUSED: Final = 64 - INPUT_BITS  # bits below U, whose 50 bits are the upper ones of a pair


def start(driver: Driver, key: Pair, index: Array, drawn: bool) -> Array:
    """Return the stationary words of the elements ``index``, int32; not ``drawn``: all +1."""
    place = make_key(key, _PLACE)
    U = _odd(hash_elements(index, place))
    if driver.law is not None and driver.law.landings is not None:
        word = _start_in_cut_phase(driver, driver.law, U, index, make_key(place, _FRACTION))
    else:
        if driver.law is not None:
            U = _odd(add(pair(driver.law.least << _UNUSED), _scaled(U, _rest(driver.law))))
        least = pair(1 << (64 - driver.starts.octaves))  # below it, all starts are LONGEST
        is_less = (U[0] < least[0]) | ((U[0] == least[0]) & (U[1] < least[1]))
        U = jnp.where(is_less, least[0], U[0]), jnp.where(is_less, least[1], U[1])
        word = encode(evaluate(driver.starts, *locate(driver.starts, U)), driver.largest)
    if drawn:
        word = word | drawn_sign(driver, hash_elements(index, make_key(key, _SIGN)))
    return word.view(jnp.int32)


def _start_in_cut_phase(driver: Driver, law: CappedLaw, U: Pair, index: Array, key: Pair) -> Array:
    """Return stationary magnitudes where phases have a longest one that is short."""
    sharding = jax.typeof(U[0]).sharding
    length = 1 << law.longest.bit_length()  # a power of two above n
    ends = np.full(length, 2**32 - 1, np.uint32)
    ends[: law.longest] = law.ends

    def at(column: NDArray[np.uint32], row: Array) -> Array:
        return jnp.asarray(column).at[row].get(mode="promise_in_bounds", out_sharding=sharding)

    n = jnp.zeros_like(U[0])
    for bit in (1 << k for k in reversed(range(law.longest.bit_length()))):
        n = jnp.where(at(ends, n + _u(bit - 1)) <= U[0], n + _u(bit), n)
    n = jnp.minimum(n, _u(law.longest))
    widths = law.widths << np.uint64(_UNUSED)
    halves = [(widths >> np.uint64(by)).astype(np.uint32) for by in (32, 0)]
    v = _odd(_scaled(_cleared(hash_elements(index, key)), (at(halves[0], n), at(halves[1], n))))
    b = evaluate(driver.starts, *locate(driver.starts, v))
    f = jnp.maximum(b[1] >> _u(POINT_BITS - FRACTION_BITS), _u(1))
    return (n << _u(FRACTION_BITS)) + jnp.where(b[0] < _u(law.longest), f, _u(0))


def _rest(law: CappedLaw) -> Pair:
    return pair(((1 << INPUT_BITS) - law.least) << _UNUSED)


def _scaled(U: Pair, width: Pair) -> Pair:
    """Return U width of two numbers of 50 bits in [0, 1), rounded down."""
    return _cleared(upper_pair(U, width))


def _cleared(U: Pair) -> Pair:
    return U[0], U[1] & _u(2**32 - 2**_UNUSED)


def _odd(U: Pair) -> Pair:
    """Return the upper 50 bits of a pair with the last one set."""
    return U[0], (U[1] & _u(2**32 - 2**_UNUSED)) | _u(1 << _UNUSED)


@partial(jax.jit, static_argnums=0)
def advance(driver: Driver, words: Array, key: Pair, index: Array, active: Array) -> Array:
    """Return the words at the next step, given the key of this one; all wait if not ``active``."""
    w = words.view(jnp.uint32)
    q = w & _u(MAGNITUDE)
    counted = w - jnp.where(q > _u(LONG), _u(1), _u(ONE))
    following = jnp.where(q < _u(ONE), visit(driver, w, key, index, active), counted)
    return jnp.where(active, following, w).view(jnp.int32)


def value(words: Array, c0: Any, c1: Any, dtype: Any) -> Array:
    """Return chi c0 in a laminar phase and chi c1 in Z, with c0 and c1 rounded to ``dtype``."""
    v = jnp.where(words & MAGNITUDE < ONE, jnp.asarray(c1, dtype), jnp.asarray(c0, dtype))
    return jnp.where(words < 0, -v, v)


def visit(driver: Driver, w: Array, key: Pair, index: Array, active: Array) -> Array:
    """Return the words after a visit to Z: B of a dithered argument, and a new sign.

    XLA on a CPU makes no vector code of a loop that gathers, and puts into that loop what leads to
    it, but not through a branch. So the branch saves half of the time also where it is always
    taken. Two arrays come out of it, since each costs the whole hash: the row has room for a sign.
    """
    nothing = jnp.zeros_like(w), jnp.zeros_like(w)
    signed_row, X = lax.cond(active, lambda: argument(driver, w, key, index), lambda: nothing)
    b = evaluate(driver.returns, signed_row & _u(MAGNITUDE), X)
    new = encode(b, driver.largest) | (signed_row & _u(NEGATIVE))
    return new ^ (w & _u(NEGATIVE)) if driver.product else new


def argument(driver: Driver, w: Array, key: Pair, index: Array) -> tuple[Array, Array]:
    """Return the row of B's argument, with the new sign in the uppermost bit, and the place X."""
    f = w & _u(FRACTION)
    h = hash_elements(index, key, (f << _u(SALT_SHIFT - 32), jnp.zeros_like(f)))
    upper = jnp.where(f == 0, h[1] >> _u(DRAWN_SHIFT) & _u(FRACTION), _u(FRACTION) - f)
    dither = (h[0] ^ h[1]) | _u(1)
    U = (upper << _u(_UNUSED)) | (dither >> _u(FRACTION_BITS)), dither << _u(_UNUSED)
    row, X = locate(driver.returns, U)
    return row | drawn_sign(driver, h), X


def drawn_sign(driver: Driver, h: Pair) -> Array:
    """Return the bit of chi that the hash draws."""
    is_negative = h[0] >> _u(32 - SIGN_BITS) >= _u(driver.threshold)
    return is_negative.astype(jnp.uint32) << _u(31)


def encode(b: Pair, largest: int) -> Array:
    """Return the magnitudes of the words at ``b``, numbers with 32 bits behind the point."""
    n = b[0]
    short = (n << _u(FRACTION_BITS)) | (b[1] >> _u(POINT_BITS - FRACTION_BITS))
    short = short + (short & _u(FRACTION) == 0)  # f = 0 is taken: "not known"
    return jnp.minimum(jnp.where(n < _u(FAR), short, n + _u(LONG - FAR)), _u(largest))


def locate(table: Table, U: Pair) -> tuple[Array, Array]:
    """Return the row of every U and its position X in the row."""
    high, low = U
    is_far = high == 0
    high, low = jnp.where(is_far, low, high), jnp.where(is_far, _u(0), low)
    by = lax.clz(high)
    octave = by + is_far.astype(jnp.uint32) * _u(32)
    # A shift by 32 has no defined result everywhere; two shifts, by 1 and by at most 31, have.
    high, low = (high << by) | (low >> _u(1) >> (_u(31) - by)), low << by
    high, low = (high << _u(1)) | (low >> _u(31)), low << _u(1)  # drops the leading one
    bits, rest = _u(table.row_bits), _u(32 - table.row_bits)
    return (octave << bits) | (high >> rest), (high << bits) | (low >> rest)


def evaluate(table: Table, row: Array, X: Array) -> Pair:
    """Return the table's values, with 32 bits behind the point."""
    sharding = jax.typeof(row).sharding  # where meshes are explicit, a gather must be told
    low_c0, high_c0, t1, t2_and_sh = (
        jnp.asarray(c).at[row].get(mode="promise_in_bounds", out_sharding=sharding)
        for c in columns(table)
    )
    slope = t1 - upper_product(X, t2_and_sh & _u(2**BEND_BITS - 1))
    fall = shifted_right((upper_product(X, slope), X * slope), t2_and_sh >> _u(BEND_BITS))
    return subtract((high_c0, low_c0), fall)


def shifted_right(x: Pair, by: Array) -> Pair:
    """Return x shifted right by 0 to 63 places."""
    high, low = x
    is_far, by = by >= _u(32), by & _u(31)
    high, low = jnp.where(is_far, _u(0), high), jnp.where(is_far, high, low)
    return high >> by, (low >> by) | (high << _u(1) << (_u(31) - by))


@lru_cache(maxsize=256)
def columns(table: Table) -> tuple[NDArray[np.uint32], ...]:
    """Return the table as four columns: c0's low word and high word, t1, and t2 with sh.

    They are four arrays because a gather of whole rows costs XLA 30 times as much.
    """
    words = table.rows.T
    low, high = words & np.uint64(2**32 - 1), words >> np.uint64(32)
    found = (low[0], high[0], low[1], high[1])
    return tuple(np.ascontiguousarray(column.astype(np.uint32)) for column in found)
