"""Counter-based randomness: a 64-bit hash instead of a generator.

Everything random in this package is a function of (seed, tensor, driver, element, step), and of a
stream where one is given. So it does not depend on the device, the number of threads, or how a
tensor is cut into shards. The mixer is rounds of "xor with the upper half, multiply by an odd
constant": two for a key, and three multiplications for an element. Torch has no unsigned 64-bit
arithmetic, so tensors hold the same bits as signed integers.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import torch
from torch import Tensor

from mpgd.parameters import MAX_SEED

MASK: Final = 2**64 - 1
MULTIPLIER: Final = 0xD6E8FEB86659FD93
STRIDE: Final = 0x9E3779B97F4A7C15  # between the counters of successive steps


def signed(x: int) -> int:
    """Return the 64 bits of ``x`` as a signed integer."""
    x &= MASK
    return x - 2**64 if x >= 2**63 else x


SIGNED_MULTIPLIER: Final = signed(MULTIPLIER)
SIGNED_STRIDE: Final = signed(STRIDE)


def mix(x: int) -> int:
    """Return the hash of one 64-bit integer."""
    x = _round(_round(x & MASK))
    return x ^ (x >> 32)


def _round(x: int) -> int:
    return ((x ^ (x >> 32)) * MULTIPLIER) & MASK


def make_key(*parts: int) -> int:
    """Return a signed 64-bit key for a tuple of integers, such as (seed, tensor, driver)."""
    key = 0
    for part in parts:
        key = extend_key(key, part)
    return key


def extend_key(key: int, part: int) -> int:
    """Return the key of a tuple with one more part, given the key of the tuple."""
    return signed(mix((key + STRIDE) ^ (part & MASK)))


def extend_key_tensor(key: Tensor, part: int) -> Tensor:
    """Return `extend_key` of an int64 tensor, with tensor operations only."""
    return _mix_tensor((key + SIGNED_STRIDE) ^ part)


def derived_key(key: int | Tensor, part: int) -> int | Tensor:
    """Return ``make_key(key, part)`` of a number, or of every number of an int64 tensor.

    Examples:
        >>> int(derived_key(torch.tensor(-5), 2)) == make_key(-5, 2)
        True
    """
    if isinstance(key, int):
        return make_key(key, part)
    return extend_key_tensor(_mix_tensor(key ^ SIGNED_STRIDE), part)


def stream_number(stream: int | str) -> int:
    """Return the 64 bits that stand for a stream; a name is hashed by BLAKE2b.

    Examples:
        >>> stream_number(7), stream_number("generator") == stream_number("discriminator")
        (7, False)
    """
    if isinstance(stream, int):
        return stream & MASK
    name = stream.encode(errors="surrogatepass")  # any text is a name, also one that is no UTF-8
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")


def seed_of(seed: int, stream: int | str | None) -> int:
    """Return the seed of one of the streams of ``seed``; without a stream, ``seed`` itself.

    Examples:
        >>> seed_of(3, None), seed_of(3, "a") == seed_of(3, "b")
        (3, False)
    """
    return seed if stream is None else make_key(seed, stream_number(stream)) & MAX_SEED


def step_key(key: int, step: int) -> int:
    """Return the key of one step of the stream ``key``, as a signed integer."""
    return signed(mix(key + step * STRIDE))


def step_key_tensor(key: Tensor, step: Tensor) -> Tensor:
    """Return `step_key` of int64 tensors, with tensor operations only (for `torch.compile`)."""
    return _mix_tensor(key + step * SIGNED_STRIDE)


def _mix_tensor(h: Tensor) -> Tensor:
    h = _round_tensor(_round_tensor(h))
    return h ^ upper_half(h)


def _round_tensor(h: Tensor) -> Tensor:
    return (h >> 32).bitwise_and_(0xFFFFFFFF).bitwise_xor_(h).mul_(SIGNED_MULTIPLIER)


def hash_elements(index: Tensor, key: Tensor | int, salt: Tensor | int = 0) -> Tensor:
    """Return 64 random bits per element; the upper ones are the best.

    Args:
        index: the element's flat index in its whole tensor, int64.
        key: the key of the step.
        salt: further bits that belong to the element, such as its present state.
    """
    return _round_tensor(_round_tensor(((index ^ key) * SIGNED_MULTIPLIER) ^ salt))


def upper_half(h: Tensor) -> Tensor:
    """Return the upper 32 bits, shifted down (a logical shift)."""
    return (h >> 32) & 0xFFFFFFFF


def upper_bits(h: Tensor, count: int) -> Tensor:
    """Return the upper ``count`` bits as a non-negative integer."""
    return (h >> (64 - count)) & ((1 << count) - 1)


def uniform(h: Tensor) -> Tensor:
    """Return the double (k + 1/2) / 2^52 in (0, 1) made of the upper 52 bits; it is exact."""
    return (upper_bits(h, 52).to(torch.float64) + 0.5) * 2.0**-52


def flat_index(shape: tuple[int, ...], device: torch.device | None = None) -> Tensor:
    """Return 0, 1, 2, ... in ``shape``."""
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, dtype=torch.int64, device=device).reshape(shape)
