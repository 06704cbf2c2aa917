"""Falling functions of a 50-bit number as rows of integers, the same bits on every CPU.

A number U in [1, 2^50) stands for u = U / 2^50. Its leading zeros (of 50 bits) say in which octave
it lies, the bits below its leading one in which row of the octave, and the 32 bits after those are
the position X in the row. A row is a quadratic, and its value a fixed-point number with 32 bits
behind the point:

    c0 - ((X * (t1 - (X * t2 >> 32))) >> sh)        unsigned, products of 32 x 32 bits

It takes 16 bytes, two words: c0, and t1 (32 bits), t2 (26 bits) and sh (6 bits) from the lowest up.
Octave 0, u in [1/2, 1), comes first.

Values at Chebyshev nodes come in high precision and are rounded once. After that there are only
additions and multiplications of doubles, which every CPU rounds alike, and integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.uint64]

INPUT_BITS: Final = 50
POINT_BITS: Final = 32  # behind the binary point of c0 and of a row's value
POSITION_BITS: Final = 32  # of X
SLOPE_BITS: Final = 32  # of t1
BEND_BITS: Final = 26  # of t2
LARGEST: Final = 2**30 + 2**12 - 1  # the longest phase a word can hold, see `mpgd.noise.word`

_DEGREE: Final = 2
_TOP: Final = 2.0**31  # a row that starts above is LARGEST throughout; c0 stays below 2^63
_u = np.uint64


def tabulate(
    function: Callable[[Any], Any], octaves: int, row_bits: int, parts: int, nodes: int
) -> Rows:
    """Return the rows of a falling ``function`` of u on [2^-octaves, 1), (row, word).

    Each octave is cut into ``parts`` panels; on each the function is interpolated at Chebyshev
    nodes, and the interpolant is cut into pieces, 2^row_bits an octave.
    """
    import mpmath as mp

    from mpgd.maps.abel import unit_nodes

    values: list[list[float]] = []
    for octave in range(octaves):
        if (
            values and min(values[-1]) >= _TOP
        ):  # the end of the last octave: all that follow is above
            values += [values[-1]] * parts
            continue
        for part in range(parts):
            u = [(1 + (part + x) / parts) * mp.mpf(2) ** (-octave - 1) for x in unit_nodes(nodes)]
            values.append([float(function(x)) for x in u])
    return from_values(np.array(values), row_bits, parts)


def from_values(values: Array, row_bits: int, parts: int = 1) -> Rows:
    """Return the rows of a falling function, given at the Chebyshev nodes of panels, (panel, node).

    An octave has ``parts`` panels and 2^row_bits rows.
    """
    return pack(*cut(values, 2**row_bits // parts))


def read(rows: Rows, row_bits: int, u: Array) -> Array:
    """Return the function that the rows hold at numbers u in (0, 1)."""
    _, _, c0, t1, t2 = _quadratics(rows, row_bits)
    mantissa, exponent = np.frexp(u)
    octave = np.minimum(-exponent, len(rows) // 2**row_bits - 1)
    place = (2.0 * mantissa - 1.0) * 2.0**row_bits
    row = octave * 2**row_bits + place.astype(np.int64)
    x = place - np.floor(place)
    return np.asarray(c0[row] - x * (t1[row] - x * t2[row]))


def solve(rows: Rows, row_bits: int, values: Array) -> Array:
    """Return the u in (0, 1) at which the rows have these values, from 0 to `LARGEST`."""
    edge, width, c0, t1, t2 = _quadratics(rows, row_bits)
    order = np.argsort(edge)  # u rises and c0 falls, but for the rows that are LARGEST throughout
    order = order[rows[order, 0] != LARGEST << POINT_BITS]
    place = np.searchsorted(-c0[order], -values, side="right") - 1
    row = order[np.maximum(place, 0)]
    fall = np.maximum(c0[row] - values, 0.0)
    root = np.sqrt(np.maximum(t1[row] * t1[row] - 4.0 * t2[row] * fall, 0.0))
    x = np.minimum(2.0 * fall / (t1[row] + root), 1.0)
    return np.asarray(edge[row] + width[row] * x)


def _quadratics(rows: Rows, row_bits: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return where each row begins, its width, and its c0, t1 and t2 as numbers."""
    number, shape = np.arange(len(rows)), rows[:, 1]
    octave, step = number >> row_bits, number & (2**row_bits - 1)
    sh = (shape >> _u(58)).astype(np.int64)
    t1, t2 = shape & _u(2**SLOPE_BITS - 1), (shape >> _u(SLOPE_BITS)) & _u(2**BEND_BITS - 1)
    return (
        np.ldexp(1.0 + step * 2.0**-row_bits, -1 - octave),
        np.ldexp(2.0**-row_bits, -1 - octave),
        np.ldexp(rows[:, 0].astype(np.float64), -POINT_BITS),
        np.ldexp(t1.astype(np.float64), -sh),
        np.ldexp(t2.astype(np.float64), -sh),
    )


def pack(c0: Array, c1: Array, c2: Array) -> Rows:
    """Return the rows of c0 + c1 x + c2 x^2 with c1 < 0 <= c2, where x = X / 2^32."""
    beyond = c0 >= _TOP
    c0, c1, c2 = np.where(beyond, ((0.0,), (-1.0,), (0.0,)), (c0, c1, c2))
    sh = _shift(-c1, c2)
    t1, t2 = (np.rint(np.ldexp(c, sh)).astype(np.uint64) for c in (-c1, c2))
    t1, t2 = np.minimum(t1, _u(2**SLOPE_BITS - 1)), np.minimum(t2, _u(2**BEND_BITS - 1))
    start = np.rint(np.ldexp(c0, POINT_BITS)).astype(np.uint64)
    start = np.maximum(start, _fall(t1, t2, sh.astype(np.uint64)))  # no value below 0
    rows = np.stack([start, t1 | (t2 << _u(32)) | (sh.astype(np.uint64) << _u(58))], axis=1)
    rows[beyond] = LARGEST << POINT_BITS, 1 << 58
    return rows.astype("<u8")


def _shift(c1: Array, c2: Array) -> NDArray[np.int32]:
    """Return the largest sh for which t1 = c1 2^sh and t2 = c2 2^sh fit their bits."""
    room = [bits - np.frexp(c)[1] for bits, c in ((SLOPE_BITS, c1), (BEND_BITS, c2))]
    return np.asarray(np.clip(np.minimum(*room), 1, 63))


def _fall(t1: Rows, t2: Rows, sh: Rows) -> Rows:
    """Return how far a row falls from its first position to its last."""
    X = _u(2**POSITION_BITS - 1)
    return np.asarray((X * (t1 - ((X * t2) >> _u(32)))) >> sh)


def cut(values: Array, pieces: int) -> tuple[Array, Array, Array]:
    """Cut the interpolant of each row of ``values``, (panel, node), into quadratics.

    Return their coefficients, lowest power first, in x in [0, 1) along the piece.
    """
    cosines, local_nodes, to_powers = _constants(values.shape[1])
    coefficients = [sum(values[:, k] * row[k] for k in range(len(row))) for row in cosines]
    samples = [
        _clenshaw(coefficients, (np.arange(pieces) + node) * (1.0 / pieces)) for node in local_nodes
    ]
    c0, c1, c2 = (
        sum(weight * sample for weight, sample in zip(w, samples, strict=True)).reshape(-1)
        for w in to_powers
    )
    return c0, c1, c2


def _clenshaw(coefficients: list[Array], x: Array) -> Array:
    """Return Chebyshev sums on [0, 1]; ``coefficients`` are per panel, result (panel, x)."""
    t = 4.0 * x - 2.0
    b1 = b2 = np.zeros((len(coefficients[0]), len(x)))
    for c in reversed(coefficients[1:]):
        b1, b2 = c[:, None] + t * b1 - b2, b1
    return coefficients[0][:, None] + 0.5 * t * b1 - b2


def _constants(nodes: int) -> tuple[Array, Array, Array]:
    """Return the cosine matrix, the local nodes and the matrix from samples to powers."""
    import mpmath as mp

    from mpgd.maps.abel import chebyshev_coefficients, unit_nodes

    identity = [[mp.mpf(i == k) for k in range(nodes)] for i in range(nodes)]
    columns = [chebyshev_coefficients(row) for row in identity]
    local = unit_nodes(_DEGREE + 1)
    vandermonde = mp.matrix([[x**power for power in range(_DEGREE + 1)] for x in local])
    inverse = vandermonde**-1
    return (
        np.array(columns, dtype=np.float64).T,
        np.array(local, dtype=np.float64),
        np.array(inverse.tolist(), dtype=np.float64),
    )
