"""The fast engine: one pass over memory, compiled by numba and kept on disk.

Each block of 512 words is gone through several times while it lies in the first-level cache. First,
without branches: values, and a laminar step for everybody. Then only those that were in Z take
their visit, packed side by side, eight at a time; `mpgd.noise.engines.intrinsics` has an example.
The arithmetic is the reference's, in integers, so the words are the reference's.

Import this module only where numba is installed; `mpgd.noise.engines.has_numba` tells.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mpgd.maps.rows import BEND_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter_hash import MULTIPLIER, STRIDE
from mpgd.noise.driver import Driver
from mpgd.noise.engines.compiled import inlined, jitted
from mpgd.noise.engines.intrinsics import (
    PLACE_BITS,
    count_down_and_mark,
    count_down_and_pack,
    draw,
    leading_zeros,
    pointer,
    send_on,
    stack,
    trailing_zeros,
)
from mpgd.noise.engines.vectors import LANES, PACKS, WIDE
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
)

Floats = NDArray[Any]
Words = NDArray[np.uint32]

BLOCK: Final = 1 << PLACE_BITS
_SLOTS: Final = BLOCK + LANES  # vectors are written whole, so there is room for one more
_WORDS_ROOM, _LONGS_ROOM, _MARKS_ROOM = 4 * _SLOTS, 8 * _SLOTS, 2 * (BLOCK // LANES)  # in bytes
_BLOCK_ROOM: Final = 8 * BLOCK

array_at: Any = numba.carray  # type: ignore[attr-defined]

_u = np.uint64
_MULTIPLIER, _STRIDE = _u(MULTIPLIER), _u(STRIDE)
_HALF, _LOW_HALF = _u(32), _u(2**32 - 1)
_FRACTION, _FRACTION_BITS, _SALT_SHIFT = _u(FRACTION), _u(FRACTION_BITS), _u(SALT_SHIFT)
_DRAWN_SHIFT, _DITHER_SHIFT = _u(DRAWN_SHIFT), _u(64 - FRACTION_BITS - 32)
_ROW_BITS, _BEND = _u(RETURN_ROW_BITS), _u(2**BEND_BITS - 1)
_ONE, _LONG, _FAR = _u(ONE), _u(LONG), _u(FAR)
_NEGATIVE, _MAGNITUDE = _u(NEGATIVE), _u(MAGNITUDE)
_ZERO, _UNIT = _u(0), _u(1)


@inlined
def hash_round(h: Any) -> Any:
    """Return a word after one round of the hash in `mpgd.noise.counter_hash`."""
    return (h ^ (h >> _HALF)) * _MULTIPLIER


@inlined
def mixed(h: Any) -> Any:
    """`mpgd.noise.counter_hash.mix`."""
    h = hash_round(hash_round(h))
    return h ^ (h >> _HALF)


@inlined
def hash_element(index: Any, key: Any, salt: Any) -> Any:
    """`mpgd.noise.counter_hash.hash_elements`."""
    return hash_round(hash_round(((index ^ key) * _MULTIPLIER) ^ salt))


@inlined
def step_key(key: Any, step: Any) -> Any:
    """`mpgd.noise.counter_hash.step_key`."""
    return mixed(key + step * _STRIDE)


@inlined
def driver_key(key: Any, number: Any) -> Any:
    """Return the key of a tensor's driver, `mpgd.noise.counter_hash.extend_key`."""
    return mixed((key + _STRIDE) ^ number)


@inlined
def visited(word: Any, index: Any, key: Any, table: Any, rule: Any) -> Any:
    """Return the word after a visit to Z, as 64 bits; see `tensor.visit`."""
    f = word & _FRACTION
    h = hash_element(index, key, f << _SALT_SHIFT)
    upper = _FRACTION - f if f != _ZERO else (h >> _DRAWN_SHIFT) & _FRACTION
    dither = ((h ^ (h >> _HALF)) & _LOW_HALF) | _UNIT
    U = (upper << _SALT_SHIFT) | (dither << _DITHER_SHIFT)
    octave = leading_zeros(U)
    below = (U << octave) << _UNIT
    row = ((octave << _ROW_BITS) + (below >> (_u(64) - _ROW_BITS))) << _UNIT
    X = (below << _ROW_BITS) >> _HALF
    shape = table[row + _UNIT]
    q = (shape & _LOW_HALF) - ((X * ((shape >> _HALF) & _BEND)) >> _HALF)
    b = table[row] - ((X * q) >> (shape >> _u(58)))
    drawn = (~((h >> _u(33)) - rule[0]) >> _HALF) & _NEGATIVE
    return (encoded(b, rule[2]) | drawn) ^ (word & rule[1])


@inlined
def encoded(b: Any, largest: Any) -> Any:
    """Return the magnitude at ``b``; see `tensor.encode`."""
    n, short = b >> _HALF, b >> (_HALF - _FRACTION_BITS)
    short += _u((short & _FRACTION) == _ZERO)
    q = short if n < _FAR else n + (_LONG - _FAR)
    return q if q < largest else largest


@inlined
def in_lanes(first: Any, count: int, lanes: int) -> int:
    """Return how many of ``count`` elements from the index ``first`` on are done in vectors.

    The others are done one by one: those beyond the last whole vector, and all of them where
    their indices do not share their upper half.
    """
    carries = (first & _LOW_HALF) + _u(count) > _LOW_HALF
    return 0 if carries else count - count % lanes


@inlined
def make_room() -> Any:
    """Return the buffers for the visits of a block.

    They hold the packed words, their places, their inputs U, the rows of these, and marks of who is
    in Z. Like all buffers of the kernels they lie on the stack: an array of numba's own counts its
    references, with atomic instructions, wherever it is handed on.
    """
    return (
        array_at(stack(_WORDS_ROOM), (_SLOTS,), np.uint32),
        array_at(stack(_WORDS_ROOM), (_SLOTS,), np.uint32),
        array_at(stack(_LONGS_ROOM), (_SLOTS,), np.uint64),
        array_at(stack(_WORDS_ROOM), (_SLOTS,), np.int32),
        array_at(stack(_MARKS_ROOM), (BLOCK // LANES,), np.uint16),
    )


@inlined
def block_of(dtype: Any) -> Any:
    """Return room for the numbers of a block, on the stack."""
    return array_at(stack(_BLOCK_ROOM), (BLOCK,), dtype)


@inlined
def unowned(array: Any) -> Any:
    """Return an argument of a kernel without its owner, so that no references are counted.

    Whoever called the kernel keeps the array until it returns.
    """
    return array_at(pointer(np.int64(array.ctypes.data)), array.shape, array.dtype)


@inlined
def advance_rest(
    words: Words, out: Floats, start: int, first: Any, key: Any, table: Any, rule: Any, values: Any
) -> None:
    """Do as `advance_block` for the words from ``start`` on, fewer than one vector."""
    for i in range(start, len(words)):
        old = _u(words[i])
        q = old & _MAGNITUDE
        value = values[1] if q < _ONE else values[0]
        out[i] = -value if old >= _NEGATIVE else value
        if q < _ONE:
            new = visited(old, first + _u(i), key, table, rule)
        else:
            new = old - (_UNIT if q > _LONG else _ONE)
        words[i] = np.uint32(new)


@jitted
def advance_listed(
    words: Words, out: Floats, first: Any, key: Any, table: Any, rule: Any, values: Any
) -> None:
    """Write the values of a block of at most 512 words and advance them, in place.

    ``rule`` is (threshold, product mask, largest magnitude), ``values`` (c0, c1), ``first`` the
    index of words[0].
    """
    room = make_room()
    packed, marks = room[0], room[4]
    masks = marks.view(np.uint64)  # four marks of sixteen words each
    whole = in_lanes(first, len(words), LANES)
    masks[:] = _ZERO
    for i in range(0, whole, LANES):
        count_down_and_mark(words, i, out, values[0], values[1], marks)
    count = _ZERO
    for j in range((whole + 63) // 64):
        mask = masks[j]
        while mask != _ZERO:
            place = _u(64 * j) + trailing_zeros(mask)
            mask &= mask - _UNIT
            old = words[place] + np.uint32(ONE)  # it was counted down like all others
            packed[count] = old | np.uint32(place << _FRACTION_BITS)
            count += _UNIT
    take_visits(words, np.int64(count), room, first, key, table, rule)
    advance_rest(words, out, whole, first, key, table, rule, values)


@jitted
def advance_packed(
    words: Words, out: Floats, first: Any, key: Any, table: Any, rule: Any, values: Any
) -> None:
    """Do as `advance_listed`, where the CPU packs those in Z by itself."""
    room, whole, count = make_room(), in_lanes(first, len(words), LANES), 0
    for i in range(0, whole, LANES):
        count = count_down_and_pack(words, i, out, values[0], values[1], room[0], count)
    take_visits(words, count, room, first, key, table, rule)
    advance_rest(words, out, whole, first, key, table, rule, values)


@inlined
def take_visits(
    words: Words, count: int, room: Any, first: Any, key: Any, table: Any, rule: Any
) -> None:
    """Send ``count`` packed words on, eight at a time, and put them back into their places.

    The last eight may be fewer; then the very last takes its visit several times, to one end.
    """
    if count == 0:
        return
    packed, places, inputs, rows, _ = room
    last = packed[count - 1]
    for k in range(count, count + WIDE):
        packed[k] = last
    for k in range(0, count, WIDE):
        draw(packed, k, first, key, rule[0], rule[1], places, inputs, rows)
    for k in range(0, count, WIDE):
        send_on(packed, k, inputs, rows, table, rule[2], words, places)


advance_block: Any = advance_packed if PACKS else advance_listed


@jitted
def advance_values(
    words: Words,
    values: Floats,
    offset: int,
    key: Any,
    table: Any,
    threshold: Any,
    product: Any,
    largest: Any,
    c0: float,
    c1: float,
) -> None:
    """Write the values of all words and advance them one step, in place."""
    words, values, table = unowned(words), unowned(values), unowned(table)
    rule = (threshold, product, largest)
    for first in range(0, len(words), BLOCK):
        block, out = words[first : first + BLOCK], values[first : first + BLOCK]
        advance_block(block, out, _u(offset + first), key, table, rule, (c0, c1))


@jitted
def advance_copy(
    words: Words,
    following: Words,
    values: Floats,
    offset: int,
    key: Any,
    table: Any,
    threshold: Any,
    product: Any,
    largest: Any,
    c0: float,
    c1: float,
) -> None:
    """Write the values of all words, and the next words to ``following``."""
    words, following = unowned(words), unowned(following)
    values, table = unowned(values), unowned(table)
    rule = (threshold, product, largest)
    for first in range(0, len(words), BLOCK):
        block, out = following[first : first + BLOCK], values[first : first + BLOCK]
        old = words[first : first + BLOCK]
        for i in range(len(block)):  # numba copies a slice three times slower
            block[i] = old[i]
        advance_block(block, out, _u(offset + first), key, table, rule, (c0, c1))


@jitted
def advance_sums(
    words: Words,
    sums: Floats,
    steps: int,
    offset: int,
    keys: Any,
    table: Any,
    threshold: Any,
    product: Any,
    largest: Any,
    c0: float,
    c1: float,
) -> None:
    """Add the values of ``steps`` steps to ``sums``, step by step, and advance in place."""
    words, sums, table = unowned(words), unowned(sums), unowned(table)
    values, rule = block_of(sums.dtype), (threshold, product, largest)
    for first in range(0, len(words), BLOCK):
        block, out = words[first : first + BLOCK], sums[first : first + BLOCK]
        for k in range(steps):
            advance_block(block, values, _u(offset + first), keys[k], table, rule, (c0, c1))
            for i in range(len(block)):
                out[i] += values[i]


@jitted
def advance_tensors(
    words: Words,
    values: Floats,
    sizes: Any,
    keys: Any,
    step: Any,
    table: Any,
    threshold: Any,
    product: Any,
    largest: Any,
    c0: float,
    c1: float,
) -> None:
    """Write the values of all tensors of all runs and advance them one step, in place.

    Tensors lie one after the other, again and again of the same ``sizes``; each has its own key.
    """
    first = 0
    for k in range(len(keys)):
        last = first + sizes[k % len(sizes)]
        part, key = slice(first, last), step_key(keys[k], step)
        rule = (threshold, product, largest)
        advance_values(words[part], values[part], 0, key, table, *rule, c0, c1)
        first = last


@jitted
def write_terms(
    out: Floats, v: Floats, twin: Floats, places: Any, strengths: Floats, symmetric: Any
) -> None:
    """Write `update.term` of every row: strength times v, or times v - twin where ``symmetric``.

    ``out`` is (row, element), ``v`` and ``twin`` (seed, element); ``places`` has each row's seed.
    """
    for row in range(len(out)):
        place, strength = places[row], strengths[row]
        for i in range(out.shape[1]):
            scaled = v[place, i] * strength
            out[row, i] = scaled - twin[place, i] * strength if symmetric[row] else scaled


def arguments(driver: Driver) -> tuple[Any, np.uint64, np.uint64, np.uint64, float, float]:
    """Return the driver's constants in the order every kernel takes them."""
    return driver.table, *driver.rule, driver.laminar_value, driver.burst_value


def flat(tensor: Tensor) -> NDArray[Any]:
    """Return a contiguous tensor's memory as the kernels take it: words as unsigned integers."""
    array = tensor.view(-1).numpy()
    return array.view(np.uint32) if array.dtype == np.int32 else array
