"""The reference engine: torch operations on 32-bit and 64-bit integers, on any device.

The only floating point here are the values themselves, in the dtype that was asked for, and one
conversion to float32 that finds a leading one. So a device needs no float64 and no unsigned
integers. Eager tensors are gone through in chunks, which keeps temporaries small.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from mpgd.maps.rows import BEND_BITS, INPUT_BITS, POINT_BITS, POSITION_BITS
from mpgd.noise.capped import CappedLaw
from mpgd.noise.counter_hash import derived_key, flat_index, hash_elements, upper_bits
from mpgd.noise.driver import Driver, Table
from mpgd.noise.word import (
    DITHER_BITS,
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

Key = Tensor | int  # of all elements, or one each
Values = tuple[float | Tensor, float | Tensor]  # of a laminar phase and of Z

CHUNK = 1 << 17  # words worked on at a time on a CPU, so that temporaries stay in its cache
DEVICE_CHUNK = 1 << 18  # and elsewhere, so that they stay small beside the words
_LOW_HALF: Final = 0xFFFFFFFF
_HALF_INPUT: Final = INPUT_BITS // 2
_FRACTION_PART: Final = 2  # of a start's key: the fraction, where it has a hash of its own


def start(driver: Driver, index: Tensor, place_key: Key, sign_key: Key | None) -> Tensor:
    """Return the stationary words of the elements ``index``; no ``sign_key`` means all +1."""
    U = upper_bits(hash_elements(index, place_key), INPUT_BITS) | 1
    if driver.law is not None and driver.law.landings is not None:
        q = _start_in_cut_phase(
            driver, driver.law, U, index, derived_key(place_key, _FRACTION_PART)
        )
    else:
        if driver.law is not None:
            U = (driver.law.least + scaled(U, 2**INPUT_BITS - driver.law.least)) | 1
        U = U.clamp(min=1 << (INPUT_BITS - driver.starts.octaves))  # beyond, all are LONGEST
        q = encode(lookup(driver.starts, U), driver.largest)
    if sign_key is not None:
        q = q | drawn_sign(driver, hash_elements(index, sign_key))
    return q


def _start_in_cut_phase(
    driver: Driver, law: CappedLaw, U: Tensor, index: Tensor, fraction_key: Key
) -> Tensor:
    """Return stationary magnitudes where the phase length is capped below 4,096 steps.

    U gives n, the steps to go; another hash gives the last visit, of those that led to n or more.
    """
    ends = torch.from_numpy(law.ends.astype(np.int64)).to(U.device)
    widths = torch.from_numpy(law.widths.view(np.int64)).to(U.device)
    n = torch.searchsorted(ends, U >> (INPUT_BITS - 32), right=True)
    V = upper_bits(hash_elements(index, fraction_key), INPUT_BITS)
    b = lookup(driver.starts, scaled(V, widths[n]) | 1)
    f = ((b >> (POINT_BITS - FRACTION_BITS)) & FRACTION).clamp(min=1)
    q = (n << FRACTION_BITS) + torch.where(b >> POINT_BITS < law.longest, f, 0)
    return q.to(torch.int32)


def scaled(U: Tensor, width: Tensor | int) -> Tensor:
    """Return U width / 2^50 of two numbers of 50 bits, rounded down."""
    low = (1 << _HALF_INPUT) - 1
    a, b, c, d = U >> _HALF_INPUT, U & low, width >> _HALF_INPUT, width & low
    return a * c + ((a * d + b * c + ((b * d) >> _HALF_INPUT)) >> _HALF_INPUT)


def advance(
    driver: Driver,
    words: Tensor,
    key: Tensor | int,
    index: Tensor | None = None,
    values: Values | None = None,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Return the values at this step and the words at the next.

    Args:
        driver: the driver's constants.
        words: int32, any shape.
        key: the key of this step; flat words may have one each.
        index: the flat index of each element in its whole tensor; by default 0, 1, 2, ...
        values: what to return for chi = 1 in a laminar phase and in Z; by default c0 and c1.
        dtype: the dtype of the values.
    """
    if torch.compiler.is_compiling():
        index = flat_index(tuple(words.shape), words.device) if index is None else index
        values = _constants(driver, values, words, dtype)
        return _value(words, values), _everywhere(driver, words, key, index)
    out = torch.empty(words.shape, dtype=dtype, device=words.device)
    following = words.clone(memory_format=torch.contiguous_format)
    advance_into(driver, following, out, key, index, values)
    return out, following


def advance_into(
    driver: Driver,
    words: Tensor,
    out: Tensor,
    key: Tensor | int,
    index: Tensor | None = None,
    values: Values | None = None,
) -> None:
    """Write the values at this step to ``out`` and replace ``words`` by those of the next.

    Both are contiguous; the other arguments are those of `advance`.
    """
    old, out = words.view(-1), out.view(-1)
    indices = None if index is None else index.reshape(-1)
    keys_differ = isinstance(key, Tensor) and key.dim() > 0
    values = _constants(driver, values, words, out.dtype)
    on_cpu = words.device.type == "cpu"
    size, move = (CHUNK, _move_visitors_apart) if on_cpu else (DEVICE_CHUNK, _move_all)
    for first in range(0, old.numel(), size):
        part = slice(first, first + size)
        where = first if indices is None else indices[part]
        own_key = key[part] if keys_differ else key  # type: ignore[index]
        move(driver, old[part], out[part], own_key, where, values)


def _constants(
    driver: Driver, values: Values | None, words: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return both values as scalars of ``dtype`` on the words' device."""
    c0, c1 = (driver.laminar_value, driver.burst_value) if values is None else values
    return _scalar(c0, words, dtype), _scalar(c1, words, dtype)


def _scalar(x: float | Tensor, words: Tensor, dtype: torch.dtype) -> Tensor:
    if isinstance(x, Tensor):
        return x.to(words.device, dtype)
    return words.new_full((), x, dtype=dtype)


def _move_all(
    driver: Driver,
    words: Tensor,
    out: Tensor,
    key: Tensor | int,
    where: Tensor | int,
    values: tuple[Tensor, Tensor],
) -> None:
    """Take the step of a chunk, with a visit computed for all and used where there is one."""
    if isinstance(where, int):
        where = torch.arange(where, where + len(words), dtype=torch.int64, device=words.device)
    out.copy_(_value(words, values))
    words.copy_(_everywhere(driver, words, key, where))


def _value(words: Tensor, values: tuple[Tensor, Tensor]) -> Tensor:
    if values[0].dtype == torch.float64:
        words = words.to(torch.int64)
    value = torch.where(words & MAGNITUDE < ONE, values[1], values[0])
    return torch.where(words < 0, -value, value)


def _everywhere(driver: Driver, words: Tensor, key: Tensor | int, index: Tensor) -> Tensor:
    """Return the next words of all, without looking at any."""
    visiting = words & MAGNITUDE < ONE
    return torch.where(visiting, visit(driver, words, key, index), words - _fall(words))


def _fall(words: Tensor) -> Tensor:
    """Return what a laminar step takes from the words: 2^18, or 1 in long phases."""
    is_long = ((words & MAGNITUDE) - 1) >> 30  # 1 or 0; -1 only where a visit follows
    return ONE - is_long * (ONE - 1)


def _move_visitors_apart(
    driver: Driver,
    words: Tensor,
    out: Tensor,
    key: Tensor | int,
    where: Tensor | int,
    values: tuple[Tensor, Tensor],
) -> None:
    """Take the step of a chunk, with the visits to Z (a quarter of all) worked on alone."""
    # numpy compares and lists several times as fast as torch; both see the same memory.
    chosen = torch.from_numpy(np.flatnonzero((words.numpy() & MAGNITUDE) < ONE))
    _write_signed(out, words, values[0])
    visitors = words.index_select(0, chosen)
    words -= _fall(words)
    if not len(chosen):
        return
    out.scatter_(0, chosen, _write_signed(out.new_empty(len(chosen)), visitors, values[1]))
    if isinstance(key, Tensor) and key.dim() > 0:
        key = key.index_select(0, chosen)
    index = chosen + where if isinstance(where, int) else where.index_select(0, chosen)
    words.scatter_(0, chosen, visit(driver, visitors, key, index, skip_rare=True))


def _write_signed(out: Tensor, words: Tensor, value: Tensor) -> Tensor:
    """Write the value times chi to ``out``, and return it."""
    return out.copy_((words >> 31).bitwise_or_(1)).mul_(value)


def visit(
    driver: Driver, words: Tensor, key: Tensor | int, index: Tensor, skip_rare: bool = False
) -> Tensor:
    """Return the words after a visit to Z: B of a dithered argument, and a new sign.

    With ``skip_rare`` the host tests whether a rare case occurs, and skips its arithmetic if not.
    """
    f = (words & FRACTION).to(torch.int64)
    h = hash_elements(index, key, f << SALT_SHIFT)
    b = lookup(driver.returns, _argument(f, h, skip_rare))
    new = encode(b, driver.largest, skip_rare) | drawn_sign(driver, h)
    return new ^ (words & -NEGATIVE) if driver.product else new


def _argument(f: Tensor, h: Tensor, skip_rare: bool) -> Tensor:
    """Return U of a visit: 1 - s with the dither behind it."""
    upper = f ^ FRACTION
    if not (skip_rare and f.min() > 0):  # f = 0: not known, so drawn
        upper = torch.where(f == 0, (h >> DRAWN_SHIFT) & FRACTION, upper)
    dither = ((h >> 32) ^ h).bitwise_and_(_LOW_HALF)
    return dither.bitwise_or_(1).bitwise_or_(upper << DITHER_BITS)


def drawn_sign(driver: Driver, h: Tensor) -> Tensor:
    """Return words of which only chi is set, -1 with probability (1 - beta)/2."""
    drawn = (h >> (64 - SIGN_BITS)).to(torch.int32) & MAGNITUDE
    return (driver.threshold - 1 - drawn) & -NEGATIVE


def encode(b: Tensor, largest: int, skip_rare: bool = False) -> Tensor:
    """Return the magnitudes of the words at ``b``, numbers with 32 bits behind the point.

    Magnitudes rise with b, so the longest phase is the ``largest`` of them.
    """
    short = b >> (POINT_BITS - FRACTION_BITS)
    f = short & FRACTION
    if not (skip_rare and f.min() > 0):
        short = short + (f == 0)  # f = 0 is taken: "not known"
    if not (skip_rare and short.max() < min(LONG, largest)):
        n = b >> POINT_BITS
        short = torch.where(n < FAR, short, n + (LONG - FAR)).clamp(max=largest)
    return short.to(torch.int32)


def lookup(table: Table, U: Tensor) -> Tensor:
    """Return the table at every U in [1, 2^50), int64, with 32 bits behind the point."""
    flat = U.reshape(-1)  # indexing by a scalar would make the compiler want its value
    rows, row_bits = table.on(U.device), table.row_bits
    octave = INPUT_BITS - 1 - leading_one(flat)
    below = (flat << (octave + 1).to(torch.int64)).bitwise_and_((1 << INPUT_BITS) - 1)
    row = (octave << row_bits) | (below >> (INPUT_BITS - row_bits)).to(torch.int32)
    X = (below >> (INPUT_BITS - row_bits - POSITION_BITS)).bitwise_and_(_LOW_HALF)
    c0, shape = rows[0].index_select(0, row), rows[1].index_select(0, row)
    bend = (shape >> 32).bitwise_and_((1 << BEND_BITS) - 1).mul_(X).bitwise_right_shift_(32)
    fall = (shape & _LOW_HALF).sub_(bend).mul_(X)
    # The product fills all 64 bits. So the first of sh >= 1 shifts clears the sign bit.
    fall.bitwise_right_shift_(1).bitwise_and_(2**63 - 1)
    fall.bitwise_right_shift_((shape >> 58).bitwise_and_(63).sub_(1))
    return c0.sub_(fall).reshape(U.shape)


def leading_one(U: Tensor) -> Tensor:
    """Return the place of the highest bit set in positive integers, 0 for the lowest bit.

    It is the exponent of U as a float32. U may have more bits than a float32, but with the bit
    below each bit cleared it is at most 1.5 times a power of two and never rounds to the next.
    """
    return ((U & ~(U >> 1)).to(torch.float32).view(torch.int32) >> 23) - 127
