"""The update as one numba pass over all contiguous float32 or float64 parameters of a group.

Block by block: the drivers' values go to small buffers while the block's states are in the
first-level cache, then the parameter is updated with the operations of `mpgd.optim.update`, in
their order and precision, so the bits are the same.

A parameter is a row of integers: addresses, a length, and what its hash needs.
One call takes all rows, because a call costs as much as a thousand elements.

Import this module only where numba is installed.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.ir as ir
import numba
import numpy as np
from numba import types

from mpgd.noise.counter import MULTIPLIER, STRIDE
from mpgd.noise.engines.fused import (
    BLOCK,
    Floats,
    advance_block,
    inlined,
    intrinsic,
    jitted,
    make_room,
)

# The columns of a row.
X, OTHER, S1, TWIN1, S2, TWIN2, LENGTH, OFFSET, KEY, TURN = range(10)
COLUMNS: Final = 10

array_at: Any = numba.carray  # type: ignore[attr-defined]

_u = np.uint64
_MULTIPLIER, _STRIDE, _HALF = _u(MULTIPLIER), _u(STRIDE), _u(32)


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@inlined
def mixed(x: Any) -> Any:
    """`mpgd.noise.counter.mix`."""
    x = (x ^ (x >> _HALF)) * _MULTIPLIER
    x = (x ^ (x >> _HALF)) * _MULTIPLIER
    return x ^ (x >> _HALF)


@inlined
def key_of(row: Any, number: int) -> Any:
    """Return the key of this step of driver ``number``."""
    own = mixed((_u(row[KEY]) + _STRIDE) ^ _u(number))
    return mixed(own + _u(row[TURN]) * _STRIDE)


@inlined
def fill(
    out: Floats, scratch: Floats, s: Floats, twin: Floats, first: int, last: int, room: Any,
    offset: int, keys: Any, table: Floats, rule: Any, scaled: Any,
) -> None:  # fmt: skip
    """Write one term's values for the elements from ``first`` to ``last``; a twin is subtracted.

    ``scaled`` is the strength times (c0, c1).
    """
    start = _u(offset + first)
    if len(twin) == 0:
        advance_block(s[first:last], out, room, start, keys[0], table, rule, scaled)
        return
    other = scratch[BLOCK:]
    advance_block(s[first:last], scratch, room, start, keys[0], table, rule, scaled)
    advance_block(twin[first:last], other, room, start, keys[1], table, rule, scaled)
    for i in range(last - first):
        out[i] = scratch[i] - other[i]


@inlined
def orbit(row: Any, column: int) -> Floats:
    """Return the states at the address in a column; none where it is 0."""
    length = row[LENGTH] if row[column] != 0 else 0
    return array_at(pointer(row[column]), (length,), np.float64)


@inlined
def within(row: Any, before: int, first: int, last: int) -> Any:
    """Return where a part of all rows begins and ends in a row that ``before`` elements precede."""
    return max(first - before, 0), min(last - before, row[LENGTH])


@jitted
def descend(
    rows: Any, first: int, last: int, like: Floats, eta: Any, shared: Any, has_shared: bool,
    table1: Floats, rule1: Any, scaled1: Any, table2: Floats, rule2: Any, scaled2: Any,
) -> None:  # fmt: skip
    """Set x <- x - eta g - m x + n in place; the column OTHER holds g, ``shared`` is a common m.

    Only the elements from ``first`` to ``last`` of all rows together are touched.
    """
    room, scratch = make_room(), np.empty(2 * BLOCK)
    m, n = np.full(BLOCK, shared, like.dtype), np.zeros(BLOCK, like.dtype)
    before = 0
    for row in rows:
        begin, end = within(row, before, first, last)
        before += row[LENGTH]
        x = array_at(pointer(row[X]), (row[LENGTH],), like.dtype)
        gradient = array_at(pointer(row[OTHER]), (row[LENGTH],), like.dtype)
        s1, twin1, s2, twin2 = orbit(row, S1), orbit(row, TWIN1), orbit(row, S2), orbit(row, TWIN2)
        keys1, keys2 = (key_of(row, 0), key_of(row, 2)), (key_of(row, 1), key_of(row, 3))
        multiplicative, additive = len(s1) > 0 or has_shared, len(s2) > 0
        for left in range(begin, end, BLOCK):
            right = min(left + BLOCK, end)
            if len(s1) > 0:
                fill(m, scratch, s1, twin1, left, right, room, row[OFFSET], keys1, table1, rule1,
                     scaled1)  # fmt: skip
            if additive:
                fill(n, scratch, s2, twin2, left, right, room, row[OFFSET], keys2, table2, rule2,
                     scaled2)  # fmt: skip
            old, g = x[left:right], gradient[left:right]
            if multiplicative and additive:
                for i in range(len(old)):
                    old[i] = ((old[i] - g[i] * eta) - m[i] * old[i]) + n[i]
            elif multiplicative:
                for i in range(len(old)):
                    old[i] = (old[i] - g[i] * eta) - m[i] * old[i]
            else:
                for i in range(len(old)):
                    old[i] = (old[i] - g[i] * eta) + n[i]


@jitted
def displace(
    rows: Any, first: int, last: int, like: Floats, shared: Any, has_shared: bool,
    table1: Floats, rule1: Any, scaled1: Any, table2: Floats, rule2: Any, scaled2: Any,
) -> None:  # fmt: skip
    """Set x <- x + (n - m old) in place; the column OTHER holds the parameter before the step.

    Only the elements from ``first`` to ``last`` of all rows together are touched.
    """
    room, scratch = make_room(), np.empty(2 * BLOCK)
    m, n = np.full(BLOCK, shared, like.dtype), np.zeros(BLOCK, like.dtype)
    before = 0
    for row in rows:
        begin, end = within(row, before, first, last)
        before += row[LENGTH]
        x = array_at(pointer(row[X]), (row[LENGTH],), like.dtype)
        start = array_at(pointer(row[OTHER]), (row[LENGTH],), like.dtype)
        s1, twin1, s2, twin2 = orbit(row, S1), orbit(row, TWIN1), orbit(row, S2), orbit(row, TWIN2)
        keys1, keys2 = (key_of(row, 0), key_of(row, 2)), (key_of(row, 1), key_of(row, 3))
        multiplicative, additive = len(s1) > 0 or has_shared, len(s2) > 0
        for left in range(begin, end, BLOCK):
            right = min(left + BLOCK, end)
            if len(s1) > 0:
                fill(m, scratch, s1, twin1, left, right, room, row[OFFSET], keys1, table1, rule1,
                     scaled1)  # fmt: skip
            if additive:
                fill(n, scratch, s2, twin2, left, right, room, row[OFFSET], keys2, table2, rule2,
                     scaled2)  # fmt: skip
            new, old = x[left:right], start[left:right]
            if multiplicative and additive:
                for i in range(len(old)):
                    new[i] = new[i] + (n[i] - m[i] * old[i])
            elif multiplicative:
                for i in range(len(old)):
                    new[i] = new[i] + -(m[i] * old[i])
            else:
                for i in range(len(old)):
                    new[i] = new[i] + n[i]
