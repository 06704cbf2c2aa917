"""The fast engine: one pass over memory, compiled by numba and kept on disk.

Each block of 512 states is gone through twice while it lies in the first-level cache. First,
without branches: values, and s - 1 for everybody. Then only those that were in Z, found in a
64-bit mask per 64 states, take their return B; `mpgd.noise.engines.intrinsics` does that for eight
at a time where the CPU can. No fused multiply-add is used and every operation is the reference's,
so the bits are the reference's.

Import this module only where numba is installed; `mpgd.noise.engines.has_numba` tells.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps.tables import FIRST_ROW, LONGEST, OFFSET_MASK, ONE_BITS, ROW_SHIFT
from mpgd.noise.counter import MULTIPLIER, STRIDE
from mpgd.noise.driver import DITHER_BITS, SIGN_BITS, Driver
from mpgd.noise.engines.compiled import inlined, jitted
from mpgd.noise.engines.intrinsics import (
    LANES,
    bits_of,
    can_pack,
    count_down,
    double_of,
    mask_of_visits,
    put_back,
    send_on,
    trailing_zeros,
)

Floats = NDArray[Any]

BLOCK: Final = 512
WORDS: Final = BLOCK // 64

_u = np.uint64
_MULTIPLIER, _STRIDE = _u(MULTIPLIER), _u(STRIDE)
_HALF = _u(32)
_SIGN_MASK = _u((1 << SIGN_BITS) - 1)
_DITHER_SHIFT = _u(64 - DITHER_BITS)
_ROW_SHIFT = np.int64(ROW_SHIFT)
_FIRST_ROW = _u(FIRST_ROW)
_OFFSET_MASK = np.int64(OFFSET_MASK)
_ONE_BITS = np.int64(ONE_BITS)
_SIGN = np.int64(-(2**63))
_MAGNITUDE = np.int64(2**63 - 1)
_COEFFICIENTS = _u(4)
_INSIDE = 0.5  # any state in Z


@inlined
def hash_round(h: Any) -> Any:
    """Return a word after one round of the hash in `mpgd.noise.counter`."""
    return (h ^ (h >> _HALF)) * _MULTIPLIER


@inlined
def mixed(h: Any) -> Any:
    """`mpgd.noise.counter.mix`."""
    h = hash_round(hash_round(h))
    return h ^ (h >> _HALF)


@inlined
def salted_hash(index: Any, key: Any, salt: Any) -> Any:
    """`mpgd.noise.counter.hash_chaotic`."""
    return hash_round(((index ^ key) * _MULTIPLIER) ^ salt)


@inlined
def step_key(key: Any, step: Any) -> Any:
    """`mpgd.noise.counter.step_key`."""
    return mixed(key + step * _STRIDE)


@inlined
def driver_key(key: Any, number: Any) -> Any:
    """Return the key of a tensor's driver, `mpgd.noise.counter.extend_key`."""
    return mixed((key + _STRIDE) ^ number)


@inlined
def value_of(s: float, c0: float, c1: float) -> float:
    """Return chi c0 in a laminar phase, chi c1 in Z."""
    bits = bits_of(s)
    magnitude = c0 if (bits & _MAGNITUDE) >= _ONE_BITS else c1
    return double_of(bits_of(magnitude) ^ (bits & _SIGN))


@inlined
def counted_down(s: float) -> float:
    """Return |s| - 1 with the sign bit of s. For a state in Z its magnitude is u = 1 - |s|."""
    position = abs(s)
    return math.copysign((position if position < LONGEST else LONGEST) - 1.0, s)


@inlined
def visited(u: float, index: Any, key: Any, table: Floats, threshold: Any, product: Any) -> float:
    """Return the state after a visit to Z, given the counted-down one; see `tensor.visit`."""
    bits = bits_of(u) & _MAGNITUDE
    h = salted_hash(index, key, _u(bits))
    bits ^= np.int64(h >> _DITHER_SHIFT)
    row = (_u(bits >> _ROW_SHIFT) - _FIRST_ROW) * _COEFFICIENTS
    x = float(bits & _OFFSET_MASK)
    b = ((table[row + _u(3)] * x + table[row + _u(2)]) * x + table[row + _u(1)]) * x + table[row]
    drawn = ~(np.int64(h & _SIGN_MASK) - threshold) & _SIGN  # + where the hash is smaller
    return double_of(bits_of(b) ^ drawn ^ (bits_of(u) & product))


@inlined
def find_visits(s: Floats, words: Any) -> None:
    """Write one bit per state of a block: is it in Z?"""
    whole = len(s) // 64
    for j in range(whole):
        words[j] = mask_of_visits(s, _u(64 * j))
    if whole * 64 < len(s):
        word = _u(0)
        for i in range(whole * 64, len(s)):
            inside = (bits_of(s[i]) & _MAGNITUDE) < _ONE_BITS
            word |= _u(inside) << _u(i - whole * 64)
        words[whole] = word


@inlined
def take_returns(
    s: Floats, words: Any, first: Any, key: Any, table: Floats, threshold: Any, product: Any
) -> None:
    """Send on the counted-down states of a block that were in Z."""
    for j in range((len(s) + 63) // 64):
        word = words[j]
        while word != _u(0):
            i = _u(64 * j) + trailing_zeros(word)
            word &= word - _u(1)
            s[i] = visited(s[i], first + i, key, table, threshold, product)


@inlined
def make_room() -> Any:
    """Return the buffers that `advance_block` works in: masks, places and packed states."""
    return np.empty(WORDS, np.uint64), np.empty(BLOCK + LANES, np.int64), np.empty(BLOCK + LANES)


@inlined
def advance_one_by_one(
    s: Floats, out: Floats, room: Any, first: Any, key: Any, table: Floats, rule: Any, values: Any
) -> None:
    """Write the values of a block of states and advance them.

    ``rule`` is (threshold, product mask), ``values`` (c0, c1), ``first`` the index of s[0].
    """
    words, _, _ = room
    find_visits(s, words)
    for i in range(len(s)):
        old = s[i]
        out[i] = value_of(old, values[0], values[1])
        s[i] = counted_down(old)
    take_returns(s, words, first, key, table, rule[0], rule[1])


@inlined
def advance_by_lanes(
    s: Floats, out: Floats, room: Any, first: Any, key: Any, table: Floats, rule: Any, values: Any
) -> None:
    """Do as `advance_one_by_one`, eight states at a time."""
    words, places, packed = room
    masks = words.view(np.uint8)
    whole = len(s) - len(s) % LANES
    count = 0
    for i in range(0, whole, LANES):
        count = count_down(s, i, out, values[0], values[1], packed, places, count, masks)
    for k in range(count, count + LANES):
        packed[k] = _INSIDE  # the last eight may be fewer
    for k in range(0, count, LANES):
        send_on(packed, places, k, first, key, table, rule[0], rule[1])
    count = 0
    for i in range(0, whole, LANES):
        count = put_back(s, i, packed, count, masks)
    for i in range(whole, len(s)):
        old = s[i]
        out[i] = value_of(old, values[0], values[1])
        s[i] = counted_down(old)
        if abs(old) < 1.0:
            s[i] = visited(s[i], first + _u(i), key, table, rule[0], rule[1])


advance_block: Any = advance_by_lanes if can_pack() else advance_one_by_one


@jitted
def advance_values(
    s: Floats, values: Floats, offset: int, key: Any, table: Floats, threshold: int, product: Any,
    c0: float, c1: float,
) -> None:  # fmt: skip
    """Write the values of all states and advance them one step, in place."""
    room = make_room()
    for first in range(0, len(s), BLOCK):
        block, out = s[first : first + BLOCK], values[first : first + BLOCK]
        rule = (threshold, product)
        advance_block(block, out, room, _u(offset + first), key, table, rule, (c0, c1))


@jitted
def advance_sums(
    s: Floats, sums: Floats, steps: int, offset: int, keys: Any, table: Floats, threshold: int,
    product: Any, c0: float, c1: float,
) -> None:  # fmt: skip
    """Add the values of ``steps`` steps to ``sums``, step by step, and advance in place."""
    room, values = make_room(), np.empty(BLOCK)
    for first in range(0, len(s), BLOCK):
        block, out = s[first : first + BLOCK], sums[first : first + BLOCK]
        for k in range(steps):
            rule = (threshold, product)
            advance_block(block, values, room, _u(offset + first), keys[k], table, rule, (c0, c1))
            for i in range(len(block)):
                out[i] += values[i]


def arguments(driver: Driver) -> tuple[Floats, np.int64, np.int64, float, float]:
    """Return the driver's constants in the order every kernel takes them."""
    return driver.table, *driver.rule, driver.laminar_value, driver.burst_value
