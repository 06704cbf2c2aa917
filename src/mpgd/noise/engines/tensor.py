"""The reference engine: plain torch operations on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from mpgd.maps.tables import (
    FIRST_ROW,
    LONGEST,
    OFFSET_MASK,
    ONE_BITS,
    ROW_SHIFT,
    SMALLEST_BITS,
)
from mpgd.noise.counter import flat_index, hash_chaotic, hash_elements, uniform, upper_bits
from mpgd.noise.driver import DITHER_BITS, SIGN_BITS, Driver

_SIGN_MASK = (1 << SIGN_BITS) - 1
CHUNK = 1 << 16  # states worked on at a time on a CPU, so that temporaries stay in its cache


def start(driver: Driver, index: Tensor, place_key: int, sign_key: int | None) -> Tensor:
    """Return the stationary states of the elements ``index``; no ``sign_key`` means all +1."""
    u = uniform(hash_elements(index, place_key))
    s = lookup(driver.starts.on(index.device), u.view(torch.int64)).abs().clamp(max=LONGEST)
    return s if sign_key is None else draw_sign(driver, s, hash_elements(index, sign_key))


def advance(
    driver: Driver, s: Tensor, key: Tensor | int, index: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the values at this step and the states at the next.

    Args:
        driver: the driver's constants.
        s: the states, float64, any shape.
        key: the key of this step; flat states may have one each.
        index: the flat index of each element in its whole tensor; by default 0, 1, 2, ...
    """
    if s.device.type == "cpu" and not torch.compiler.is_compiling():
        return _advance_in_chunks(driver, s, key, index)
    index = flat_index(tuple(s.shape), s.device) if index is None else index
    visiting = s.abs() < 1.0  # false for NaN, which is then counted down from LONGEST like inf
    chi = torch.copysign(torch.ones_like(s), s)
    value = torch.where(visiting, chi * driver.burst_value, chi * driver.laminar_value)
    longest = torch.where(s.abs() < LONGEST, s.abs(), LONGEST)
    counted = torch.copysign(longest - 1.0, s)  # for a visit to Z its magnitude is u = 1 - |s|
    return value, torch.where(visiting, visit(driver, counted, index, key), counted)


def _advance_in_chunks(
    driver: Driver, s: Tensor, key: Tensor | int, index: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same, with the visits to Z (a quarter of all) taken out and worked on alone."""
    values = torch.full_like(s, driver.laminar_value, memory_format=torch.contiguous_format)
    states = torch.empty_like(values)
    flat, indices = s.reshape(-1), None if index is None else index.reshape(-1)
    keys_differ = isinstance(key, Tensor) and key.dim() > 0
    for first in range(0, flat.numel(), CHUNK):
        part = slice(first, first + CHUNK)
        old, value, state = flat[part], values.view(-1)[part], states.view(-1)[part]
        value.copysign_(old)
        position = old.abs()
        chosen = (position < 1.0).nonzero().squeeze(1)
        torch.sub(torch.where(position < LONGEST, position, LONGEST), 1.0, out=state)
        state.copysign_(old)
        where = chosen + first if indices is None else indices[part].index_select(0, chosen)
        own_key = key[part].index_select(0, chosen) if keys_differ else key  # type: ignore[index]
        counted = state.index_select(0, chosen)
        chi = torch.copysign(torch.ones_like(counted), counted)
        value.index_copy_(0, chosen, chi * driver.burst_value)
        state.index_copy_(0, chosen, visit(driver, counted, where, own_key))
    return values, states


def visit(driver: Driver, counted: Tensor, index: Tensor, key: Tensor | int) -> Tensor:
    """Return the states after a visit to Z, given the counted-down ones of magnitude u.

    That is B with a dithered argument, and a new sign.
    """
    bits = counted.abs().view(torch.int64).clamp(SMALLEST_BITS, ONE_BITS)
    h = hash_chaotic(index, key, bits)
    dithered = bits ^ upper_bits(h, DITHER_BITS)
    s = draw_sign(driver, lookup(driver.returns.on(counted.device), dithered), h)
    return torch.where(torch.signbit(counted), -s, s) if driver.product else s


def draw_sign(driver: Driver, s: Tensor, h: Tensor) -> Tensor:
    """Return ``s`` with probability (1 + beta)/2, else its negative."""
    return torch.where((h & _SIGN_MASK) < driver.threshold, s, -s)


def lookup(table: Tensor, bits: Tensor) -> Tensor:
    """Return the polynomial of ``table``, (coefficient, row), at the doubles with these bits."""
    flat = bits.reshape(-1)  # indexing by a scalar would make the compiler want its value
    row = (flat >> ROW_SHIFT) - FIRST_ROW
    x = (flat & OFFSET_MASK).to(torch.float64)
    total = table[-1][row]
    for k in range(table.shape[0] - 2, -1, -1):
        total = total * x + table[k][row]
    return total.reshape(bits.shape)
