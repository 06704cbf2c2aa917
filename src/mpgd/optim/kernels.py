"""The update as one compiled pass over all contiguous float32 or float64 parameters of a group.

Memory is what an update costs, so everything about an element is done while it is in the cache.
The kernel walks over blocks of 512 elements, a size whose buffers all fit into the first-level
cache. For each block the drivers write their terms m and n into small buffers and advance; then the
parameter is updated from them. At 1,025 elements a parameter is three blocks, of 512, 512 and 1.

The bits are those of `mpgd.optim.update`: the same operations, in the same order, in the
parameter's own precision, m and n rounded to it once. They would not be, if numba were allowed to
fuse a product and a sum (``fastmath``), if m and n were kept in float64, or if the operations of
``(x - g eta) - m x`` came in another order. An element's hash depends on its index in the whole
tensor, never on its block, so cuts between blocks, threads and shards do not show.

Threads share one call: each gets a range of the elements of all rows together, as if they stood
one after the other. With rows of 700 and 500 elements and the range from 512 to 1,024, a thread
does the last 188 elements of the first row and the first 324 of the second.

Import this module only where numba is installed.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import numpy as np

from mpgd.noise.engines.compiled import inlined, jitted
from mpgd.noise.engines.fused import (
    BLOCK,
    Floats,
    Words,
    advance_block,
    array_at,
    block_of,
    driver_key,
    step_key,
    unowned,
)
from mpgd.noise.engines.intrinsics import copy_past_cache, fence, pointer, prefetch
from mpgd.noise.engines.normals import write_normals
from mpgd.noise.engines.vectors import WIDE

Row = namedtuple("Row", "x other orbit0 orbit1 orbit2 orbit3 length offset key turn buffer fresh")

# The columns of a row, by name.
X: Final = Row._fields.index("x")
OTHER: Final = Row._fields.index("other")
FIRST_ORBIT: Final = Row._fields.index("orbit0")
LENGTH: Final = Row._fields.index("length")
OFFSET: Final = Row._fields.index("offset")
KEY: Final = Row._fields.index("key")
TURN: Final = Row._fields.index("turn")
BUFFER: Final = Row._fields.index("buffer")
FRESH: Final = Row._fields.index("fresh")
TWIN: Final = 2  # driver k has driver k + 2 as its twin
LINE: Final = 64  # bytes of a line of the cache

_u = np.uint64


@inlined
def orbit_of(row: Any, number: int) -> Words:
    """Return the orbit of a driver; it must not be read if the driver is not used."""
    return array_at(pointer(row[FIRST_ORBIT + number]), (row[LENGTH],), np.uint32)


@inlined
def key_of(row: Any, number: int) -> Any:
    """Return the key of this step of driver ``number``."""
    return step_key(driver_key(_u(row[KEY]), _u(number)), _u(row[TURN]))


@inlined
def prefetch_block(x: Floats, other: Floats, left: int, right: int) -> None:
    """Ask for the memory of a block, which then comes while its noise is made."""
    for i in range(left, right, LINE // x.itemsize):
        prefetch(x, i)
        prefetch(other, i)


@inlined
def borrowed(driver: Any) -> Any:
    """Return a driver whose table has no owner here."""
    table, rule, scaled, is_normal = driver
    return unowned(table), rule, scaled, is_normal


@inlined
def within(row: Any, before: int, first: int, last: int) -> Any:
    """Return where a part of all rows begins and ends in a row that ``before`` elements precede."""
    return max(first - before, 0), min(last - before, row[LENGTH])


@jitted
def write_term(
    out: Floats,
    row: Any,
    number: int,
    twins: bool,
    left: int,
    right: int,
    driver: Any,
) -> None:
    """Write a driver's term for the elements from ``left`` to ``right``, less its twin's.

    ``driver`` is (table, rule, strength times c0 and c1, whether it is normal). The difference of
    twins is taken in the parameter's precision.
    """
    table, rule, scaled, is_normal = driver
    if is_normal:
        write_normal_term(out, row, number, twins, left, right, table, scaled[0])
        return
    start, orbit = _u(row[OFFSET] + left), orbit_of(row, number)
    advance_block(orbit[left:right], out, start, key_of(row, number), table, rule, scaled)
    if twins:
        twin, other = orbit_of(row, number + TWIN), block_of(out.dtype)
        key = key_of(row, number + TWIN)
        advance_block(twin[left:right], other, start, key, table, rule, scaled)
        for i in range(right - left):
            out[i] = out[i] - other[i]


@inlined
def write_normal_term(
    out: Floats,
    row: Any,
    number: int,
    twins: bool,
    left: int,
    right: int,
    table: Any,
    unit: float,
) -> None:
    """Do the same for a normal noise, where the integer 1 stands for ``unit``."""
    start, size = _u(row[OFFSET] + left), right - left
    write_normals(out[:size], start, key_of(row, number), table, unit)
    if twins:
        other = block_of(out.dtype)
        write_normals(other[:size], start, key_of(row, number + TWIN), table, unit)
        for i in range(size):
            out[i] = out[i] - other[i]


@inlined
def descend_block(
    x: Floats, g: Floats, m: Floats, n: Floats, eta: Any, multiplies: bool, adds: bool
) -> None:
    """Set x <- ((x - g eta) - m x) + n; a term that is not there is left out, not added as 0."""
    if multiplies and adds:
        for i in range(len(x)):
            x[i] = ((x[i] - g[i] * eta) - m[i] * x[i]) + n[i]
    elif multiplies:
        for i in range(len(x)):
            x[i] = (x[i] - g[i] * eta) - m[i] * x[i]
    elif adds:
        for i in range(len(x)):
            x[i] = (x[i] - g[i] * eta) + n[i]
    else:
        for i in range(len(x)):
            x[i] = x[i] - g[i] * eta


@inlined
def accumulate_block(d: Floats, x: Floats, g: Floats, b: Floats, fresh: bool, how: Any) -> None:
    """Set d to the gradient with weight decay, and the buffer b to what follows from it.

    ``how`` is ((sign, weight decay, momentum, 1 - dampening), flags) of `rows.Numbers.direction`.
    """
    (sign, decay, momentum, share), (_, decays, keeps, _) = how
    for i in range(len(x)):
        d[i] = g[i] * sign
    if decays:
        for i in range(len(x)):
            d[i] = d[i] + x[i] * decay
    if keeps and fresh:
        for i in range(len(x)):
            b[i] = d[i]
    elif keeps:
        for i in range(len(x)):
            b[i] = b[i] * momentum + d[i] * share


@inlined
def lead_block(d: Floats, b: Floats, how: Any) -> None:
    """Let the buffer lead: d becomes b, or d plus momentum times b."""
    (_, _, momentum, _), (_, _, keeps, nesterov) = how
    if keeps and nesterov:
        for i in range(len(b)):
            d[i] = d[i] + b[i] * momentum
    elif keeps:
        for i in range(len(b)):
            d[i] = b[i]


@inlined
def displace_block(
    x: Floats, old: Floats, m: Floats, n: Floats, multiplies: bool, adds: bool
) -> None:
    """Set x <- x + (n - m old), where ``old`` is x before another optimizer's step."""
    if multiplies and adds:
        for i in range(len(x)):
            x[i] = x[i] + (n[i] - m[i] * old[i])
    elif multiplies:
        for i in range(len(x)):
            x[i] = x[i] + -(m[i] * old[i])
    else:
        for i in range(len(x)):
            x[i] = x[i] + n[i]


@jitted
def step_rows(
    rows: Any,
    first: int,
    last: int,
    like: Floats,
    eta: Any,
    how: Any,
    displaces: bool,
    shared: Any,
    has_shared: bool,
    draws_m: bool,
    draws_n: bool,
    twins: bool,
    driver0: Any,
    driver1: Any,
) -> None:
    """Update the elements from ``first`` to ``last`` of all rows together, and their orbits.

    Args:
        rows: one `Row` of integers for each parameter.
        first: where this part begins, counted over all rows.
        last: where it ends.
        like: an empty array of the parameters' dtype.
        eta: what the direction is multiplied by.
        how: how it is made of the gradient, see `accumulate_block`.
        displaces: add the perturbation only; the column OTHER then holds the old parameter.
        shared: m of the shared multiplicative driver, the same for every element.
        has_shared: whether there is one.
        draws_m: whether each element has a multiplicative driver of its own.
        draws_n: whether it has an additive one.
        twins: whether each of these has a twin.
        driver0: the constants of the multiplicative driver.
        driver1: those of the additive one.
    """
    m, n, d = block_of(like.dtype), block_of(like.dtype), block_of(like.dtype)
    m[:], n[:] = shared, 0
    driver0, driver1 = borrowed(driver0), borrowed(driver1)
    multiplies, directs, before = draws_m or has_shared, how[1][0], 0
    for row in unowned(rows):
        begin, end = within(row, before, first, last)
        before += row[LENGTH]
        x = array_at(pointer(row[X]), (row[LENGTH],), like.dtype)
        other = array_at(pointer(row[OTHER]), (row[LENGTH],), like.dtype)
        b = array_at(pointer(row[BUFFER]), (row[LENGTH],), like.dtype)
        for left in range(begin, end, BLOCK):
            right = min(left + BLOCK, end)
            prefetch_block(x, other, left, right)
            if draws_m:
                write_term(m, row, 0, twins, left, right, driver0)
            if draws_n:
                write_term(n, row, 1, twins, left, right, driver1)
            if displaces:
                displace_block(x[left:right], other[left:right], m, n, multiplies, draws_n)
            elif directs:
                own = b[left:right]
                accumulate_block(d, x[left:right], other[left:right], own, row[FRESH] != 0, how)
                lead_block(d, own, how)
                descend_block(x[left:right], d, m, n, eta, multiplies, draws_n)
            else:
                descend_block(x[left:right], other[left:right], m, n, eta, multiplies, draws_n)


@jitted
def copy_words(source: int, target: int, first: int, last: int) -> None:
    """Copy the words from ``first`` to ``last`` at one address to another, past the cache.

    A plain store reads the line it writes to, half as much memory again, and pushes others out of
    the cache. The target is aligned to 64 bytes, and ``first`` is a multiple of 8.
    """
    old = array_at(pointer(source), (last,), np.uint32)
    new = array_at(pointer(target), (last,), np.uint32)
    whole = last - last % WIDE
    for i in range(first, whole, WIDE):
        copy_past_cache(old, new, i)
    fence()
    for i in range(whole, last):
        new[i] = old[i]
