"""The quantile function of a stable law as a table of integers, for draws from a hash.

The top bit of 64 random bits is the side, the 50 below it, the last one set, are U, u = U / 2^50:

    x = Q(1 - u/2) on the upper side,  -x = -Q(u/2) on the lower side;  both fall as u grows

Each side has 50 octaves of u with 128 rows of 16 bytes. A row is a parabola with an exponent:

    z = c0 - ((X (t1 - (X t2 >> 32))) >> sh)        X: the 31 bits of U after the row
    x = ((z + 2^15) >> 16) 2^(e - 30)

c0 has 64 bits, its lowest 8 are e; t1 has 32, sh 6 and t2, which is signed, 26 bits from the
lowest up. A tail is a power of u, and so is an octave of it: every octave has the same error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.stable.nodes import Array
from mpgd.stable.standard import quantile

Integers = NDArray[np.int64]

ROW_BITS: Final = 7
OCTAVES: Final = 50
NODES: Final = (48, 18)  # Chebyshev nodes of an octave, for alpha up to 1 and above
SMALLEST_ALPHA: Final = 0.25  # below, 2^(50/alpha) has no place in 8 bits of exponent
SHIFT: Final = 13  # where 64 random bits have U
POSITION_BITS: Final = 31
_POINT: Final = 46  # c0 is x 2^(46 - e)


@lru_cache(maxsize=32)
def quantile_rows(alpha: float, beta: float, shift: float = 0.0) -> Integers:
    """Return the rows of the law's own coordinate plus ``shift``, (side, row, word).

    The upper side comes first, and the octaves from the smallest u up.

    Examples:
        >>> quantile_rows(1.5, 0.5).shape
        (2, 6400, 2)
    """
    u = 2.0 ** -np.arange(OCTAVES, 0.0, -1)[:, None] * (1.0 + _nodes(NODES[alpha > 1.0]))
    half = 0.5 * u.ravel()
    low = quantile(half, 1.0 - half, alpha, beta) + shift
    high = quantile(1.0 - half, half, alpha, beta) + shift
    return np.stack([_side(high.reshape(u.shape)), _side(-low.reshape(u.shape))])


def draw_quantiles(rows: Integers, bits: NDArray[np.uint64]) -> Array:
    """Return the numbers at 64 random bits each.

    Examples:
        >>> rows = quantile_rows(1.0, 0.0)  # Cauchy: Q(3/4) = 1 at u = 1/2, upper side
        >>> float(np.round(draw_quantiles(rows, np.array([1 << 62], np.uint64)), 6)[0])
        1.0
    """
    lower = (bits >> np.uint64(63)).astype(np.int64)
    U = ((bits >> np.uint64(SHIFT)) & np.uint64(2**OCTAVES - 1)) | np.uint64(1)
    pattern = U.astype(np.float64).view(np.int64)  # exact: exponent, row and X one after the other
    row = (pattern >> (52 - ROW_BITS)) - (1023 << ROW_BITS)
    X = (pattern >> (52 - ROW_BITS - POSITION_BITS)) & (2**POSITION_BITS - 1)
    flat = rows.reshape(-1, 2)[(lower * (OCTAVES << ROW_BITS)) + row]
    c0, shape = flat[:, 0], flat[:, 1]
    slope = (shape & 0xFFFFFFFF) - ((X * (shape >> 38)) >> 32)
    z = (c0 - ((X * slope) >> ((shape >> 32) & 63)) + 2**15) >> 16
    x = np.ldexp(z.astype(np.float64), ((c0 & 255) - 30).astype(np.int32))
    return np.asarray(np.where(lower == 1, -x, x))


def _nodes(count: int) -> Array:
    """Return the Chebyshev nodes of [0, 1], rising."""
    k = np.arange(count)
    return np.asarray(0.5 - 0.5 * np.cos(math.pi * (2.0 * k + 1.0) / (2.0 * count)))


def _side(values: Array) -> Integers:
    """Return the rows of a falling function, given at the nodes of each octave."""
    c0, c1, c2 = _parabolas(values)
    top = np.abs(np.stack([c0, c0 + c1 + c2])).max(axis=0)
    e = np.clip(np.ceil(np.log2(np.maximum(top, 1e-9))) + 1.0, 0.0, 255.0).astype(np.int64)
    C0, C1, C2 = (np.ldexp(c, (_POINT - e).astype(np.int32)) for c in (c0, -c1, c2))
    # The fall is C1 x - C2 x^2; of a row that bends the other way the end is steepest.
    steepest = np.maximum(np.maximum(C1, C1 - C2), 1.0)
    room = np.minimum(
        32 - np.frexp(steepest * (1.0 + 2.0**-30))[1],
        25 - np.frexp(2.0 * np.maximum(np.abs(C2), 1e-9))[1],
    )
    sh = np.clip(room + POSITION_BITS, 0, 63).astype(np.int64)
    scale = (sh - POSITION_BITS).astype(np.int32)
    t1 = np.clip(np.rint(np.ldexp(C1, scale)), 0, 2**32 - 1).astype(np.int64)
    t2 = np.clip(np.rint(np.ldexp(2.0 * C2, scale)), -(2**25), 2**25 - 1).astype(np.int64)
    first = (np.rint(C0).astype(np.int64) & ~np.int64(255)) | e
    return np.stack([first, t1 | (sh << 32) | (t2 << 38)], axis=-1).reshape(-1, 2)


def _parabolas(values: Array) -> tuple[Array, Array, Array]:
    """Return the coefficients in x of [0, 1) along each row, (octave, row), lowest power first."""
    degree = np.arange(values.shape[1])
    t = 2.0 * _nodes(values.shape[1]) - 1.0
    to_coefficients = np.linalg.inv(np.cos(np.multiply.outer(np.arccos(t), degree)))
    rows = 2**ROW_BITS
    local = 0.5 - 0.5 * np.cos(math.pi * (2.0 * np.arange(3) + 1.0) / 6.0)
    x = (np.arange(rows)[:, None] + local) / rows
    basis = np.cos(np.multiply.outer(np.arccos(2.0 * x - 1.0), degree))
    samples = np.einsum("rkn,nm,om->ork", basis, to_coefficients, values)
    powers = np.einsum("pk,ork->por", np.linalg.inv(np.vander(local, 3, increasing=True)), samples)
    return powers[0], powers[1], powers[2]
