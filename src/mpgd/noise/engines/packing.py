"""Halves in numba's kernels: 16 bits become a float32 exactly, and a float32 becomes 16 bits.

Numba has no arithmetic of half types on a CPU, so both ways are integer arithmetic on the bits, in
loops that LLVM turns into vector code. `stochastic_rounding` explains the bits and the two ways to
round. Nearest rounding adds half of the last place, less one where that place is even.

Import this module only where numba is installed; `mpgd.noise.engines.has_numba` tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpgd.noise.engines.compiled import inlined, jitted
from mpgd.noise.engines.fused import BLOCK, Floats, Words, hash_element, in_lanes
from mpgd.noise.engines.intrinsics import hash_eight
from mpgd.noise.engines.vectors import WIDE
from mpgd.noise.stochastic_rounding import (
    BFLOAT_CUT,
    BFLOAT_INFINITY,
    BFLOAT_NAN,
    EXPONENT_SHIFT,
    FLOAT_CUT,
    FLOAT_INFINITY,
    FLOAT_NAN,
    IMPLICIT,
    LEAST_EXPONENT,
    MAGNITUDE,
    MANTISSA,
    RANDOM_BITS,
)

Halves = Any  # arrays of uint16

_u, _w = np.uint64, np.uint32
_MAGNITUDE, _MANTISSA, _IMPLICIT = _w(MAGNITUDE), _w(MANTISSA), _w(IMPLICIT)
_FLOAT_NAN32, _RANDOM_BITS, _HALF_BITS = _w(0x7F800000), _w(RANDOM_BITS), _w(16)
_BFLOAT_CUT, _FLOAT_CUT, _LOWEST = _w(BFLOAT_CUT), _w(FLOAT_CUT), _w(LEAST_EXPONENT)
_BFLOAT_INFINITY, _BFLOAT_NAN = _w(BFLOAT_INFINITY), _w(BFLOAT_NAN)
_FLOAT_INFINITY, _FLOAT_NAN = _w(FLOAT_INFINITY), _w(FLOAT_NAN)
_EXPONENT_SHIFT, _SIGN, _ONE, _ZERO = _w(EXPONENT_SHIFT), _w(0x8000), _w(1), _w(0)
_SMALLEST_NORMAL, _SPECIAL, _LIFT = _w(0x400), _w(0x7C00), _w(112 << 23)
_PLACE = np.float32(2.0**-24)  # the smallest float16 above 0
_RANDOM_SHIFT = _u(64 - RANDOM_BITS)


@inlined
def draw_bits(random: Words, first: Any, key: Any) -> None:
    """Write the random bits of elements from the index ``first`` on."""
    whole = in_lanes(first, len(random), WIDE)
    for i in range(0, whole, WIDE):
        hash_eight(random, i, first, key, _RANDOM_SHIFT - _u(32))
    for i in range(whole, len(random)):
        random[i] = _w(hash_element(first + _u(i), key, _u(0)) >> _RANDOM_SHIFT)


@inlined
def unpack(halves: Halves, out: Floats, is_bfloat: bool) -> None:
    """Write halves as float32 numbers."""
    bits = out.view(np.uint32)
    if is_bfloat:
        for i in range(len(halves)):
            bits[i] = _w(halves[i]) << _HALF_BITS
    else:
        for i in range(len(halves)):
            out[i] = np.float32(halves[i] & np.uint16(0x7FFF)) * _PLACE  # right below 2^-14
        for i in range(len(halves)):
            q = _w(halves[i]) & _w(0x7FFF)
            lift = _LIFT + _LIFT if q >= _SPECIAL else _LIFT
            magnitude = bits[i] if q < _SMALLEST_NORMAL else (q << _FLOAT_CUT) + lift
            bits[i] = magnitude | ((_w(halves[i]) & _SIGN) << _HALF_BITS)


@inlined
def pack_nearest(numbers: Floats, halves: Halves, is_bfloat: bool) -> None:
    """Write float32 numbers as the nearest halves."""
    bits = numbers.view(np.uint32)
    if is_bfloat:
        for i in range(len(halves)):
            halves[i] = np.uint16(nearest_bfloat(bits[i]))
    else:
        for i in range(len(halves)):
            halves[i] = np.uint16(nearest_float(bits[i]))


@inlined
def pack_by_chance(numbers: Floats, halves: Halves, random: Words, is_bfloat: bool) -> None:
    """Write float32 numbers as one of their two neighbours, as the random bits say."""
    bits = numbers.view(np.uint32)
    if is_bfloat:
        for i in range(len(halves)):
            a = bits[i] & _MAGNITUDE
            k = (a + (random[i] >> (_RANDOM_BITS - _BFLOAT_CUT))) >> _BFLOAT_CUT
            chosen = k | sign_of(bits[i])
            halves[i] = np.uint16(chosen if k < _BFLOAT_INFINITY else nearest_bfloat(bits[i]))
    else:
        for i in range(len(halves)):
            base, cut, shift = placed(bits[i])
            k = ((base + (random[i] >> (_RANDOM_BITS - cut))) >> cut) - shift
            chosen = k | sign_of(bits[i])
            halves[i] = np.uint16(chosen if k < _FLOAT_INFINITY else nearest_float(bits[i]))


@inlined
def sign_of(bits: Any) -> Any:
    """Return the sign as a half has it."""
    return (bits >> _HALF_BITS) & _SIGN


@inlined
def nearest_bfloat(bits: Any) -> Any:
    """Return the nearest bfloat16 of a float32."""
    a = bits & _MAGNITUDE
    k = (a + _w(0x7FFF) + ((a >> _BFLOAT_CUT) & _ONE)) >> _BFLOAT_CUT
    return (_BFLOAT_NAN if a > _FLOAT_NAN32 else k) | sign_of(bits)


@inlined
def nearest_float(bits: Any) -> Any:
    """Return the nearest float16 of a float32."""
    base, cut, shift = placed(bits)
    half = (_ONE << (cut - _ONE)) - _ONE
    k = ((base + half + ((base >> cut) & _ONE)) >> cut) - shift
    k = _FLOAT_NAN if bits & _MAGNITUDE > _FLOAT_NAN32 else min(k, _FLOAT_INFINITY)
    return k | sign_of(bits)


@inlined
def placed(bits: Any) -> Any:
    """Return what to add to and cut off for a float16: the number, the places, the exponent's."""
    a = bits & _MAGNITUDE
    exponent = a >> _w(23)
    if exponent >= _LOWEST:
        return a, _FLOAT_CUT, _EXPONENT_SHIFT
    cut = _LOWEST + _FLOAT_CUT - exponent
    beyond = cut - _RANDOM_BITS if cut > _RANDOM_BITS else _ZERO
    small = ((a & _MANTISSA) | _IMPLICIT) >> min(beyond, _w(31))
    return small, min(cut, _RANDOM_BITS), _ZERO


@jitted
def round_all(
    numbers: Floats, halves: Halves, offset: int, key: Any, is_bfloat: bool, first: int, last: int
) -> None:
    """Write float32 numbers as halves by chance, from ``first`` to ``last``."""
    random = np.empty(BLOCK, np.uint32)
    for left in range(first, last, BLOCK):
        right = min(left + BLOCK, last)
        own = random[: right - left]
        draw_bits(own, _u(offset + left), key)
        pack_by_chance(numbers[left:right], halves[left:right], own, is_bfloat)
