"""Stochastic rounding to bfloat16 and float16, from the counter hash.

Nearest rounding loses an update that is smaller than half a place of the last digit: a bfloat16 has
8 digits, so a step below 1/512 of a weight leaves it as it is, however many such steps there are.
Here y goes to one of its two neighbours, to the upper one with the chance that makes the mean y:

    r = 31 bits of the hash of (key, element, step)
    bits of |y| + (r shifted to the places that a half does not have), then these places are cut off

That is exact: of 2^16 equally likely r, as many carry as the cut places say. Of a float16 below
2^-14 more than 31 places may be cut; the chance is then right to 2^-31. A finite number becomes
infinite only where rounding to nearest makes it so; infinities and NaN stay what they are.

States of a parameter, such as moments, are rounded by the same hash. Their r are its two halves,
folded to 32 bits and mixed once more with a number made of the state's name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import torch
from torch import Tensor

from mpgd.noise.counter_hash import (
    hash_elements,
    make_key,
    step_key,
    stream_number,
    upper_bits,
    upper_half,
)
from mpgd.noise.engines import kernel_for
from mpgd.noise.engines.cpu import RoundingJob, Slot
from mpgd.parameters import check_integer, check_seed
from mpgd.sharding import Place, like, local, place_of

DRIVER: Final = 4  # drivers 0 to 3 are the noises and their twins
RANDOM_BITS: Final = 31
SIGN, MAGNITUDE, MANTISSA, IMPLICIT = 0x80000000, 0x7FFFFFFF, 0x7FFFFF, 0x800000
BFLOAT_CUT, BFLOAT_INFINITY = 16, 0x7F80  # places that a half does not have
FLOAT_CUT, FLOAT_INFINITY = 13, 0x7C00
LEAST_EXPONENT: Final = 113  # the biased exponent of 2^-14, where the normal numbers of float16 end
EXPONENT_SHIFT: Final = 112 << 10  # between the exponents of float32 and of float16
WORD: Final = 0xFFFFFFFF
FACTORS: Final = (0x7FEB352D, 0x846CA68B)  # of a hash of 32 bits
HALVES: Final = (torch.bfloat16, torch.float16)


def is_half(dtype: torch.dtype) -> bool:
    """Return whether numbers of ``dtype`` have 16 bits."""
    return dtype in HALVES


@lru_cache(maxsize=256)
def salt_of(name: str) -> int:
    """Return the number of a state's name, 32 bits and never 0."""
    return stream_number(name) & WORD | 1


def random_bits(h: Tensor, salt: int = 0) -> Tensor:
    """Return 31 random bits of each hash: of a parameter, or of the state that has the salt."""
    if salt == 0:
        return upper_bits(h, RANDOM_BITS)
    w = (((h & WORD) ^ upper_half(h) ^ salt) * FACTORS[0]) & WORD
    return (((w ^ (w >> 15)) * FACTORS[1]) & WORD) >> 1


def rounded(y: Tensor, h: Tensor, dtype: torch.dtype, salt: int = 0) -> Tensor:
    """Return float32 numbers rounded to a half type by the hashes of their elements, int64."""
    bits = y.view(torch.int32).to(torch.int64)
    a, r = bits & MAGNITUDE, random_bits(h, salt)
    if dtype == torch.bfloat16:
        k, infinity = (a + (r >> (RANDOM_BITS - BFLOAT_CUT))) >> BFLOAT_CUT, BFLOAT_INFINITY
    else:
        k, infinity = _float16(a, r), FLOAT_INFINITY
    sign = (bits >> 16) & (SIGN >> 16)
    halves = (k | sign).to(torch.int16).view(dtype)
    return torch.where(k < infinity, halves, y.to(dtype))


def _float16(a: Tensor, r: Tensor) -> Tensor:
    """Return the magnitudes of float16 at the magnitudes ``a`` of float32.

    Below 2^-14 the places of a float16 no longer move with the exponent, so more of them are cut.
    """
    exponent = a >> 23
    is_normal = exponent >= LEAST_EXPONENT
    cut = (LEAST_EXPONENT + FLOAT_CUT - exponent).clamp(min=FLOAT_CUT)
    small = ((a & MANTISSA) | IMPLICIT) >> (cut - RANDOM_BITS).clamp(0, 31)
    cut = cut.clamp(max=RANDOM_BITS)
    k = (torch.where(is_normal, a, small) + (r >> (RANDOM_BITS - cut))) >> cut
    return torch.where(is_normal, k - EXPONENT_SHIFT, k)


# Tensors, by the kernel where it takes them ------------------------------------------------------


class RoundedRow(NamedTuple):
    """A part of a parameter, and of its states, to be rounded."""

    slots: list[Slot]  # all of one size
    place: Place  # that of the parameter
    key: int  # of its rounding in this step
    first: int = 0  # element of the local part


def rounding_job(rows: list[RoundedRow]) -> RoundingJob | None:
    """Return some rows as the CPU's kernel takes them; None if it cannot take one."""
    made: list[tuple[list[Slot], int, int]] = []
    for slots, place, key, first in rows:
        if place.offset is None or kernel_for(None, slots[0].x.device) != "cpu":
            return None
        if not all([s.x.is_contiguous() and s.out.is_contiguous() for s in slots]):
            return None
        made.append((slots, key, place.offset + first))
    return RoundingJob(made)


def round_all(rows: list[RoundedRow]) -> None:
    """Round parts of parameters and of their states."""
    job = rounding_job(rows)
    if job is not None:
        job.run()
        return
    for slots, place, key, first in rows:
        flat = [
            Slot(x.contiguous(), torch.empty_like(out, memory_format=torch.contiguous_format), s)
            for x, out, s in slots
        ]
        job = rounding_job([RoundedRow(flat, place, key, first)])
        if job is not None:
            job.run()
        else:
            index = place.part_index(flat[0].x.device, slice(first, first + flat[0].x.numel()))
            h = hash_elements(index, key)
            for x, out, salt in flat:
                out.view(-1).copy_(rounded(x.view(-1), h, out.dtype, salt))
        for s, result in zip(slots, flat, strict=True):
            s.out.copy_(result.out)


def stochastic_round(
    x: Tensor, dtype: torch.dtype, *, seed: int, step: int, stream: int = 0
) -> Tensor:
    """Return ``x`` in a half type, each element rounded stochastically, without bias.

    The chance is a function of (seed, stream, element, step) alone. So the result does not depend
    on the device, the number of threads, or how a DTensor is sharded.

    Args:
        x: of dtype float32, any shape; a DTensor too.
        dtype: ``torch.bfloat16`` or ``torch.float16``.
        seed: of the chance.
        step: the number of the step; another one gives independent chances.
        stream: tells tensors apart that are rounded at the same step.

    Examples:
        >>> x = torch.full((100_000,), 1.001)  # its neighbours are 1 and 1.0078125
        >>> y = stochastic_round(x, torch.bfloat16, seed=0, step=0)
        >>> sorted(set(y.tolist())), round(float(y.float().mean()), 3)
        ([1.0, 1.0078125], 1.001)
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x must be a float32 tensor, got {x.dtype}; convert it by x.float()")
    if not is_half(dtype):
        raise ValueError(f"dtype must be torch.bfloat16 or torch.float16, got {dtype}")
    stream, step = check_integer("stream", stream, 0), check_integer("step", step, 0)
    key = step_key(make_key(check_seed(seed), stream, DRIVER), step)
    return like(x, round_part(x, dtype, key))


def round_part(x: Tensor, dtype: torch.dtype, key: int) -> Tensor:
    """Return the local part of a float32 tensor in a half type, given the key of the step."""
    part = local(x).detach().resolve_neg()
    out = torch.empty(part.shape, dtype=dtype, device=part.device)
    round_all([RoundedRow([Slot(part, out)], place_of(x), key)])
    return out
