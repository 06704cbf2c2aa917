"""The step of many tensors as one launch on a GPU, written in Triton.

This is the one file that imports triton; a file of that name beside it would be confused with the
package. The words are those of `mpgd.noise.engines.tensor`, operation for operation, and the update
is that of `mpgd.optim.update`: in float32, one operation at a time, rounded once where a parameter
has a half type. The bits would change if a multiplication and an addition were fused into one
rounding, so every launch says ``enable_fp_fusion=False``.

A launch gets everything that changes in one tensor of 64-bit integers, the sheet: a head with the
constants of the step, then one row for each tensor. Triton would turn a Python float into a float32
of its own rounding and compile anew for some integers. What is read from a tensor does neither, so
one compiled kernel serves all steps and all learning rates.

    head    numbers as the bits of float32: what the gradient is multiplied by, the shared m,
            strength times c0 and c1 of both drivers; then each driver's threshold, sign mask and
            largest magnitude
    row     the fields of `mpgd.optim.rows.Row`: addresses, length, offset, key, turn

Programs find their work in a map from the program's number to (row, block of the row). So tensors
of any lengths share a launch, and a program never works on two of them.

Import this module only where triton is installed; `mpgd.noise.engines.has_triton` tells.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from mpgd.maps.rows import BEND_BITS, INPUT_BITS, POINT_BITS, POSITION_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter import SIGNED_MULTIPLIER, SIGNED_STRIDE
from mpgd.noise.driver import Driver
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

INTERPRETED: Final = bool(triton.knobs.runtime.interpret)  # as it was when kernels were made
# Elements of one program. With 512 on 4 warps no register is spilled; 2048 would spill. The
# interpreter takes as long for a block of any length.
BLOCK: Final = 8192 if INTERPRETED else 512
OPTIONS: Final = {"num_warps": 4, "enable_fp_fusion": False}
KINDS: Final = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}

_C = tl.constexpr
_HEAD, _COLUMNS = _C(12), _C(10)  # integers of the head and of a row
_LENGTH, _OFFSET, _KEY, _TURN = _C(6), _C(7), _C(8), _C(9)  # in a row
_MULTIPLIER, _STRIDE = _C(SIGNED_MULTIPLIER), _C(SIGNED_STRIDE)
_LOW_HALF = _C(0xFFFFFFFF)
_ONE, _LONG, _FAR = _C(ONE), _C(LONG), _C(FAR)
_MAGNITUDE, _NEGATIVE = _C(MAGNITUDE), _C(-NEGATIVE)
_FRACTION, _SALT_SHIFT, _DRAWN_SHIFT = _C(FRACTION), _C(SALT_SHIFT), _C(DRAWN_SHIFT)
_SIGN_SHIFT, _SIGN_MASK = _C(64 - SIGN_BITS), _C((1 << SIGN_BITS) - 1)
_DITHER_BITS, _INPUT_BITS, _INPUT_MASK = _C(DITHER_BITS), _C(INPUT_BITS), _C((1 << INPUT_BITS) - 1)
_ROW_BITS, _ROW_SHIFT = _C(RETURN_ROW_BITS), _C(INPUT_BITS - RETURN_ROW_BITS)
_POSITION_SHIFT = _C(INPUT_BITS - RETURN_ROW_BITS - POSITION_BITS)
_BEND = _C((1 << BEND_BITS) - 1)
_POINT_BITS, _CUT = _C(POINT_BITS), _C(POINT_BITS - FRACTION_BITS)


@triton.jit
def _upper_half(h):
    return (h >> 32) & _LOW_HALF


@triton.jit
def _round(h):
    return (h ^ _upper_half(h)) * _MULTIPLIER


@triton.jit
def _mixed(h):
    h = _round(_round(h))
    return h ^ _upper_half(h)


@triton.jit
def _key_of(row, number: tl.constexpr):
    """Return the key of this step of driver ``number``, as `mpgd.noise.counter` makes it."""
    key = _mixed((tl.load(row + _KEY) + _STRIDE) ^ number)
    return _mixed(key + tl.load(row + _TURN) * _STRIDE)


@triton.jit
def _leading_one(U):
    """Return the place of the highest bit set; `mpgd.noise.engines.tensor.leading_one` says why."""
    return ((U & ~(U >> 1)).to(tl.float32).to(tl.int32, bitcast=True) >> 23).to(tl.int64) - 127


@triton.jit
def _looked_up(table, U, needed):
    """Return the table at U, with 32 bits behind the point; only read where ``needed``."""
    octave = _INPUT_BITS - 1 - _leading_one(U)
    below = (U << (octave + 1)) & _INPUT_MASK
    row = table + 2 * ((octave << _ROW_BITS) + (below >> _ROW_SHIFT))
    X = (below >> _POSITION_SHIFT) & _LOW_HALF
    c0 = tl.load(row, mask=needed, other=0)
    shape = tl.load(row + 1, mask=needed, other=0)
    bend = (X * ((shape >> 32) & _BEND)) >> 32
    fall = (X * (((shape & _LOW_HALF) - bend) & _LOW_HALF)).to(tl.uint64, bitcast=True)
    return c0 - (fall >> ((shape >> 58) & 63).to(tl.uint64)).to(tl.int64, bitcast=True)


@triton.jit
def _encoded(b, largest):
    """Return the magnitudes of the words at ``b``."""
    n, short = b >> _POINT_BITS, b >> _CUT
    short += ((short & _FRACTION) == 0).to(tl.int64)
    return tl.minimum(tl.where(n < _FAR, short, n + (_LONG - _FAR)), largest)


@triton.jit
def _visited(words, index, key, table, rule, needed):
    """Return the words after a visit to Z; what is not ``needed`` may be anything."""
    f = (words & _FRACTION).to(tl.int64)
    h = _round(_round(((index ^ key) * _MULTIPLIER) ^ (f << _SALT_SHIFT)))
    upper = tl.where(f == 0, (h >> _DRAWN_SHIFT) & _FRACTION, _FRACTION - f)
    dither = (h ^ _upper_half(h)) & _LOW_HALF
    b = _looked_up(table, (upper << _DITHER_BITS) | dither | 1, needed)
    q = _encoded(b, tl.load(rule + 2)).to(tl.int32)
    is_negative = ((h >> _SIGN_SHIFT) & _SIGN_MASK) >= tl.load(rule)
    return tl.where(is_negative, q | _NEGATIVE, q) ^ (words & tl.load(rule + 1).to(tl.int32))


@triton.jit
def _advanced(words, index, key, table, rule, c0, c1, inside):
    """Return the values at this step and the words at the next; ``rule`` is a `head_rule`."""
    q = words & _MAGNITUDE
    visiting = q < _ONE
    value = tl.where(visiting, c1, c0)
    value = tl.where(words < 0, -value, value)
    new = _visited(words, index, key, table, rule, visiting & inside)
    return value, tl.where(visiting, new, words - tl.where(q > _LONG, 1, _ONE))


@triton.jit
def _number(head, place: tl.constexpr):
    return tl.load(head + place).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _own_term(head, row, at, inside, table, which: tl.constexpr, number: tl.constexpr):
    """Return strength times v of one driver, and advance its words in place."""
    words = tl.load(row + 2 + number).to(tl.pointer_type(tl.int32)) + at
    rule = head + 6 + 3 * which
    value, new = _advanced(
        tl.load(words, mask=inside, other=0),
        at + tl.load(row + _OFFSET),
        _key_of(row, number),
        table,
        rule,
        _number(head, 2 + 2 * which),
        _number(head, 3 + 2 * which),
        inside,
    )
    tl.store(words, new, mask=inside)
    return value


@triton.jit
def _term(head, row, at, inside, table, which: tl.constexpr, twins: tl.constexpr):
    """Return the term of driver ``which``, less its twin's."""
    value = _own_term(head, row, at, inside, table, which, which)
    if twins:
        value = value - _own_term(head, row, at, inside, table, which, which + 2)
    return value


@triton.jit
def _float32(x, kind: tl.constexpr):
    """Return loaded elements as float32, exactly."""
    if kind == tl.bfloat16:
        number = (x.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:
        number = x.to(tl.float32)
    return number


@triton.jit
def _rounded(x, kind: tl.constexpr):
    """Return float32 numbers rounded to nearest, ties to even, as they are stored.

    Triton leaves it to the device how a float32 becomes a bfloat16, and its interpreter cuts off.
    So this is done on the bits: half of the last place is added, less one where that place is even.
    """
    if kind == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        half = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        stored = tl.where(x == x, half, 0x7FC0).to(tl.int16)  # a NaN must not round to infinity
    else:
        stored = x.to(kind)
    return stored


@triton.jit
def step_rows(
    head,
    places,
    table0,
    table1,
    kind: tl.constexpr,
    displaces: tl.constexpr,
    has_shared: tl.constexpr,
    draws_m: tl.constexpr,
    draws_n: tl.constexpr,
    twins: tl.constexpr,
    size: tl.constexpr,
):
    """Update one block of one tensor and advance its orbits.

    Args:
        head: the sheet.
        places: (row, block of the row) of every program.
        table0: B's table of the multiplicative driver.
        table1: that of the additive one.
        kind: the type of the parameters.
        displaces: add the perturbation only; the second address is then that of the old parameter.
        has_shared: whether one m, in the head, multiplies all elements.
        draws_m: whether each element has a multiplicative driver of its own.
        draws_n: whether it has an additive one.
        twins: whether each of these has a twin.
        size: how many elements a program works on.
    """
    place = places + 2 * tl.program_id(0)
    row = head + _HEAD + _COLUMNS * tl.load(place)
    at = tl.load(place + 1) * size + tl.arange(0, size)
    inside = at < tl.load(row + _LENGTH)
    stored: tl.constexpr = tl.int16 if kind == tl.bfloat16 else kind
    x_at = tl.load(row).to(tl.pointer_type(stored)) + at
    x = _float32(tl.load(x_at, mask=inside, other=0), kind)
    old = x
    if draws_m or has_shared or not displaces:
        other = tl.load(row + 1).to(tl.pointer_type(stored)) + at
        old = _float32(tl.load(other, mask=inside, other=0), kind)
    m = _number(head, 1)
    if draws_m:
        m = _term(head, row, at, inside, table0, 0, twins)
    n = _number(head, 1)
    if draws_n:
        n = _term(head, row, at, inside, table1, 1, twins)
    if displaces:
        if draws_m or has_shared:
            shift = m * old
            x = x + (n - shift if draws_n else -shift)
        else:
            x = x + n
    else:
        new = x - old * _number(head, 0)
        if draws_m or has_shared:
            new = new - m * x
        x = new + n if draws_n else new
    tl.store(x_at, _rounded(x, kind), mask=inside)


@triton.jit
def advance_words(words, following, out, key, rule, table, values, count, size: tl.constexpr):
    """Write the values of a block of words and the next words."""
    at = tl.program_id(0).to(tl.int64) * size + tl.arange(0, size)
    inside = at < count
    value, new = _advanced(
        tl.load(words + at, mask=inside, other=0),
        at,
        tl.load(key),
        table,
        rule,
        tl.load(values),
        tl.load(values + 1),
        inside,
    )
    tl.store(out + at, value, mask=inside)
    tl.store(following + at, new, mask=inside)


def launch_rows(
    sheet: Tensor, places: Tensor, tables: list[Tensor], dtype: torch.dtype, uses: dict[str, bool]
) -> None:
    """Update all rows of a sheet in one launch; ``uses`` are the flags of `step_rows`."""
    with _on(sheet):
        step_rows[(len(places),)](
            sheet, places, *tables, KINDS[dtype], **uses, size=BLOCK, **OPTIONS
        )


def launch_words(
    driver: Driver, words: Tensor, following: Tensor, out: Tensor, key: Tensor
) -> None:
    """Write values and next words of contiguous tensors; ``following`` may be ``words``."""
    count, device = words.numel(), words.device
    rule = torch.tensor(head_rule(driver), device=device)
    c = torch.tensor([driver.laminar_value, driver.burst_value], dtype=out.dtype, device=device)
    table = driver.returns.pairs_on(device)
    if count:
        with _on(words):
            advance_words[(triton.cdiv(count, BLOCK),)](
                words, following, out, key, rule, table, c, count, size=BLOCK, **OPTIONS
            )


def head_rule(driver: Driver) -> list[int]:
    """Return what a kernel knows of a visit: the sign's threshold and mask, the largest magnitude.

    The mask is that of the old sign, where signs are products.
    """
    return [driver.threshold, -NEGATIVE if driver.product else 0, driver.largest]


def _on(tensor: Tensor) -> AbstractContextManager[Any]:
    """Return what makes a tensor's device the one that a launch goes to."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
