"""The kernel of `mpgd.optim.kernels` for bfloat16 and float16 parameters.

A block is unpacked to float32, updated by the same functions, and packed again: to nearest, or
stochastically by the bits of the counter hash. The momentum's buffer is a half too; it is packed to
nearest before the direction is taken from it, as `mpgd.optim.update.directed` does.

Import this module only where numba is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpgd.noise.engines.compiled import inlined, jitted
from mpgd.noise.engines.fused import (
    BLOCK,
    Floats,
    array_at,
    block_of,
    driver_key,
    step_key,
    unowned,
)
from mpgd.noise.engines.intrinsics import pointer
from mpgd.noise.engines.packing import draw_bits, pack_by_chance, pack_nearest, unpack
from mpgd.noise.stochastic_rounding import DRIVER
from mpgd.optim.kernels import (
    BUFFER,
    FRESH,
    KEY,
    LENGTH,
    OFFSET,
    OTHER,
    TURN,
    X,
    accumulate_block,
    borrowed,
    descend_block,
    displace_block,
    lead_block,
    within,
    write_term,
)

_u = np.uint64


@inlined
def halves_at(row: Any, column: int) -> Any:
    """Return the halves that a column of a row has the address of."""
    return array_at(pointer(row[column]), (row[LENGTH],), np.uint16)


@inlined
def direct_halves(
    d: Floats, x: Floats, g: Floats, b: Floats, kept: Any, fresh: bool, how: Any, is_bfloat: bool
) -> None:
    """Set d to the direction; ``kept`` is the buffer, and b room for it."""
    keeps = how[1][2]
    if keeps:
        unpack(kept, b, is_bfloat)
    accumulate_block(d, x, g, b, fresh, how)
    if keeps:
        pack_nearest(b, kept, is_bfloat)
        unpack(kept, b, is_bfloat)
    lead_block(d, b[: len(x)], how)


@inlined
def pack_block(numbers: Floats, halves: Any, random: Any, row: Any, left: int, kind: Any) -> None:
    """Write a block of the row back; ``kind`` is that of `step_half_rows`."""
    is_bfloat, rounds, start = kind
    if rounds:
        key = step_key(driver_key(_u(row[KEY]), _u(DRIVER)), _u(row[TURN] + start))
        draw_bits(random, _u(row[OFFSET] + left), key)
        pack_by_chance(numbers, halves, random, is_bfloat)
    else:
        pack_nearest(numbers, halves, is_bfloat)


@jitted
def step_half_rows(
    rows: Any,
    first: int,
    last: int,
    kind: Any,
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
    """Do as `mpgd.optim.kernels.step_rows` for halves.

    ``kind`` is (whether they are bfloat16, whether they are rounded stochastically, the first
    perturbed step); the other arguments are those of that function.
    """
    x, g, d, b = (
        block_of(np.float32),
        block_of(np.float32),
        block_of(np.float32),
        block_of(np.float32),
    )
    m, n, random = block_of(np.float32), block_of(np.float32), block_of(np.uint32)
    m[:], n[:] = shared, 0
    driver0, driver1 = borrowed(driver0), borrowed(driver1)
    multiplies, directs, is_bfloat = draws_m or has_shared, how[1][0], kind[0]
    before = 0
    for row in unowned(rows):
        begin, end = within(row, before, first, last)
        before += row[LENGTH]
        parameter, other, buffer = halves_at(row, X), halves_at(row, OTHER), halves_at(row, BUFFER)
        for left in range(begin, end, BLOCK):
            right = min(left + BLOCK, end)
            size = right - left
            block = parameter[left:right]
            unpack(block, x, is_bfloat)
            if multiplies or not displaces:
                unpack(other[left:right], g, is_bfloat)
            if draws_m:
                write_term(m, row, 0, twins, left, right, driver0)
            if draws_n:
                write_term(n, row, 1, twins, left, right, driver1)
            if displaces:
                displace_block(x[:size], g, m, n, multiplies, draws_n)
            elif directs:
                own = buffer[left:right]
                direct_halves(d, x[:size], g, b, own, row[FRESH] != 0, how, is_bfloat)
                descend_block(x[:size], d, m, n, eta, multiplies, draws_n)
            else:
                descend_block(x[:size], g, m, n, eta, multiplies, draws_n)
            pack_block(x[:size], block, random[:size], row, left, kind)
