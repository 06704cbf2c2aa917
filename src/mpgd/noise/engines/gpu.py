"""The words of a chaotic driver on a GPU, written in Triton.

They are those of `mpgd.noise.engines.tensor`, operation for operation. The bits of what is made of
them would change if a multiplication and an addition were fused into one rounding, so every launch
says ``enable_fp_fusion=False``. `gpu_displacement` displaces. These two files
import triton; one of that name beside them would be confused with the package.

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
from mpgd.noise.counter_hash import SIGNED_MULTIPLIER, SIGNED_STRIDE
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

_C = tl.constexpr
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
def _hash_round(h):
    return (h ^ _upper_half(h)) * _MULTIPLIER


@triton.jit
def _mixed(h):
    h = _hash_round(_hash_round(h))
    return h ^ _upper_half(h)


@triton.jit
def hash_element(index, key, salt):
    """`mpgd.noise.counter_hash.hash_elements`."""
    return _hash_round(_hash_round(((index ^ key) * _MULTIPLIER) ^ salt))


@triton.jit
def step_key(key, step):
    """`mpgd.noise.counter_hash.step_key`."""
    return _mixed(key + step * _STRIDE)


@triton.jit
def driver_key(key, number):
    """Return the key of a tensor's driver, `mpgd.noise.counter_hash.extend_key`."""
    return _mixed((key + _STRIDE) ^ number)


@triton.jit
def _leading_one(U):
    """Return the place of the highest bit set; `mpgd.noise.engines.tensor.leading_one` says why."""
    return ((U & ~(U >> 1)).to(tl.float32).to(tl.int32, bitcast=True) >> 23).to(tl.int64) - 127


@triton.jit
def looked_up(table, U, needed):
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
    h = hash_element(index, key, f << _SALT_SHIFT)
    upper = tl.where(f == 0, (h >> _DRAWN_SHIFT) & _FRACTION, _FRACTION - f)
    dither = (h ^ _upper_half(h)) & _LOW_HALF
    b = looked_up(table, (upper << _DITHER_BITS) | dither | 1, needed)
    q = _encoded(b, tl.load(rule + 2)).to(tl.int32)
    is_negative = ((h >> _SIGN_SHIFT) & _SIGN_MASK) >= tl.load(rule)
    return tl.where(is_negative, q | _NEGATIVE, q) ^ (words & tl.load(rule + 1).to(tl.int32))


@triton.jit
def advanced(words, index, key, table, rule, c0, c1, inside):
    """Return the values at this step and the words at the next; ``rule`` is a `head_rule`."""
    q = words & _MAGNITUDE
    visiting = q < _ONE
    value = tl.where(visiting, c1, c0)
    value = tl.where(words < 0, -value, value)
    new = _visited(words, index, key, table, rule, visiting & inside)
    return value, tl.where(visiting, new, words - tl.where(q > _LONG, 1, _ONE))


@triton.jit
def advance_words(words, following, out, key, rule, table, values, count, size: tl.constexpr):
    """Write the values of a block of words and the next words."""
    at = tl.program_id(0).to(tl.int64) * size + tl.arange(0, size)
    inside = at < count
    value, new = advanced(
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


def launch_words(
    driver: Driver, words: Tensor, following: Tensor, out: Tensor, key: Tensor
) -> None:
    """Write values and next words of contiguous tensors; ``following`` may be ``words``."""
    count, device = words.numel(), words.device
    rule = torch.tensor(head_rule(driver), device=device)
    c = torch.tensor([driver.laminar_value, driver.burst_value], dtype=out.dtype, device=device)
    table = driver.returns.pairs_on(device)
    if count:
        with on_device(words):
            advance_words[(triton.cdiv(count, BLOCK),)](
                words, following, out, key, rule, table, c, count, size=BLOCK, **OPTIONS
            )


def head_rule(driver: Driver) -> list[int]:
    """Return what a kernel knows of a visit: the sign's threshold and mask, the largest magnitude.

    The mask is that of the old sign, where signs are products.
    """
    return [driver.threshold, -NEGATIVE if driver.product else 0, driver.largest]


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Return what makes a tensor's device the one that a launch goes to."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
