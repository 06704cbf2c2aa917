"""The displacement of many tensors as one launch on a GPU, written in Triton.

It is that of `mpgd.optim.displacement.reference`: in float32, one operation at a time, rounded once
where a parameter has a half type. The words are those of `mpgd.noise.engines.gpu`.

A launch gets everything that changes in one tensor of 64-bit integers, the sheet: a head with the
constants of the step, then one row for each tensor. Triton would round a Python float in its own
way and compile anew for some integers. So one compiled kernel serves all steps.

    head    numbers as the bits of float32: the shared m, strength times c0 and c1 of both drivers;
            then each driver's threshold, sign mask and largest magnitude
    row     the fields of `mpgd.noise.engines.cpu.Row`

The CPU writes the sheet and sends it in one copy; nothing waits for the GPU. Programs find their
work in a map from the program's number to (row, block of the row), which depends on the lengths
alone, so it is sent once and kept. With blocks of 512, tensors of 700 and 500 elements take three:

    program   0  1  2
    row       0  0  1
    block     0  1  0

Import this module only where triton is installed; `mpgd.noise.engines.has_triton` tells.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from mpgd.maps.normal import EXCESS, INPUT_SHIFT
from mpgd.maps.rows import INPUT_BITS
from mpgd.noise.driver import outside_modes
from mpgd.noise.engines.cpu import Row, Term
from mpgd.noise.engines.gpu import (
    BLOCK,
    OPTIONS,
    advanced,
    driver_key,
    hash_element,
    head_rule,
    looked_up,
    on_device,
    step_key,
)

KINDS: Final = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}

_C = tl.constexpr
_HEAD, _COLUMNS = _C(11), _C(9)  # integers of the head and of a row
_ORBIT, _LENGTH, _OFFSET, _KEY, _STEP = _C(1), _C(5), _C(6), _C(7), _C(8)  # in a row
_VALUES, _RULES = _C(1), _C(5)  # in the head
_INPUT_MASK = _C((1 << INPUT_BITS) - 1)
_NORMAL_SHIFT, _EXCESS, _HALF_EXCESS = _C(INPUT_SHIFT), _C(EXCESS), _C(1 << (EXCESS - 1))


@triton.jit
def _key_of(row, number: tl.constexpr):
    """Return the key of this step of driver ``number``, as `mpgd.noise.counter_hash` makes it."""
    return step_key(driver_key(tl.load(row + _KEY), number), tl.load(row + _STEP))


@triton.jit
def _number(head, place: tl.constexpr):
    return tl.load(head + place).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _value(
    head, row, at, inside, table, which: tl.constexpr, number: tl.constexpr, is_normal: tl.constexpr
):
    """Return strength times v of driver ``number``, and advance its words in place."""
    index, key = at + tl.load(row + _OFFSET), _key_of(row, number)
    c0, c1 = _number(head, _VALUES + 2 * which), _number(head, _VALUES + 1 + 2 * which)
    if is_normal:  # see `mpgd.noise.memoryless`
        h = hash_element(index, key, 0)
        z = looked_up(table, ((h >> _NORMAL_SHIFT) & _INPUT_MASK) | 1, inside)
        q = (z + _HALF_EXCESS) >> _EXCESS
        value = tl.where(h < 0, -q, q).to(tl.int32).to(tl.float32) * c0
    else:
        words = tl.load(row + _ORBIT + number).to(tl.pointer_type(tl.int32)) + at
        old = tl.load(words, mask=inside, other=0)
        rule = head + _RULES + 3 * which
        value, new = advanced(old, index, key, table, rule, c0, c1, inside)
        tl.store(words, new, mask=inside)
    return value


@triton.jit
def _term(
    head, row, at, inside, table, which: tl.constexpr, twins: tl.constexpr, is_normal: tl.constexpr
):
    """Return the term of driver ``which``, less its twin's."""
    value = _value(head, row, at, inside, table, which, which, is_normal)
    if twins:
        value = value - _value(head, row, at, inside, table, which, which + 2, is_normal)
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
def displace_rows(
    head,  # the sheet
    places,  # (row, block of the row) of every program
    table0,  # B's table of the multiplicative driver
    table1,  # that of the additive one
    kind: tl.constexpr,  # the type of the parameters
    has_shared: tl.constexpr,  # one m, in the head, multiplies all elements
    draws_m: tl.constexpr,  # each element has a multiplicative driver of its own
    draws_n: tl.constexpr,  # and an additive one
    twins: tl.constexpr,  # each of these has a twin
    normal_m: tl.constexpr,  # the multiplicative noise is normal and not chaotic
    normal_n: tl.constexpr,  # the additive one is
    size: tl.constexpr,  # how many elements a program works on
):
    """Displace one block of one tensor and advance its orbits."""
    place = places + 2 * tl.program_id(0)
    row = head + _HEAD + _COLUMNS * tl.load(place)
    at = tl.load(place + 1) * size + tl.arange(0, size)
    inside = at < tl.load(row + _LENGTH)
    stored: tl.constexpr = tl.int16 if kind == tl.bfloat16 else kind
    x_at = tl.load(row).to(tl.pointer_type(stored)) + at
    x = _float32(tl.load(x_at, mask=inside, other=0), kind)
    m = _number(head, 0)
    if draws_m:
        m = _term(head, row, at, inside, table0, 0, twins, normal_m)
    n = _number(head, 0)
    if draws_n:
        n = _term(head, row, at, inside, table1, 1, twins, normal_n)
    if draws_m or has_shared:
        x = x - m * x
    if draws_n:
        x = x + n
    tl.store(x_at, _rounded(x, kind), mask=inside)


def displace(
    rows: NDArray[np.int64],
    dtype: torch.dtype,
    device: torch.device,
    m: Term | None,
    n: Term | None,
    *,
    twins: bool,
) -> None:
    """Displace the rows (row, field) of one dtype on one device, as `mpgd.noise.engines.cpu` does.

    ``m`` and ``n`` are the terms of the displacement, at least one of them.
    """
    places = _block_places(tuple(rows[:, Row._fields.index("length")].tolist()), device)
    if not len(places):
        return
    has_shared = m is not None and m.driver is None
    numbers = [m.level if m is not None and has_shared else 0.0]
    drivers = [None if term is None else term.driver for term in (m, n)]
    rules: list[int] = []
    tables: list[Tensor] = []
    for term, driver in zip((m, n), drivers, strict=True):
        if term is None or driver is None:  # the kernel reads none of these
            numbers += [0.0, 0.0]
            rules += [0, 0, 0]
            tables.append(places)
        else:
            numbers += [term.level * driver.laminar_value, term.level * driver.burst_value]
            rules += head_rule(driver)
            tables.append(driver.returns.pairs_on(device))
    head = np.array(numbers, dtype=np.float32).view(np.int32).astype(np.int64)
    sheet = torch.from_numpy(np.concatenate([head, rules, rows.reshape(-1)]))
    if device.type != "cpu":
        sheet = sheet.pin_memory().to(device, non_blocking=True)
    with on_device(sheet):
        displace_rows[(len(places),)](
            sheet,
            places,
            *tables,
            KINDS[dtype],
            has_shared=has_shared,
            draws_m=drivers[0] is not None,
            draws_n=drivers[1] is not None,
            twins=twins,
            normal_m=drivers[0] is not None and drivers[0].is_normal,
            normal_n=drivers[1] is not None and drivers[1].is_normal,
            size=BLOCK,
            **OPTIONS,
        )


@lru_cache(maxsize=64)
def _block_places(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Return (row, block of the row) of every program, an int64 tensor (program, 2)."""
    counts = -(-np.array(lengths, dtype=np.int64) // BLOCK)
    rows = np.repeat(np.arange(len(counts)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.stack([rows, np.arange(len(rows)) - first], axis=1)
    with outside_modes():
        return torch.from_numpy(places).to(device)
