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

    head    numbers as the bits of float32: what the direction is multiplied by, the shared m,
            strength times c0 and c1 of both drivers; then each driver's threshold, sign mask and
            largest magnitude; sign, weight decay, momentum and 1 - dampening; the first perturbed
            step
    row     the fields of `mpgd.optim.rows.Row`: addresses, length, offset, key, turn; the address
            of the momentum's buffer, and whether it is fresh

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

from mpgd.maps.normal import EXCESS, INPUT_SHIFT
from mpgd.maps.rows import BEND_BITS, INPUT_BITS, POINT_BITS, POSITION_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise import rounding
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
_HEAD, _COLUMNS = _C(17), _C(12)  # integers of the head and of a row
_LENGTH, _OFFSET, _KEY, _TURN, _BUFFER, _FRESH = (_C(6 + k) for k in range(6))  # in a row
_SIGN, _DECAY, _MOMENTUM, _SHARE, _START = (_C(12 + k) for k in range(5))  # in the head
_ROUNDING, _RANDOM_SHIFT = _C(rounding.DRIVER), _C(64 - rounding.RANDOM_BITS)
_RANDOM_BITS, _RANDOM_MASK = _C(rounding.RANDOM_BITS), _C((1 << rounding.RANDOM_BITS) - 1)
_MANTISSA, _IMPLICIT = _C(rounding.MANTISSA), _C(rounding.IMPLICIT)
_BFLOAT_CUT, _BFLOAT_INFINITY = _C(rounding.BFLOAT_CUT), _C(rounding.BFLOAT_INFINITY)
_FLOAT_CUT, _FLOAT_INFINITY = _C(rounding.FLOAT_CUT), _C(rounding.FLOAT_INFINITY)
_LOWEST, _EXPONENT_SHIFT = _C(rounding.LEAST_EXPONENT), _C(rounding.EXPONENT_SHIFT)
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
_NORMAL_SHIFT, _EXCESS, _HALF_EXCESS = _C(INPUT_SHIFT), _C(EXCESS), _C(1 << (EXCESS - 1))
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
def _normal_term(head, row, at, inside, table, which: tl.constexpr, number: tl.constexpr):
    """Return strength times a normal number, see `mpgd.noise.memoryless`."""
    index = at + tl.load(row + _OFFSET)
    h = _round(_round((index ^ _key_of(row, number)) * _MULTIPLIER))
    z = _looked_up(table, ((h >> _NORMAL_SHIFT) & _INPUT_MASK) | 1, inside)
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
    key = _mixed((tl.load(row + _KEY) + _STRIDE) ^ _ROUNDING)
    key = _mixed(key + step * _STRIDE)
    h = _round(_round(((at + tl.load(row + _OFFSET)) ^ key) * _MULTIPLIER))
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
