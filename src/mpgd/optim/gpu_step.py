"""The step of many tensors as one launch on a GPU, written in Triton.

The update is that of `mpgd.optim.update`: in float32, one operation at a time, rounded once where a
parameter has a half type. The words are those of `mpgd.noise.engines.gpu`.

A launch gets everything that changes in one tensor of 64-bit integers, the sheet: a head with the
constants of the step, then one row for each tensor. Triton would turn a Python float into a float32
of its own rounding and compile anew for some integers. What is read from a tensor does neither, so
one compiled kernel serves all steps and all learning rates.

    head    numbers as the bits of float32: what the direction is multiplied by, the shared m,
            strength times c0 and c1 of both drivers; then each driver's threshold, sign mask and
            largest magnitude; sign, weight decay, momentum and 1 - dampening; the first perturbed
            step
    row     the fields of `mpgd.optim.kernel_rows.Row`: addresses, length, offset, key, turn; the
            address of the momentum's buffer, and whether it is fresh

Programs find their work in a map from the program's number to (row, block of the row). So tensors
of any lengths share a launch, and a program never works on two of them.

Import this module only where triton is installed; `mpgd.noise.engines.has_triton` tells.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from mpgd.maps.normal import EXCESS, INPUT_SHIFT
from mpgd.maps.rows import INPUT_BITS
from mpgd.noise import stochastic_rounding as rounding
from mpgd.noise.engines.gpu import (
    BLOCK,
    OPTIONS,
    advanced,
    driver_key,
    hash_element,
    looked_up,
    on_device,
    step_key,
)
from mpgd.noise.word import MAGNITUDE

KINDS: Final = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}

_C = tl.constexpr
_HEAD, _COLUMNS = _C(17), _C(12)  # integers of the head and of a row
_LENGTH, _OFFSET, _KEY, _TURN, _BUFFER, _FRESH = (_C(6 + k) for k in range(6))  # in a row
_SIGN, _DECAY, _MOMENTUM, _SHARE, _START = (_C(12 + k) for k in range(5))  # in the head
_ROUNDING, _RANDOM_SHIFT = _C(rounding.DRIVER), _C(64 - rounding.RANDOM_BITS)
_RANDOM_BITS, _RANDOM_MASK = _C(rounding.RANDOM_BITS), _C((1 << rounding.RANDOM_BITS) - 1)
_MANTISSA, _IMPLICIT = _C(rounding.MANTISSA), _C(rounding.IMPLICIT)
_BFLOAT_CUT, _BFLOAT_INFINITY = _C(rounding.BFLOAT_CUT), _C(rounding.BFLOAT_INFINITY)
_FLOAT_CUT, _FLOAT_INFINITY = _C(rounding.FLOAT_CUT), _C(rounding.FLOAT_INFINITY)
_LOWEST, _EXPONENT_SHIFT = _C(rounding.LEAST_EXPONENT), _C(rounding.EXPONENT_SHIFT)
_INPUT_MASK, _MAGNITUDE = _C((1 << INPUT_BITS) - 1), _C(MAGNITUDE)
_NORMAL_SHIFT, _EXCESS, _HALF_EXCESS = _C(INPUT_SHIFT), _C(EXCESS), _C(1 << (EXCESS - 1))


@triton.jit
def _key_of(row, number: tl.constexpr):
    """Return the key of this step of driver ``number``, as `mpgd.noise.counter_hash` makes it."""
    return step_key(driver_key(tl.load(row + _KEY), number), tl.load(row + _TURN))


@triton.jit
def _number(head, place: tl.constexpr):
    return tl.load(head + place).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _own_term(head, row, at, inside, table, which: tl.constexpr, number: tl.constexpr):
    """Return strength times v of one driver, and advance its words in place."""
    words = tl.load(row + 2 + number).to(tl.pointer_type(tl.int32)) + at
    rule = head + 6 + 3 * which
    value, new = advanced(
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
def _normal_term(head, row, at, inside, table, which: tl.constexpr, number: tl.constexpr):
    """Return strength times a normal number, see `mpgd.noise.memoryless`."""
    index = at + tl.load(row + _OFFSET)
    h = hash_element(index, _key_of(row, number), 0)
    z = looked_up(table, ((h >> _NORMAL_SHIFT) & _INPUT_MASK) | 1, inside)
    q = (z + _HALF_EXCESS) >> _EXCESS
    return tl.where(h < 0, -q, q).to(tl.int32).to(tl.float32) * _number(head, 2 + 2 * which)


@triton.jit
def _term(
    head,
    row,
    at,
    inside,
    table,
    which: tl.constexpr,
    twins: tl.constexpr,
    is_normal: tl.constexpr,
):
    """Return the term of driver ``which``, less its twin's."""
    if is_normal:
        value = _normal_term(head, row, at, inside, table, which, which)
        if twins:
            value = value - _normal_term(head, row, at, inside, table, which, which + 2)
    else:
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
def _by_chance(x, kind: tl.constexpr, head, row, at):
    """Return float32 numbers rounded stochastically, as they are stored; see `noise.rounding`."""
    step = tl.load(row + _TURN) + tl.load(head + _START)
    key = step_key(driver_key(tl.load(row + _KEY), _ROUNDING), step)
    h = hash_element(at + tl.load(row + _OFFSET), key, 0)
    r = (h >> _RANDOM_SHIFT) & _RANDOM_MASK
    bits = x.to(tl.int32, bitcast=True).to(tl.int64)
    a = bits & _MAGNITUDE
    sign = (bits >> 16) & 0x8000
    if kind == tl.bfloat16:
        k = (a + (r >> (_RANDOM_BITS - _BFLOAT_CUT))) >> _BFLOAT_CUT
        stored = tl.where(k < _BFLOAT_INFINITY, (k | sign).to(tl.int16), _rounded(x, kind))
    else:
        exponent = a >> 23
        is_normal = exponent >= _LOWEST
        cut = tl.maximum(-(exponent - (_LOWEST + _FLOAT_CUT)), _FLOAT_CUT)
        beyond = tl.minimum(tl.maximum(cut - _RANDOM_BITS, 0), 31)
        base = tl.where(is_normal, a, ((a & _MANTISSA) | _IMPLICIT) >> beyond)
        cut = tl.minimum(cut, _RANDOM_BITS)
        k = (base + (r >> -(cut - _RANDOM_BITS))) >> cut  # a constant must not come first
        k = tl.where(is_normal, k - _EXPONENT_SHIFT, k)
        half = (k | sign).to(tl.int16).to(tl.float16, bitcast=True)
        stored = tl.where(k < _FLOAT_INFINITY, half, _rounded(x, kind))
    return stored


@triton.jit
def _directed(
    head,
    row,
    at,
    inside,
    x,
    g,
    kind: tl.constexpr,
    decays: tl.constexpr,
    keeps: tl.constexpr,
    nesterov: tl.constexpr,
):
    """Return the direction of `mpgd.optim.update.directed`, and replace the buffer."""
    stored: tl.constexpr = tl.int16 if kind == tl.bfloat16 else kind
    d = g * _number(head, _SIGN)
    if decays:
        d = d + x * _number(head, _DECAY)
    if keeps:
        b_at = tl.load(row + _BUFFER).to(tl.pointer_type(stored)) + at
        b = _float32(tl.load(b_at, mask=inside, other=0), kind)
        following = b * _number(head, _MOMENTUM) + d * _number(head, _SHARE)
        kept = _rounded(tl.where(tl.load(row + _FRESH) != 0, d, following), kind)
        tl.store(b_at, kept, mask=inside)
        b = _float32(kept, kind)
        d = d + b * _number(head, _MOMENTUM) if nesterov else b
    return d


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
    directs: tl.constexpr,
    decays: tl.constexpr,
    keeps: tl.constexpr,
    nesterov: tl.constexpr,
    rounds: tl.constexpr,
    normal_m: tl.constexpr,
    normal_n: tl.constexpr,
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
        directs: whether the direction is more than the gradient:
        decays: whether there is weight decay,
        keeps: whether there is a momentum with its buffer,
        nesterov: and whether that is Nesterov's.
        rounds: whether half types are rounded stochastically.
        normal_m: whether the multiplicative noise is normal and not chaotic.
        normal_n: whether the additive one is.
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
        m = _term(head, row, at, inside, table0, 0, twins, normal_m)
    n = _number(head, 1)
    if draws_n:
        n = _term(head, row, at, inside, table1, 1, twins, normal_n)
    if displaces:
        if draws_m or has_shared:
            shift = m * old
            x = x + (n - shift if draws_n else -shift)
        else:
            x = x + n
    else:
        d = old
        if directs:
            d = _directed(head, row, at, inside, x, old, kind, decays, keeps, nesterov)
        new = x - d * _number(head, 0)
        if draws_m or has_shared:
            new = new - m * x
        x = new + n if draws_n else new
    if rounds and kind != tl.float32:
        tl.store(x_at, _by_chance(x, kind, head, row, at), mask=inside)
    else:
        tl.store(x_at, _rounded(x, kind), mask=inside)


def launch_rows(
    sheet: Tensor, places: Tensor, tables: list[Tensor], dtype: torch.dtype, uses: dict[str, bool]
) -> None:
    """Update all rows of a sheet in one launch; ``uses`` are the flags of `step_rows`."""
    with on_device(sheet):
        step_rows[(len(places),)](
            sheet, places, *tables, KINDS[dtype], **uses, size=BLOCK, **OPTIONS
        )
