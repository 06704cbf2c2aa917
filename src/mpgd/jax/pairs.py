"""64-bit integers as pairs of uint32, and the counter hash on them.

Without x64 JAX has no 64-bit integers. Here a number is (high, low), and everything wraps around at
2^64. The functions are those of `mpgd.noise.counter_hash`, where the hash is explained.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mpgd.noise.counter_hash import MULTIPLIER, STRIDE, stream_number

Pair = tuple[Array, Array]

_HALF: Final = np.uint32(16)
_LOW_HALF: Final = np.uint32(2**16 - 1)


def pair(x: int | Array) -> Pair:
    """Return a Python integer, or an array of non-negative integers, as a pair."""
    if isinstance(x, int):
        return jnp.uint32(x >> 32 & 0xFFFFFFFF), jnp.uint32(x & 0xFFFFFFFF)
    x = jnp.asarray(x)
    high = x >> 32 if x.dtype.itemsize == 8 else jnp.zeros_like(x)
    return high.astype(jnp.uint32), x.astype(jnp.uint32)


def _constant(x: int) -> tuple[np.uint32, np.uint32]:
    return np.uint32(x >> 32), np.uint32(x & 0xFFFFFFFF)


_MULTIPLIER: Final = _constant(MULTIPLIER)
_STRIDE: Final = _constant(STRIDE)


def upper_product(a: Array, b: Array) -> Array:
    """Return the upper 32 bits of a product, from the products of 16-bit halves.

    None of the sums below passes 2^32: a product of halves is at most (2^16 - 1)^2.
    """
    a0, a1, b0, b1 = a & _LOW_HALF, a >> _HALF, b & _LOW_HALF, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOW_HALF)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)


def multiply(x: Pair, y: Pair) -> Pair:
    """Return the lower 64 bits of a product."""
    return upper_product(x[1], y[1]) + x[0] * y[1] + x[1] * y[0], x[1] * y[1]


def upper_pair(x: Pair, y: Pair) -> Pair:
    """Return the upper 64 of the 128 bits of a product, from four products of 32-bit halves."""
    nothing = jnp.zeros_like(x[1] * y[1])
    middle = add((nothing, upper_product(x[1], y[1])), (nothing, x[0] * y[1]))
    middle = add(middle, (nothing, x[1] * y[0]))
    total = upper_product(x[0], y[0]), x[0] * y[0]
    for part in (upper_product(x[0], y[1]), upper_product(x[1], y[0]), middle[0]):
        total = add(total, (nothing, part))
    return total


def add(x: Pair, y: Pair) -> Pair:
    """Return a sum."""
    low = x[1] + y[1]
    return x[0] + y[0] + (low < x[1]).astype(jnp.uint32), low


def subtract(x: Pair, y: Pair) -> Pair:
    """Return a difference."""
    return x[0] - y[0] - (x[1] < y[1]).astype(jnp.uint32), x[1] - y[1]


def xor(x: Pair, y: Pair) -> Pair:
    """Return the bits in which x and y differ."""
    return x[0] ^ y[0], x[1] ^ y[1]


def fold(x: Pair) -> Pair:
    """Return x ^ (x >> 32)."""
    return x[0], x[1] ^ x[0]


def mix(x: Pair) -> Pair:
    """Return the hash of a number."""
    x = multiply(fold(x), _MULTIPLIER)
    x = multiply(fold(x), _MULTIPLIER)
    return fold(x)


@jax.jit
def extend_key(key: Pair, part: Pair) -> Pair:
    """Return the key of a tuple with one more part, given the key of the tuple."""
    return mix(xor(add(key, _STRIDE), part))


def make_key(*parts: int | Array | Pair) -> Pair:
    """Return the key of a tuple of integers, such as (seed, tensor, driver)."""
    key = pair(0)
    for part in parts:
        key = extend_key(key, part if isinstance(part, tuple) else pair(part))
    return key


def seed_of(seed: int | Array, stream: int | str | None) -> int | Array | Pair:
    """Return the seed of one of the streams of ``seed``; without a stream, ``seed`` itself."""
    if stream is None:
        return seed
    high, low = make_key(seed, pair(stream_number(stream)))
    return high & np.uint32(2**31 - 1), low  # seeds have 63 bits


@jax.jit
def step_key(key: Pair, step: Array) -> Pair:
    """Return the key of one step of the stream ``key``."""
    return mix(add(key, multiply(pair(step), _STRIDE)))


def hash_elements(index: Array, key: Pair, salt: Pair | None = None) -> Pair:
    """Return 64 random bits per element; ``salt`` is what else the element knows."""
    h = multiply((key[0], key[1] ^ index), _MULTIPLIER)
    h = h if salt is None else xor(h, salt)
    h = multiply(fold(h), _MULTIPLIER)
    return multiply(fold(h), _MULTIPLIER)
